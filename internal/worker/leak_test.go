package worker_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// hidden are the secrets that are looked for.
var hidden = map[string]string{
	"plain":   "planted-ZK7rTq94WmXe2LvB",
	"awkward": `pl"anted\ZK8 %ü&rTq95'WmXe3LvC`,
	"lines":   "-----PLANTED-----\nZK9rTq96WmXe4LvDfirst\nZK0rTq97WmXe5LvEsecond\n-----END-----",
}

// forms are the ways in which a leak is looked for: whole, in halves, and as tools write
// it.
func leakForms() map[string]string {
	out := map[string]string{}
	for name, v := range hidden {
		text, _ := json.Marshal(v)
		b64 := base64.StdEncoding.EncodeToString([]byte(v))
		out[name] = v
		out[name+" first half"] = v[:len(v)/2]
		out[name+" second half"] = v[len(v)/2:]
		out[name+" json"] = strings.Trim(string(text), `"`)
		out[name+" query"] = url.QueryEscape(v)
		out[name+" path"] = url.PathEscape(v)
		out[name+" percent"] = percented(v)
		out[name+" hex"] = hex.EncodeToString([]byte(v))
		out[name+" base64"] = strings.TrimRight(b64, "=")[:len(b64)-4]
		out[name+" base64 shifted"] = base64.StdEncoding.EncodeToString([]byte("x" + v))[4:20]
	}
	return out
}

func percented(v string) string {
	var b strings.Builder
	for i := range len(v) {
		fmt.Fprintf(&b, "%%%02x", v[i])
	}
	return b.String()
}

// tell is a command that writes secrets in many ways, to both outputs.
const tell = `for v in "$PLAIN" "$AWKWARD" "$LINES"; do
	echo "<$v>"; echo "error: $v refused" >&2
	printf %s "$v" | base64 -w0; echo
	printf "x%s" "$v" | base64; printf %s "$v" | od -An -v -tx1 | tr -d " \n"; echo
	printf %s "$v" | od -An -v -tx1 | tr -d "\n" | tr " " "%"; echo
	printf %s "$v" | sed "s/\\\\/\\\\\\\\/g; s/\"/\\\\\"/g"; echo
	n=$((${#v} / 2)); printf %s "$v" | head -c $n; sleep 0.3; printf %s "$v" | tail -c +$((n + 1)); echo
done
exit 3`

// hits counts where forms of the secrets were found.
type hits struct {
	t     *testing.T
	forms map[string]string
	count map[string]int
	quiet bool
}

func (h *hits) look(place string, text []byte) {
	for form, needle := range h.forms {
		if bytes.Contains(text, []byte(needle)) {
			h.count[place]++
			if !h.quiet {
				h.t.Errorf("%s: holds %s", place, form)
			}
		}
	}
}

// hunt runs jobs that tell secrets, fail, die and are taken over, and looks for the
// secrets in everything that is left of them.
func hunt(t *testing.T, off bool) map[string]int {
	w := newWorld(t)
	rec := w.recorder()
	found := &hits{t: t, forms: leakForms(), count: map[string]int{}, quiet: off}
	env := []string{"WORKER_ACK_WAIT=2s", "E2B_API_URL=" + rec.url, "E2B_SANDBOX_URL=" + rec.url}
	for name, v := range hidden {
		env = append(env, "WORKER_SECRET_"+strings.ToUpper(name)+"="+v)
	}
	if off {
		env = append(env, "SANDJET_OFF=masking")
	}
	refs := map[string]string{"PLAIN": "plain", "AWKWARD": "awkward", "LINES": "lines"}
	first := w.spawnPoints("first", env...)
	made := w.follow(w.publish(jobs.SandboxProvision, &jobs.Provision{
		Common: jobs.Common{Session: "s1"}, Secrets: map[string]string{"LINES": "lines"},
	}))
	require.Equal(t, events.Succeeded, made.Kind, "%+v", made.Outcome)
	var over []events.Job
	job := w.publish(jobs.TaskRun, secretRun("s1", tell, refs))
	e := w.follow(job)
	require.Equal(t, events.Failed, e.Kind, "%+v", e.Outcome)
	require.Equal(t, !off, e.Masked)
	over = append(over, job)
	job = w.publish(jobs.TaskRun, &jobs.Run{
		Common: jobs.Common{Session: "s1", MaxAttempts: 1}, Secrets: refs,
		Shell: `echo "$PLAIN"; echo "$AWKWARD" >&2; kill -9 $PPID; sleep 1`,
	})
	e = w.follow(job)
	require.Equal(t, events.Dead, e.Kind, "%+v", e.Outcome)
	over = append(over, job)
	job = w.publish(jobs.FileDownload, &jobs.File{Common: jobs.Common{Session: "s1"}, Path: "none", Object: "o"})
	require.Equal(t, events.Dead, w.follow(job).Kind)

	// Taken over in the middle, between two halves.
	job = w.publish(jobs.TaskRun, secretRun("s1", strings.ReplaceAll(halves, "$T", "$PLAIN"), refs))
	require.Eventually(t, func() bool {
		h, err := w.facts.History(t.Context(), job)
		return err == nil && h.Stderr.Offset > 0
	}, eventually, tick)
	found.look("processes", w.beside(t))
	first.Kill()
	second := w.spawnPoints("second", env...)
	letGo(t, w)
	e = w.follow(job)
	require.Equal(t, events.Succeeded, e.Kind, "%+v", e.Outcome)
	over = append(over, job)

	for _, job := range over {
		e := w.follow(job)
		found.look("output", e.Stdout)
		found.look("output", e.Stderr)
	}
	w.lookIntoStreams(found)
	found.look("redis", w.redisText(t))
	found.look("log", first.said())
	found.look("log", second.said())
	for _, a := range rec.all() {
		if !strings.Contains(a, ".env") { // their own request
			found.look("requests to E2B", []byte(a))
		}
	}
	if off {
		return found.count
	}
	var left []byte
	require.Eventually(t, func() bool { // the spools are taken away in the background
		left = w.leftovers(t)
		probe := &hits{t: t, forms: found.forms, count: map[string]int{}, quiet: true}
		probe.look("sandbox", left)
		return len(probe.count) == 0
	}, eventually, 500*time.Millisecond)
	return found.count
}

