package e2b_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/local"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// localServer starts the local sandbox server and a client of it. All that the
// two say about sandboxes is held against E2B's OpenAPI document.
func localServer(t *testing.T, cfg local.Config, opts ...func(*e2b.Config)) (*local.Server, *e2b.Client) {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	srv, err := local.Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	return srv, client(t, append([]func(*e2b.Config){withSpec(t), func(c *e2b.Config) {
		c.APIURL, c.SandboxURL = srv.URL(), srv.URL()
		c.APIKey = func() (string, error) { return srv.APIKey() + "\n", nil } // as a file has it
	}}, opts...)...)
}

func create(t *testing.T, c *e2b.Client, metadata map[string]string) *e2b.Sandbox {
	t.Helper()
	sb, err := c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base", Timeout: 600, AutoPause: true, Metadata: metadata})
	require.NoError(t, err)
	return sb
}

// localBox is a sandbox on a server of its own.
func localBox(t *testing.T) (*local.Server, *e2b.Client, *e2b.Box) {
	t.Helper()
	srv, c := localServer(t, local.Config{})
	return srv, c, c.Open(create(t, c, nil).Ref())
}

func TestLocalLifecycle(t *testing.T) {
	t.Parallel()
	_, c := localServer(t, local.Config{})
	sb := create(t, c, nil)
	got, err := c.Get(t.Context(), sb.SandboxID)
	require.NoError(t, err)
	require.Equal(t, "pause", got.Lifecycle.OnTimeout)
	lifecycle(t, site{c, create})
}

// site is a service that the conformance suite runs against: the local server, or
// the cloud. create makes a sandbox that lives for a minute or more.
type site struct {
	*e2b.Client
	create func(t *testing.T, c *e2b.Client, metadata map[string]string) *e2b.Sandbox
}

func (s site) box(t *testing.T) *e2b.Box {
	t.Helper()
	return s.Open(s.create(t, s.Client, nil).Ref())
}

// conformance is what our client needs of a service, each with sandboxes of its
// own. None has more than three at once.
var conformance = []struct {
	name string
	run  func(t *testing.T, s site)
}{
	{"lifecycle", lifecycle},
	{"list", listing},
	{"commands", func(t *testing.T, s site) { commands(t, s.box(t)) }},
	{"signal", func(t *testing.T, s site) { signals(t, s.box(t)) }},
	{"stdin", func(t *testing.T, s site) { stdin(t, s.box(t)) }},
	{"big output", func(t *testing.T, s site) { bigOutput(t, s.box(t)) }},
	{"deadline", func(t *testing.T, s site) { deadline(t, s.box(t)) }},
	{"pause", func(t *testing.T, s site) { pauseCutsAndResumeContinues(t, s.Client, s.box(t)) }},
	{"files", func(t *testing.T, s site) { files(t, s.box(t)) }},
	{"refusals", refusals},
}

