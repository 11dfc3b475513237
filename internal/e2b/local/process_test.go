package local

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

func TestHowCommandsEnd(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		for _, tc := range []struct {
			script string
			code   int32
			exited bool
			status string
		}{
			{"exit 0", 0, true, "exit status 0"},
			{"exit 3", 3, true, "exit status 3"},
			{"kill -KILL $$", -1, false, "signal: killed"},
			{"kill -TERM $$", -1, false, "signal: terminated"},
			{"exec nosuchcommand", 127, true, "exit status 127"},
		} {
			r := b.run(tc.script)
			require.NoError(c, r.err, tc.script)
			require.Equal(c, tc.code, r.end.GetExitCode(), tc.script)
			require.Equal(c, tc.exited, r.end.GetExited(), tc.script)
			require.Equal(c, tc.status, r.end.GetStatus(), tc.script)
			if tc.code == 0 {
				require.Nil(c, r.end.Error)
			} else {
				require.Equal(c, tc.status, r.end.GetError(), tc.script)
			}
		}
		st, err := b.processes().Start(c.Context(), ask(b, &process.StartRequest{Process: &process.ProcessConfig{Cmd: "nosuchcommand"}}))
		require.NoError(c, err)
		r := finish(st)
		require.NoError(c, r.err)
		require.EqualValues(c, 127, r.end.GetExitCode())
		require.Contains(c, r.stderr.String(), "nosuchcommand")
	})
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	nope, zero := "/nope", "a\x00b"
	for _, tc := range []struct {
		name    string
		req     *connect.Request[process.StartRequest]
		code    connect.Code
		message string
	}{
		{"cwd", ask(b, &process.StartRequest{Process: &process.ProcessConfig{Cmd: "true", Cwd: &nope}}), connect.CodeInvalidArgument, "cwd '/nope' does not exist"},
		{"user", as(ask(b, sh("true")), "eve"), connect.CodeUnauthenticated, "invalid username: 'eve'"},
		{"zero byte", ask(b, &process.StartRequest{Process: &process.ProcessConfig{Cmd: "echo", Args: []string{zero}}}), connect.CodeInvalidArgument, "zero byte"},
	} {
		st, err := b.processes().Start(t.Context(), tc.req)
		require.NoError(t, err)
		r := finish(st)
		require.Equal(t, tc.code, connect.CodeOf(r.err), tc.name)
		require.ErrorContains(t, r.err, tc.message, tc.name)
		require.Zero(t, r.pid, "an error comes alone")
	}
}

func TestEnvironment(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create(`{"templateID":"base","envVars":{"A":"box","B":"box"}}`)
		req := sh(`env | sort; cd; pwd; pwd -P`)
		req.Process.Envs = map[string]string{"B": "call", "ODD": "a=b\nc 'd'"}
		st, err := b.processes().Start(c.Context(), ask(b, req))
		require.NoError(c, err)
		out := finish(st).stdout.String()
		for _, want := range []string{"A=box", "B=call", "ODD=a=b", "USER=user", "LOGNAME=user", "E2B_SANDBOX=true", "E2B_SANDBOX_ID=" + b.SandboxID, "PATH="} {
			require.Contains(c, "\n"+out, "\n"+want)
		}
		require.NotContains(c, out, "GOPATH", "nothing of the server's own")
		require.NotContains(c, out, "HOME=/root\n")
		if c.srv.Isolation() != "none" {
			require.Contains(c, out, "HOME=/home/user\n")
			require.True(c, strings.HasSuffix(out, "/home/user\n/home/user\n"), out)
		}
		req = &process.StartRequest{Process: &process.ProcessConfig{Cmd: "a=b", Args: []string{"x"}}}
		st, err = b.processes().Start(c.Context(), ask(b, req))
		require.NoError(c, err)
		require.EqualValues(c, 127, finish(st).end.GetExitCode(), "a command is no variable")
	})
}