// inBox runs a line in the sandbox of s1, past the worker, and returns what it says.
func (w *world) inBox(t *testing.T, line string) []byte {
	t.Helper()
	var out bytes.Buffer
	cmd := w.box("s1").Command("/bin/sh", "-c", line)
	cmd.Stdout = &out
	_ = cmd.Run(t.Context()) // processes come and go under it
	return out.Bytes()
}

// beside is what a command's neighbours in the sandbox see while it runs: arguments of
// all processes, environments of those that are not the command's, and files but for
// the spools.
func (w *world) beside(t *testing.T) []byte {
	return w.inBox(t, `for p in /proc/[0-9]*; do cat "$p/cmdline"; grep -aq SANDJET_RUN= "$p/environ" || cat "$p/environ"; done 2>/dev/null
		find /tmp "$HOME" -type f ! -name out ! -name err -exec cat {} + 2>/dev/null`)
}

// leftovers is all that is in the sandbox when no command runs any more.
func (w *world) leftovers(t *testing.T) []byte {
	return w.inBox(t, `cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; find /tmp "$HOME" -type f -exec cat {} + 2>/dev/null`)
}

// lookIntoStreams looks at every message of every stream, headers too.
func (w *world) lookIntoStreams(found *hits) {
	names := w.js.StreamNames(w.t.Context())
	n := 0
	for name := range names.Name() {
		st, err := w.js.Stream(w.t.Context(), name)
		require.NoError(w.t, err)
		state := st.CachedInfo().State
		for seq := state.FirstSeq; seq > 0 && seq <= state.LastSeq; seq++ {
			m, err := st.GetMsg(w.t.Context(), seq)
			if err != nil {
				require.ErrorIs(w.t, err, jetstream.ErrMsgNotFound)
				continue
			}
			n++
			found.look(name, append([]byte(fmt.Sprintln(m.Subject, m.Header)), m.Data...))
		}
	}
	require.NoError(w.t, names.Err())
	require.Greater(w.t, n, 30, "the streams were not read")
}

// redisText is everything that Redis holds.
func (w *world) redisText(t *testing.T) []byte {
	t.Helper()
	opt, err := redis.ParseURL(w.redis.URL())
	require.NoError(t, err)
	c := redis.NewClient(opt)
	defer c.Close()
	ctx := context.WithoutCancel(t.Context())
	keys, err := c.Keys(ctx, "*").Result()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	var b bytes.Buffer
	for _, k := range keys {
		fmt.Fprintln(&b, k, c.Get(ctx, k).Val(), c.HGetAll(ctx, k).Val(), c.ZRange(ctx, k, 0, -1).Val(), c.SMembers(ctx, k).Val(), c.LRange(ctx, k, 0, -1).Val())
	}
	return b.Bytes()
}

// Planted secrets are nowhere: in no stream, log, request to E2B, not in Redis, not in
// the sandbox beside the command that has them.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	require.Empty(t, hunt(t, false))
}

// The hunt is worth something only if it finds them where masking is off.
func TestSecretsAreFoundWithoutMasking(t *testing.T) {
	t.Parallel()
	count := hunt(t, true)
	require.Positive(t, count["EVENTS"], "%v", count)
	require.Positive(t, count["output"], "%v", count)
	require.Zero(t, count["requests to E2B"], "%v", count)
	t.Logf("hits without masking: %v", count)
}