func lifecycle(t *testing.T, s site) {
	c, ctx := s.Client, t.Context()
	require.NoError(t, c.Ping(ctx))
	sb := s.create(t, c, map[string]string{"sandjet-session": "s1"})
	require.NoError(t, sb.Ref().CheckEnvd())
	box := c.Open(sb.Ref())
	ok, err := box.Healthy(ctx)
	require.NoError(t, err)
	require.True(t, ok)

	got, err := c.Get(ctx, sb.SandboxID)
	require.NoError(t, err)
	require.Equal(t, sb.Ref(), got.Ref(), "get tells the token again")
	require.Equal(t, "s1", got.Metadata["sandjet-session"])

	require.NoError(t, c.SetTimeout(ctx, sb.SandboxID, 2*time.Minute))
	later, err := c.Get(ctx, sb.SandboxID)
	require.NoError(t, err)
	require.NotEqual(t, got.EndAt, later.EndAt)
	require.WithinDuration(t, time.Now().Add(2*time.Minute), later.EndAt, 30*time.Second)
	_, resumed, err := c.Connect(ctx, sb.SandboxID, time.Minute)
	require.NoError(t, err)
	require.False(t, resumed)
	same, err := c.Get(ctx, sb.SandboxID)
	require.NoError(t, err)
	require.Equal(t, later.EndAt.Unix(), same.EndAt.Unix(), "connect never shortens")
	_, err = c.Metrics(ctx, sb.SandboxID, time.Time{}, time.Time{})
	require.NoError(t, err)

	require.NoError(t, c.Pause(ctx, sb.SandboxID))
	require.NoError(t, c.Pause(ctx, sb.SandboxID), "paused already")
	got, err = c.Get(ctx, sb.SandboxID)
	require.NoError(t, err)
	require.Equal(t, e2b.StatePaused, got.State)
	requireKind(t, c.SetTimeout(ctx, sb.SandboxID, time.Minute), e2b.ErrNotFound, false)
	ok, err = box.Healthy(ctx)
	require.NoError(t, err)
	require.False(t, ok)
	requireKind(t, box.Command("true").Run(ctx), e2b.ErrSandboxGone, false)
	_, err = box.ReadFile(ctx, "/etc/passwd")
	requireKind(t, err, e2b.ErrSandboxGone, false)

	again, resumed, err := c.Connect(ctx, sb.SandboxID, time.Minute)
	require.NoError(t, err)
	require.True(t, resumed)
	require.Equal(t, sb.Ref(), again.Ref())
	require.NoError(t, box.Command("true").Run(ctx))

	existed, err := c.Kill(ctx, sb.SandboxID)
	require.NoError(t, err)
	require.True(t, existed)
	existed, err = c.Kill(ctx, sb.SandboxID)
	require.NoError(t, err)
	require.False(t, existed)
	_, err = c.Get(ctx, sb.SandboxID)
	requireKind(t, err, e2b.ErrNotFound, false)
	_, _, err = c.Connect(ctx, sb.SandboxID, time.Minute)
	requireKind(t, err, e2b.ErrNotFound, false)
	requireKind(t, c.Pause(ctx, sb.SandboxID), e2b.ErrNotFound, false)
	requireKind(t, box.Command("true").Run(ctx), e2b.ErrSandboxGone, false)
}

func TestLocalRefusals(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv, c := localServer(t, local.Config{MaxRunning: 1})
	sb := create(t, c, nil)
	_, err := c.Create(ctx, e2b.CreateRequest{TemplateID: "base"})
	requireKind(t, err, e2b.ErrQuota, false)

	_, limited := localServer(t, local.Config{CreateRate: 0.01, CreateBurst: 1})
	create(t, limited, nil)
	_, err = limited.Create(ctx, e2b.CreateRequest{TemplateID: "base"})
	require.Positive(t, requireKind(t, err, e2b.ErrRateLimited, false).RetryAfter)

	_, few := localServer(t, local.Config{Templates: []string{"base"}})
	_, err = few.Create(ctx, e2b.CreateRequest{TemplateID: "other"})
	requireKind(t, err, e2b.ErrNotFound, false)

	stranger := client(t, func(c *e2b.Config) { c.APIURL, c.SandboxURL = srv.URL(), srv.URL() })
	requireKind(t, stranger.Ping(ctx), e2b.ErrUnauthorized, false)
	refusals(t, site{c, func(*testing.T, *e2b.Client, map[string]string) *e2b.Sandbox { return sb }})
}

// refusals are of tokens, names and numbers that are wrong anywhere.
func refusals(t *testing.T, s site) {
	c, ctx := s.Client, t.Context()
	sb := s.create(t, c, nil)
	forged := sb.Ref()
	forged.AccessToken = testToken
	err := c.Open(forged).Command("true").Run(ctx)
	requireKind(t, err, e2b.ErrUnauthorized, false)
	_, err = c.Open(forged).ReadFile(ctx, "/etc/passwd")
	requireKind(t, err, e2b.ErrUnauthorized, false)
	require.NotContains(t, err.Error(), testToken)

	box := c.Open(sb.Ref())
	requireKind(t, box.As("nobody-here").Command("true").Run(ctx), e2b.ErrUnauthorized, false)
	cmd := box.Command("true")
	cmd.Dir = "/nope"
	requireKind(t, cmd.Run(ctx), e2b.ErrInvalid, false)
	requireKind(t, box.Attach(424242).Run(ctx), e2b.ErrNotFound, false)
	requireKind(t, box.Signal(ctx, 424242, syscall.SIGKILL), e2b.ErrNotFound, false)
}