func TestCommandOutlivesItsClient(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		ctx, leave := context.WithCancel(c.Context())
		req := sh("read x; echo lost; touch passed; read x; echo heard; exit 5")
		req.Stdin = nil // open unless told
		st, err := b.processes().Start(ctx, ask(b, req))
		require.NoError(c, err)
		require.True(c, st.Receive())
		pid := st.Msg().GetEvent().GetStart().GetPid()
		leave()
		_ = st.Close()
		require.Eventually(c, func() bool { return !b.proc(pid).hub.heard() }, patience, time.Millisecond)

		b.say(pid, "\n")
		require.Eventually(c, func() bool { return b.envd("GET", "/files?path=passed", "").status == 200 }, patience, time.Millisecond)
		require.NoError(c, b.run("true").err) // and the pump had its turn
		r := b.follow(pid, func() { b.say(pid, "\n") })
		require.Equal(c, "heard\n", r.stdout.String(), "what nobody heard is gone")
		require.EqualValues(c, 5, r.end.GetExitCode())

		r = b.follow(pid, nil)
		require.Equal(c, pid, r.pid)
		require.EqualValues(c, 5, r.end.GetExitCode(), "the end is told for a while")
		require.Empty(c, r.stdout.String())
		err = b.signal(pid, process.Signal_SIGNAL_SIGKILL)
		require.Equal(c, connect.CodeNotFound, connect.CodeOf(err))
		require.ErrorContains(c, err, fmt.Sprintf("process with pid %d not found", pid))
	})
}

// proc is the server's own side of a command.
func (b *testBox) proc(pid uint32) *proc {
	b.Helper()
	sb, err := b.srv.find(b.SandboxID)
	require.NoError(b, err)
	p, err := sb.procs.find(byPid(pid))
	require.NoError(b, err)
	return p
}

func (b *testBox) say(pid uint32, text string) {
	b.Helper()
	in := &process.ProcessInput{Input: &process.ProcessInput_Stdin{Stdin: []byte(text)}}
	_, err := b.processes().SendInput(b.Context(), ask(b, &process.SendInputRequest{Process: byPid(pid), Input: in}))
	require.NoError(b, err)
}

func (b *testBox) signal(pid uint32, sig process.Signal) error {
	_, err := b.processes().SendSignal(b.Context(), ask(b, &process.SendSignalRequest{Process: byPid(pid), Signal: sig}))
	return err
}

// follow listens to a command to its end; then runs once it listens.
func (b *testBox) follow(pid uint32, then func()) *result {
	b.Helper()
	st, err := b.processes().Connect(b.Context(), ask(b, &process.ConnectRequest{Process: byPid(pid)}))
	require.NoError(b, err)
	defer st.Close()
	r := &result{}
	for st.Receive() {
		r.take(st.Msg().GetEvent())
		if then != nil {
			then()
			then = nil
		}
	}
	r.err = st.Err()
	return r
}

func TestStartsDeadlineIsTheCommandsLife(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		start := ask(b, sh(""))
		start.Header().Set("Connect-Timeout-Ms", "4000") // for the start too, on a busy machine
		// Past connect's own client, which would stop at the deadline itself.
		r := b.raw(start, `{"process":{"cmd":"/bin/sh","args":["-c","sleep 100 >/dev/null 2>&1 & exec sleep 101"]},"stdin":false}`)
		require.Contains(c, r, `"code":"deadline_exceeded"`)
		require.NotContains(c, r, `"end"`)
		require.Contains(c, r, `"start"`)
		require.Eventually(c, func() bool { return len(b.list()) == 0 }, patience, 5*time.Millisecond, "the command is killed")
		require.Contains(c, b.run("cat /proc/*/cmdline | tr '\\0' ' '").stdout.String(), "sleep 100", "its child is not")

		start.Header().Set("Connect-Timeout-Ms", "0")
		before := c.srv.Faults().Started("sleep")
		require.Contains(c, b.raw(start, `{"process":{"cmd":"sleep","args":["1"]}}`), `"code":"deadline_exceeded"`)
		require.Equal(c, before, c.srv.Faults().Started("sleep"), "0 is over at once")
	})
}

