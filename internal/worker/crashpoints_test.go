package worker_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sandjet/sandjet/internal/e2b/local"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
)

// crashFaults are what strikes at each point.
var crashFaults = []string{"crash", "error", "lost", "pause:" + crashPause.String()}

// deploy is no fault: a worker is stopped in good order in the middle of a command. After
// a crash there, a second one would have the job quarantined.
const deploy = "deploy"

// behind are points that are reached only after something else went wrong: the
// rules that lead there. With a comma they are armed in the same worker, with a
// semicolon the first is of the worker before.
var behind = map[string]string{
	"e2b.list":          "e2b.create=lost,",
	"redis.park":        "e2b.create=error,",
	"e2b.get":           deploy + ";",
	"events.reattached": deploy + ";",
}

// unreached are points that the workload does not come to, each with the reason.
var unreached = map[string]string{
	"bucket.purge":  "chunks of an unfinished object, a day after",
	"bucket.remove": "a file that grows past WORKER_FILE_CAP while it is read",

	"e2b.metrics":         "no job asks for them",
	"e2b.timeout":         "a sandbox whose end is near: TestTimeoutIsPushed",
	"e2b.process.connect": "commands are joined by their spools, not by envd's own stream",
	"e2b.process.list":    "no job asks",
	"e2b.process.signal":  "the stop script signals the group",
	"e2b.files.mkdir":     "uploads make their parents",
	"e2b.files.readdir":   "no job asks",
	"e2b.files.remove":    "no job asks",

	"events.interrupted":      "a stop in good order: TestDeployInTheMiddle",
	"events.cancel_requested": "written by who asks, not by a worker",

	"session.lost":  "a sandbox that dies: TestSandboxDies",
	"session.error": "a template that does not exist: TestBadInput",

	"jobs.replay":       "asked for by people",
	"jobs.drop":         "asked for by people",
	"jobs.ack_advisory": "of consumers with a bound on deliveries, which ours are without",

	"github.installation": "of a GitHub App",
	"github.token":        "of a GitHub App",
	"github.edit":         "a pull request that is there with another text: TestEnsureAdopts",
	"github.review":       "the block names no reviewers: TestEnsureOpensOnce",

	"redis.slot_list": "asked for by who reads the metrics",
}

// sometimes are points whose turn comes with the clock: the workload may come to
// them or not.
var sometimes = map[string]string{
	"e2b.process.close_stdin": "of git's scripts, which may have ended by then",
	"e2b.health":              "of the rounds that look after sandboxes, every 30 s",
	"redis.slot_leaving":      "of a fleet at its limit: TestSandboxLimit",
	"redis.slot_quit":         "of a fleet at its limit: TestSandboxLimit",
	"redis.slot_refuse":       "of a quota that E2B refuses",
	"redis.slot_undo":         "of a creation that E2B refuses",
	"redis.rate_pause":        "of a rate that E2B refuses",
	"redis.due_done":          "of a deadline whose session went to sleep by another's hand",
	"redis.due_claim":         "of the rounds that look for deadlines",
	"redis.lease_take":        "of the rounds that reconcile",
	"redis.lease_drop":        "of the rounds that reconcile",
	"redis.sight":             "of the rounds that reconcile",
}

// crucial are the pairs that every run of the tests tries.
var crucial = []string{
	"e2b.create=crash", "e2b.create=lost", "e2b.create=pause", "e2b.connect=crash", "e2b.connect=lost",
	"e2b.pause=crash", "e2b.pause=lost", "e2b.kill=crash", "e2b.process.start=crash", "e2b.process.start=lost",
	"e2b.files.write=crash", "bucket.put=crash", "events.claimed=crash", "events.claimed=pause",
	"events.started=crash", "events.started=lost", "events.stdout=crash", "events.stdout=pause",
	"events.succeeded=crash", "events.succeeded=lost", "events.succeeded=pause", "events.retrying=crash",
	"audit.append=crash", "audit.append=lost", "jobs.ack=crash", "jobs.ack=error", "jobs.dead=crash", "jobs.reschedule=crash", "jobs.hasten=error",
	"session.provisioning=crash", "session.active=crash", "redis.enter=error", "redis.leave=crash",
	"redis.pause_end=error", "session.paused=error@2", "events.reattached=crash", "e2b.get=lost",
}

// strike runs the workload with rules armed in one worker after the other, until
// one is left alone, and checks what was promised.
func (s *crashSite) strike(t *testing.T, rules ...string) (all []*crasher, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), crashLimit)
	defer cancel()
	succession, enough := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { all = s.succession(succession, t, rules); return nil })
	err = s.load(ctx)
	if err == nil {
		err = s.settled(ctx)
	}
	enough()
	_ = g.Wait()
	for _, c := range all {
		if err == nil {
			err = s.over(ctx, c)
		}
	}
	if err == nil {
		err = s.verify(ctx)
	}
	if err != nil {
		for _, c := range all {
			t.Log(c.tail())
		}
	}
	return all, err
}

// over lets a worker that sleeps wake up, and finish.
func (s *crashSite) over(ctx context.Context, c *crasher) error {
	if err := until(ctx, "worker "+c.name+" wakes", func() error {
		if c.asleep() {
			return fmt.Errorf("it sleeps")
		}
		return nil
	}); err != nil {
		return err
	}
	return c.stop()
}