// listing finds its own sandboxes by their metadata, paused ones too.
func listing(t *testing.T, s site) {
	mark := map[string]string{"sandjet-list": "a b&c=%2B " + strconv.FormatInt(time.Now().UnixNano(), 36)}
	one, two := s.create(t, s.Client, mark).SandboxID, s.create(t, s.Client, mark).SandboxID
	ids, err := collect(t, s.Client, e2b.ListQuery{Metadata: mark, Limit: 1, Order: e2b.OldestFirst})
	require.NoError(t, err)
	require.Equal(t, []string{one, two}, ids)
	require.NoError(t, s.Pause(t.Context(), one))
	ids, err = collect(t, s.Client, e2b.ListQuery{Metadata: mark, States: []e2b.SandboxState{e2b.StatePaused}})
	require.NoError(t, err)
	require.Equal(t, []string{one}, ids)
	for _, id := range []string{one, two} {
		existed, err := s.Kill(t.Context(), id)
		require.NoError(t, err)
		require.True(t, existed)
	}
	ids, err = collect(t, s.Client, e2b.ListQuery{Metadata: mark})
	require.NoError(t, err)
	require.Empty(t, ids)
}

// TestLocalLostCreate: the answer is lost, the sandbox is not.
func TestLocalLostCreate(t *testing.T) {
	t.Parallel()
	srv, c := localServer(t, local.Config{})
	srv.Faults().Add(local.Fault{Op: "create", Action: local.LostAnswer{}})
	mine := map[string]string{"sandjet-attempt": "a b&c=%2B"}
	_, err := c.Create(t.Context(), e2b.CreateRequest{TemplateID: "base", Metadata: mine})
	requireKind(t, err, e2b.ErrUnavailable, true)
	require.Equal(t, 1, srv.Faults().Count("create"))

	ids, err := collect(t, c, e2b.ListQuery{Metadata: mine})
	require.NoError(t, err)
	require.Len(t, ids, 1)
	ids, err = collect(t, c, e2b.ListQuery{Metadata: map[string]string{"sandjet-attempt": "a b"}})
	require.NoError(t, err)
	require.Empty(t, ids)
}