// raw posts one frame of a stream and returns all frames of the answer.
func (b *testBox) raw(like connect.AnyRequest, frame string) string {
	b.Helper()
	body := string([]byte{0, 0, 0, byte(len(frame) >> 8), byte(len(frame))}) + frame
	header := []string{"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1"}
	for k := range like.Header() {
		header = append(header, k, like.Header().Get(k))
	}
	return b.call("POST", "/process.Process/Start", body, header...).body
}

func (b *testBox) list() []*process.ProcessInfo {
	b.Helper()
	r, err := b.processes().List(b.Context(), ask(b, &process.ListRequest{}))
	require.NoError(b, err)
	return r.Msg.GetProcesses()
}

func TestConnectsDeadlineEndsTheStreamOnly(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	_, pid := b.begin(sh("sleep 100"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	st, err := b.processes().Connect(ctx, ask(b, &process.ConnectRequest{Process: byPid(pid)}))
	if err == nil { // else it was over before the request was sent
		for st.Receive() {
		}
		err = st.Err()
		_ = st.Close()
	}
	require.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err))
	require.Len(t, b.list(), 1)
}

func TestSeveralListeners(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		req := sh("read x; seq 1 1000; exit 0")
		req.Stdin = nil
		st, pid := b.begin(req)
		first := make(chan *result, 1)
		go func() { first <- finish(st) }()
		second := b.follow(pid, func() { b.say(pid, "\n") })
		one := <-first
		require.NoError(c, one.err)
		require.NoError(c, second.err)
		require.Equal(c, one.stdout.String(), second.stdout.String())
		require.Equal(c, 3893, one.stdout.Len())
	})
}

func TestStalledReaderStopsTheCommandNotTheServer(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		st, pid := b.begin(sh("head -c 64000000 /dev/zero; touch written"))
		written := func() int { return b.envd("GET", "/files?path=written", "").status }
		// We read nothing. Everybody else is served.
		require.Equal(c, "hi\n", b.run("echo hi").stdout.String())
		require.Equal(c, 404, written(), "the pipe is full before 64 MB")
		other := make(chan *result, 1)
		joined := make(chan struct{})
		go func() {
			defer close(other) // also if it fails
			other <- b.follow(pid, func() { close(joined) })
		}()
		select {
		case <-joined:
		case r := <-other:
			c.Fatalf("it ended before anything was said: %v", r)
		}
		require.Equal(c, 404, written(), "it holds up every other listener")
		require.NoError(c, st.Close())
		r := <-other
		require.NotNil(c, r)
		require.NoError(c, r.err)
		require.EqualValues(c, 0, r.end.GetExitCode())
		require.Equal(c, 200, written(), "released by the stalled one's end")
	})
}

func TestChildHoldsTheOutputOpen(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		req := sh("exec 3<&0; (read x <&3; echo child) & echo parent")
		req.Stdin = nil
		st, pid := b.begin(req)
		done := make(chan *result, 1)
		go func() { done <- finish(st) }()
		select {
		case r := <-done:
			c.Fatalf("ended before the pipe closed: %v", r.end)
		case <-time.After(50 * time.Millisecond): // long enough to end, were it to
		}
		b.say(pid, "\n")
		r := <-done
		require.Equal(c, "parent\nchild\n", r.stdout.String())
		require.EqualValues(c, 0, r.end.GetExitCode())
	})
}