// Every boundary between an effect and its record, with every fault: the promises
// hold. CRASHPOINTS=all tries all pairs, CRASHPOINTS=<point>=<fault>[@<pass>],… some.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	_, err := pointsBinary()
	require.NoError(t, err)
	w := newGitWorld(t, func(c *local.Config) { c.Log = nil }).world
	reached := w.reached(t)
	known := allPoints(t)
	for _, p := range known {
		_, deep := behind[p]
		_, not := unreached[p]
		_, maybe := sometimes[p]
		if n := reached[p]; (n > 0 || deep) == not && !maybe {
			t.Errorf("point %s: passed %d times, behind another %t, in the table of the unreached %t", p, n, deep, not)
		}
	}
	for p := range reached {
		if strings.Contains(p, " ") {
			continue
		}
		if !slices.Contains(known, p) && !strings.HasPrefix(p, "redis.") {
			t.Errorf("point %s is passed, and not found in the code", p)
		}
	}
	if t.Failed() {
		return
	}
	pairs := crashPairs(t, reached)
	var g errgroup.Group
	g.SetLimit(atOnce(t))
	for i, rule := range pairs {
		g.Go(func() error {
			t.Run(rule, func(t *testing.T) { w.crash(t, "p"+strconv.Itoa(i), rule) })
			return nil
		})
	}
	_ = g.Wait()
	t.Logf("%d pairs of %d points", len(pairs), len(known)-len(unreached))
}

// A command that says no more after something that could not be stored is joined anew:
// what it said is stored while it runs, not when it ends.
func TestSilentCommandIsHeard(t *testing.T) {
	t.Parallel()
	s := newCrashSite(t, newGitWorld(t, func(c *local.Config) { c.Log = nil }).world, "silent")
	s.load, s.asleep, s.letters = s.unwanted, nil, 0
	all, err := s.strike(t, "events.stdout=error@1")
	require.NoError(t, err)
	require.True(t, all[0].fired("events.stdout=error@1"), "it has not struck")
}

// reached runs the workload without a fault and counts the points.
func (w *world) reached(t *testing.T) map[string]int {
	t.Helper()
	all, err := newCrashSite(t, w, "ref").strike(t)
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0].passed()
}

// crash tries one rule.
func (w *world) crash(t *testing.T, site, rule string) {
	point, _, _ := strings.Cut(rule, "=")
	rules := strings.Split(behind[point]+rule, ";")
	s := newCrashSite(t, w, site)
	s.frozen = strings.Contains(rule, "=pause")
	all, err := s.strike(t, rules...)
	require.NoError(t, err, "%s", rule)
	_, maybe := sometimes[point]
	if _, pass, ok := strings.Cut(rule, "@"); maybe || ok && pass != "1" {
		return // how often a point is passed is not certain
	}
	for _, c := range all {
		if c.fired(rule) {
			return
		}
	}
	t.Errorf("%s has not struck", rule)
}

// crashPairs says what to try: the crucial pairs, or what CRASHPOINTS says.
func crashPairs(t *testing.T, reached map[string]int) (rules []string) {
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("CRASHPOINTS_SEED"), "1"), 10, 64)
	require.NoError(t, err, "CRASHPOINTS_SEED")
	rnd := rand.New(rand.NewPCG(seed, 0))
	list := crucial
	if env := os.Getenv("CRASHPOINTS"); env != "" && env != "all" {
		list = strings.Split(env, ",")
	} else if env == "all" {
		list = nil
		for _, p := range slices.Sorted(slices.Values(append(keys(behind), keys(reached)...))) {
			for _, f := range crashFaults {
				list = append(list, p+"="+f)
				if n := reached[p]; n > 1 {
					list = append(list, p+"="+f+"@"+strconv.Itoa(2+rnd.IntN(n-1)))
				}
			}
		}
	}
	for _, rule := range list {
		if strings.HasSuffix(rule, "=pause") {
			rule += ":" + crashPause.String()
		}
		if !strings.Contains(rule, "@") {
			rule += "@1"
		}
		rules = append(rules, rule)
	}
	slices.Sort(rules)
	rules = slices.Compact(rules)
	rnd.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
	return rules
}

// atOnce is how many pairs are tried at a time: they wait more than they work.
func atOnce(t *testing.T) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("CRASHPOINTS_AT_ONCE"), "4"))
	require.NoError(t, err, "CRASHPOINTS_AT_ONCE")
	return n
}

func keys[V any](m map[string]V) (out []string) {
	for k := range m {
		if strings.Contains(k, ".") && !strings.Contains(k, " ") {
			out = append(out, k)
		}
	}
	return out
}

// allPoints reads the names of all points from the code. Where a name is made at
// run time, what it is made of is read: the kinds of event, the states of a
// session, E2B's calls, Redis's scripts. Of its plain commands, which mostly read,
// those count that the workload comes to.
func allPoints(t *testing.T) (all []string) {
	t.Helper()
	for _, k := range events.Kinds() {
		all = append(all, "events."+string(k))
	}
	for _, st := range session.States() {
		all = append(all, "session."+string(st))
	}
	for _, src := range []struct{ dir, room, pattern string }{
		{"../e2b", "e2b", `(?:const op = |op: +|(?:brief|unary)\(ctx, b, |return )"([a-z]+(?:[._][a-z_]+)*)"`},
		{"../git/github", "github", "`\\), \"([a-z]+)\"\\}"},
		{"../store", "redis", `newScript\((?:"[a-z_]+", )*"([a-z_]+)"\)`},
		{"../*", "", `point\.Of\("([a-z0-9_]+", "[a-z0-9_]+)"\)`},
	} {
		files, err := filepath.Glob(src.dir + "/*.go")
		require.NoError(t, err)
		before := len(all)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			if strings.HasSuffix(f, "_test.go") || strings.Contains(f, "/chaos/") { // of tests
				continue
			}
			for _, m := range regexp.MustCompile(src.pattern).FindAllStringSubmatch(string(text), -1) {
				name := strings.ReplaceAll(m[1], `", "`, ".")
				if src.room != "" {
					name = src.room + "." + name
				}
				all = append(all, name)
			}
		}
		require.Greater(t, len(all), before, src.pattern)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