func TestLocalPaging(t *testing.T) {
	t.Parallel()
	_, c := localServer(t, local.Config{})
	var made []string
	for i := range 5 {
		made = append(made, create(t, c, map[string]string{"odd": strconv.FormatBool(i%2 == 1)}).SandboxID)
	}
	require.NoError(t, c.Pause(t.Context(), made[0]))
	list := func(q e2b.ListQuery) []string {
		ids, err := collect(t, c, q)
		require.NoError(t, err)
		return ids
	}
	newest := slices.Clone(made)
	slices.Reverse(newest)
	for limit := range 7 {
		require.ElementsMatch(t, made, list(e2b.ListQuery{Limit: limit}))
		require.Equal(t, made, list(e2b.ListQuery{Limit: limit, Order: e2b.OldestFirst}))
		require.Equal(t, newest, list(e2b.ListQuery{Limit: limit, Order: e2b.NewestFirst}))
		require.Equal(t, made[:1], list(e2b.ListQuery{Limit: limit, States: []e2b.SandboxState{e2b.StatePaused}}))
		require.Equal(t, made[1:], list(e2b.ListQuery{Limit: limit, Order: e2b.OldestFirst, States: []e2b.SandboxState{e2b.StateRunning}}))
		require.ElementsMatch(t, []string{made[1], made[3]}, list(e2b.ListQuery{Limit: limit, Metadata: map[string]string{"odd": "true"}}))
	}
	p, err := c.ListPage(t.Context(), e2b.ListQuery{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, 4, p.Running)
	_, err = c.ListPage(t.Context(), e2b.ListQuery{NextToken: "rubbish"})
	requireKind(t, err, e2b.ErrInvalid, false)
}

func TestLocalCommands(t *testing.T) {
	t.Parallel()
	_, _, box := localBox(t)
	commands(t, box)
}

func commands(t *testing.T, box *e2b.Box) {
	ctx := t.Context()

	out, err := box.Command("echo", "a b", "$HOME;`id`").Output(ctx)
	require.NoError(t, err)
	require.Equal(t, "a b $HOME;`id`\n", string(out), "no shell in between")

	var stdout, stderr bytes.Buffer
	cmd := box.Command("sh", "-c", "echo out; echo err >&2; pwd; echo $A; exit 3")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "/tmp", map[string]string{"A": "value"}, &stdout, &stderr
	var exit *e2b.ExitError
	require.ErrorAs(t, cmd.Run(ctx), &exit)
	require.Equal(t, &e2b.ExitError{Code: 3, Status: "exit status 3"}, exit)
	require.Contains(t, stdout.String(), "out\n")
	require.Contains(t, stdout.String(), "/tmp\nvalue\n")
	require.Equal(t, "err\n", stderr.String())
	require.Positive(t, cmd.PID())

	require.ErrorAs(t, box.Command("no-such-program-here").Run(ctx), &exit)
	require.Equal(t, 127, exit.Code)
	require.ErrorAs(t, box.Command("sh", "-c", "kill -KILL $$").Run(ctx), &exit)
	require.Equal(t, "killed", exit.Signal)
	require.Equal(t, -1, exit.Code)
}

func TestLocalSignal(t *testing.T) {
	t.Parallel()
	_, _, box := localBox(t)
	signals(t, box)
}

func signals(t *testing.T, box *e2b.Box) {
	ctx := t.Context()
	for sig, word := range map[syscall.Signal]string{syscall.SIGTERM: "terminated", syscall.SIGKILL: "killed"} {
		cmd := box.Command("sleep", "1000")
		require.NoError(t, cmd.Start(ctx))
		ps, err := box.Processes(ctx)
		require.NoError(t, err)
		require.Equal(t, []e2b.Process{{PID: cmd.PID(), Path: "sleep", Args: []string{"1000"}, Dir: ps[0].Dir}}, ps)
		require.NoError(t, box.Signal(ctx, cmd.PID(), sig))
		var exit *e2b.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, word, exit.Signal)
	}
}

func TestLocalStdin(t *testing.T) {
	t.Parallel()
	_, _, box := localBox(t)
	stdin(t, box)
}

func stdin(t *testing.T, box *e2b.Box) {
	ctx := t.Context()

	cmd := box.Command("cat")
	require.NoError(t, cmd.Run(ctx), "no Stdin is the end of input at once")

	// Long input arrives whole and in order.
	in := strings.Repeat("0123456789abcde\n", 40_000)
	cmd = box.Command("cat")
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.Output(ctx)
	require.NoError(t, err)
	require.True(t, in == string(out), "%d bytes of %d", len(out), len(in))

	// A process that does not read its input ends all the same.
	cmd = box.Command("sh", "-c", "exit 5")
	cmd.Stdin = strings.NewReader(in)
	var exit *e2b.ExitError
	require.ErrorAs(t, cmd.Run(ctx), &exit)
	require.Equal(t, 5, exit.Code)

	// A source that fails ends the stream with its own error.
	cmd = box.Command("cat")
	pr, pw := io.Pipe()
	pw.CloseWithError(context.DeadlineExceeded)
	cmd.Stdin = pr
	err = cmd.Run(ctx)
	require.ErrorContains(t, err, "read stdin")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
}

func TestLocalBigOutput(t *testing.T) {
	t.Parallel()
	_, _, box := localBox(t)
	bigOutput(t, box)
}