func TestSignals(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		st, pid := b.begin(sh("trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.01; done"))
		require.True(c, st.Receive(), "it is ready")
		require.NoError(c, b.signal(pid, process.Signal_SIGNAL_SIGTERM))
		r := finish(st)
		require.Equal(c, "caught\n", r.stdout.String(), "what comes after the signal arrives")
		require.EqualValues(c, 9, r.end.GetExitCode())

		st, pid = b.begin(sh("sleep 100 & echo ready; wait"))
		require.True(c, st.Receive(), "it is ready")
		require.NoError(c, b.signal(pid, process.Signal_SIGNAL_SIGKILL))
		require.Eventually(c, func() bool {
			return strings.Contains(b.run("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; done 2>/dev/null").stdout.String(), "sleep 100")
		}, patience, 5*time.Millisecond, "only the direct process is signalled")
		_ = st.Close()
		err := b.signal(pid, process.Signal(2))
		require.Error(c, err)
		_, pid = b.begin(sh("sleep 100"))
		require.Equal(c, connect.CodeUnimplemented, connect.CodeOf(b.signal(pid, process.Signal(2))))
		require.Equal(c, connect.CodeNotFound, connect.CodeOf(b.signal(4242424, process.Signal_SIGNAL_SIGKILL)))
	})
}

func TestInput(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		req := &process.StartRequest{Process: &process.ProcessConfig{Cmd: "wc", Args: []string{"-c"}}}
		st, pid := b.begin(req)
		b.say(pid, strings.Repeat("x", 1<<20))
		stream := b.processes().StreamInput(c.Context())
		h := b.headers()
		for i := 0; i < len(h); i += 2 {
			stream.RequestHeader().Set(h[i], h[i+1])
		}
		require.NoError(c, stream.Send(&process.StreamInputRequest{Event: &process.StreamInputRequest_Start{Start: &process.StreamInputRequest_StartEvent{Process: byPid(pid)}}}))
		in := &process.ProcessInput{Input: &process.ProcessInput_Stdin{Stdin: []byte("more")}}
		require.NoError(c, stream.Send(&process.StreamInputRequest{Event: &process.StreamInputRequest_Data{Data: &process.StreamInputRequest_DataEvent{Input: in}}}))
		require.NoError(c, stream.Send(&process.StreamInputRequest{Event: &process.StreamInputRequest_Keepalive{Keepalive: &process.StreamInputRequest_KeepAlive{}}}))
		_, err := stream.CloseAndReceive()
		require.NoError(c, err)
		_, err = b.processes().CloseStdin(c.Context(), ask(b, &process.CloseStdinRequest{Process: byPid(pid)}))
		require.NoError(c, err)
		require.Equal(c, "1048580\n", finish(st).stdout.String())

		_, pid = b.begin(sh("sleep 100"))
		_, err = b.processes().SendInput(c.Context(), ask(b, &process.SendInputRequest{Process: byPid(pid), Input: in}))
		require.Equal(c, connect.CodeInternal, connect.CodeOf(err))
		require.ErrorContains(c, err, "error writing to stdin: stdin not enabled or closed")

		_, pid = b.begin(&process.StartRequest{Process: &process.ProcessConfig{Cmd: "sleep", Args: []string{"100"}}})
		ctx, cancel := context.WithTimeout(c.Context(), 100*time.Millisecond)
		defer cancel()
		in = &process.ProcessInput{Input: &process.ProcessInput_Stdin{Stdin: make([]byte, 1<<20)}}
		_, err = b.processes().SendInput(ctx, ask(b, &process.SendInputRequest{Process: byPid(pid), Input: in}))
		require.Equal(c, connect.CodeDeadlineExceeded, connect.CodeOf(err), "input waits for the command to read")

		first, leave := context.WithCancel(c.Context())
		stuck := make(chan struct{})
		go func() {
			defer close(stuck)
			_, _ = b.processes().SendInput(first, ask(b, &process.SendInputRequest{Process: byPid(pid), Input: in}))
		}()
		require.Eventually(c, func() bool { return len(b.proc(pid).input) == 1 }, patience, time.Millisecond)
		ctx, cancel = context.WithTimeout(c.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = b.processes().SendInput(ctx, ask(b, &process.SendInputRequest{Process: byPid(pid), Input: in}))
		require.Equal(c, connect.CodeDeadlineExceeded, connect.CodeOf(err), "and for the input before it")
		leave()
		<-stuck
	})
}

func TestTerminal(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		st, pid := b.begin(&process.StartRequest{
			Process: &process.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "stty size; read x; stty size; tty; test -t 2 && echo err"}},
			Pty:     &process.PTY{Size: &process.PTY_Size{Cols: 80, Rows: 24}},
		})
		_, err := b.processes().Update(c.Context(), ask(b, &process.UpdateRequest{Process: byPid(pid), Pty: &process.PTY{Size: &process.PTY_Size{Cols: 132, Rows: 43}}}))
		require.NoError(c, err)
		in := &process.ProcessInput{Input: &process.ProcessInput_Pty{Pty: []byte("go\n")}}
		_, err = b.processes().SendInput(c.Context(), ask(b, &process.SendInputRequest{Process: byPid(pid), Input: in}))
		require.NoError(c, err)
		_, err = b.processes().CloseStdin(c.Context(), ask(b, &process.CloseStdinRequest{Process: byPid(pid)}))
		require.Error(c, err)
		r := finish(st)
		require.NoError(c, r.err)
		require.EqualValues(c, 0, r.end.GetExitCode())
		require.Contains(c, r.stdout.String(), "43 132\r\n")
		require.Contains(c, r.stdout.String(), "/dev/pts/")
		require.Contains(c, r.stdout.String(), "err\r\n")
	})
}

func TestKeepalive(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	req := ask(b, sh("sleep 100"))
	req.Header().Set("Keepalive-Ping-Interval", "1")
	st, err := b.processes().Start(t.Context(), req)
	require.NoError(t, err)
	defer st.Close()
	require.True(t, st.Receive())
	for range 2 {
		require.True(t, st.Receive())
		require.NotNil(t, st.Msg().GetEvent().GetKeepalive())
	}
}

func TestBytesOnTheWire(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	r := b.raw(ask(b, sh("")), `{"process":{"cmd":"sh","args":["-c","echo hi"]},"stdin":false,"unknown":1}`)
	squeezed := strings.ReplaceAll(r, " ", "")
	require.Contains(t, squeezed, `{"event":{"data":{"stdout":"aGkK"}}}`)
	require.Contains(t, squeezed, `{"event":{"end":{"exited":true,"status":"exitstatus0"}}}`, "a zero is not on the wire")
	require.True(t, strings.HasSuffix(r, "\x02\x00\x00\x00\x02{}"), "%q", r)

	for _, opts := range [][]connect.ClientOption{{connect.WithProtoJSON()}, {}, {connect.WithGRPCWeb()}} {
		st, err := connect.NewClient[process.StartRequest, process.StartResponse](b.http, b.srv.URL()+"/process.Process/Start", opts...).
			CallServerStream(t.Context(), ask(b, sh("echo hi; exit 2")))
		require.NoError(t, err)
		got := finish(st)
		require.Equal(t, "hi\n", got.stdout.String())
		require.EqualValues(t, 2, got.end.GetExitCode())
	}
	un := b.envd("POST", "/process.Process/SendSignal", `{"process":{"pid":4242},"signal":"SIGNAL_SIGKILL"}`, "Content-Type", "application/json")
	require.Equal(t, http.StatusNotFound, un.status)
	require.JSONEq(t, `{"code":"not_found","message":"process with pid 4242 not found"}`, un.body)
	require.Equal(t, http.StatusBadRequest, b.envd("POST", "/process.Process/List", `{`, "Content-Type", "application/json").status)
	un = b.envd("POST", "/process.Process/List", `{}`, "Content-Type", "text/plain")
	require.Equal(t, http.StatusUnsupportedMediaType, un.status)
	require.NotEmpty(t, un.header.Get("Accept-Post"))
	require.Equal(t, "{}", b.envd("POST", "/process.Process/List", `{}`, "Content-Type", "application/json").body)
}