func bigOutput(t *testing.T, box *e2b.Box) {
	const lines = 1_000_000
	want := sha256.New()
	for i := 1; i <= lines; i++ {
		want.Write(strconv.AppendInt(nil, int64(i), 10))
		want.Write([]byte{'\n'})
	}
	got := sha256.New()
	cmd := box.Command("seq", "1", strconv.Itoa(lines))
	cmd.Stdout = got
	require.NoError(t, cmd.Run(t.Context()))
	require.Equal(t, hex.EncodeToString(want.Sum(nil)), hex.EncodeToString(got.Sum(nil)))
}

// TestLocalDeadline: a deadline of ours ends the stream, not the process.
func TestLocalDeadline(t *testing.T) {
	t.Parallel()
	_, _, box := localBox(t)
	deadline(t, box)
}

func deadline(t *testing.T, box *e2b.Box) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := box.Command("sh", "-c", "echo up; while [ ! -e go ]; do sleep 0.05; done; exit 7")
	pr, pw := io.Pipe()
	cmd.Stdout = pw
	require.NoError(t, cmd.Start(ctx))
	_, err := io.ReadFull(pr, make([]byte, 3))
	require.NoError(t, err)
	cancel()
	requireKind(t, cmd.Wait(), nil, true)

	again := box.Attach(cmd.PID())
	require.NoError(t, again.Start(t.Context()), "it lives on")
	require.NoError(t, box.Write(t.Context(), "go", strings.NewReader(""), e2b.WriteOptions{}))
	var exit *e2b.ExitError
	require.ErrorAs(t, again.Wait(), &exit)
	require.Equal(t, 7, exit.Code)

	late := box.Attach(cmd.PID()) // for 30 s envd remembers
	require.ErrorAs(t, late.Run(t.Context()), &exit)
	require.Equal(t, 7, exit.Code)
}

func TestLocalCutStream(t *testing.T) {
	t.Parallel()
	srv, _, box := localBox(t)
	ctx := t.Context()
	srv.Faults().Add(local.Fault{Op: "start", Action: local.CutAfter{Bytes: 200}})
	cmd := box.Command("sh", "-c", "seq 1 100; while [ ! -e go ]; do sleep 0.05; done; exit 7")
	requireKind(t, cmd.Run(ctx), e2b.ErrCut, true)
	again := box.Attach(cmd.PID())
	require.NoError(t, again.Start(ctx))
	require.NoError(t, box.Write(ctx, "go", strings.NewReader(""), e2b.WriteOptions{}))
	var exit *e2b.ExitError
	require.ErrorAs(t, again.Wait(), &exit)
	require.Equal(t, 7, exit.Code)

	srv.Faults().Add(local.Fault{Op: "start", Action: local.Hang{}})
	cmd = box.Command("true")
	cmd.KeepAlive = 50 * time.Millisecond
	requireKind(t, cmd.Run(ctx), e2b.ErrStalled, true)
}

func TestLocalPauseCutsAndResumeContinues(t *testing.T) {
	t.Parallel()
	_, c, box := localBox(t)
	pauseCutsAndResumeContinues(t, c, box)
}

func pauseCutsAndResumeContinues(t *testing.T, c *e2b.Client, box *e2b.Box) {
	ctx := t.Context()
	cmd := box.Command("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; exit 7")
	require.NoError(t, cmd.Start(ctx))
	require.NoError(t, c.Pause(ctx, box.ID()))
	requireKind(t, cmd.Wait(), e2b.ErrCut, true)
	requireKind(t, box.Attach(cmd.PID()).Run(ctx), e2b.ErrSandboxGone, false)
	_, resumed, err := c.Connect(ctx, box.ID(), time.Minute)
	require.NoError(t, err)
	require.True(t, resumed)
	again := box.Attach(cmd.PID())
	require.NoError(t, again.Start(ctx))
	require.NoError(t, box.Write(ctx, "go", strings.NewReader(""), e2b.WriteOptions{}))
	var exit *e2b.ExitError
	require.ErrorAs(t, again.Wait(), &exit)
	require.Equal(t, 7, exit.Code)
}
