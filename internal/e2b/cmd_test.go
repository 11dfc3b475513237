package e2b_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem"
	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem/filesystemconnect"
	"github.com/sandjet/sandjet/internal/e2b/envd/process"
	"github.com/sandjet/sandjet/internal/e2b/envd/process/processconnect"
)

type (
	startStream = *connect.ServerStream[process.StartResponse]
	startFunc   func(context.Context, *process.StartRequest, startStream) error
)

// envdProcess is an envd whose Start does what a test needs: the streams that a
// real one shows only when something is broken.
type envdProcess struct {
	processconnect.UnimplementedProcessHandler
	start startFunc
}

func (e envdProcess) Start(ctx context.Context, r *connect.Request[process.StartRequest], s startStream) error {
	return e.start(ctx, r.Msg, s)
}

func (e envdProcess) List(context.Context, *connect.Request[process.ListRequest]) (*connect.Response[process.ListResponse], error) {
	return connect.NewResponse(&process.ListResponse{}), nil
}

type envdFiles struct {
	filesystemconnect.UnimplementedFilesystemHandler
}

func (envdFiles) Stat(context.Context, *connect.Request[filesystem.StatRequest]) (*connect.Response[filesystem.StatResponse], error) {
	return connect.NewResponse(&filesystem.StatResponse{Entry: &filesystem.EntryInfo{Name: "f"}}), nil
}

// envd serves start, and hands each request's headers to seen if it is set.
func envd(t *testing.T, start startFunc, seen func(http.Header)) *e2b.Box {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(processconnect.NewProcessHandler(envdProcess{start: start}))
	mux.Handle(filesystemconnect.NewFilesystemHandler(envdFiles{}))
	return cloud(t, func(w http.ResponseWriter, r *http.Request) {
		if seen != nil {
			seen(r.Header.Clone())
		}
		mux.ServeHTTP(w, r)
	}).Open(ref())
}

func event(e *process.ProcessEvent) *process.StartResponse { return &process.StartResponse{Event: e} }

func sendStart(s startStream) error {
	return s.Send(event(&process.ProcessEvent{Event: &process.ProcessEvent_Start{Start: &process.ProcessEvent_StartEvent{Pid: 75}}}))
}

func sendOut(s startStream, out string) error {
	return s.Send(event(&process.ProcessEvent{Event: &process.ProcessEvent_Data{Data: &process.ProcessEvent_DataEvent{
		Output: &process.ProcessEvent_DataEvent_Stdout{Stdout: []byte(out)},
	}}}))
}

func sendPing(s startStream) error {
	return s.Send(event(&process.ProcessEvent{Event: &process.ProcessEvent_Keepalive{Keepalive: &process.ProcessEvent_KeepAlive{}}}))
}

func sendEnd(s startStream, code int32, exited bool, status string) error {
	return s.Send(event(&process.ProcessEvent{Event: &process.ProcessEvent_End{End: &process.ProcessEvent_EndEvent{
		ExitCode: code, Exited: exited, Status: status,
	}}}))
}

// TestNoDeadlineOnTheWire: envd takes Connect-Timeout-Ms for the life limit of
// the process and kills it, so no deadline of ours may become one.
func TestNoDeadlineOnTheWire(t *testing.T) {
	t.Parallel()
	headers := make(chan http.Header, 8)
	box := envd(t, func(_ context.Context, _ *process.StartRequest, s startStream) error {
		return errors.Join(sendStart(s), sendEnd(s, 0, true, "exit status 0"))
	}, func(h http.Header) { headers <- h })
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()

	cmd := box.As("user").Command("true")
	cmd.User = "root"
	require.NoError(t, cmd.Run(ctx))
	h := <-headers
	require.NotContains(t, h, "Connect-Timeout-Ms")
	require.Equal(t, "50", h.Get("Keepalive-Ping-Interval"))
	require.Equal(t, testID, h.Get("E2b-Sandbox-Id"))
	require.Equal(t, "49983", h.Get("E2b-Sandbox-Port"))
	require.Equal(t, testToken, h.Get("X-Access-Token"))
	require.Equal(t, "sandjet", h.Get("User-Agent"))
	require.Equal(t, "Basic "+base64.StdEncoding.EncodeToString([]byte("root:")), h.Get("Authorization"))
	require.Empty(t, h.Get("Connect-Accept-Encoding"), "output must not wait in a compressor")
	require.Empty(t, h.Get("X-Api-Key"), "the key is none of envd's business")

	_, err := box.Processes(ctx)
	require.NoError(t, err)
	h = <-headers
	require.NotContains(t, h, "Connect-Timeout-Ms")
	require.Empty(t, h.Get("Authorization"))
	_, err = box.Stat(ctx, "f")
	require.NoError(t, err)
	require.NotContains(t, <-headers, "Connect-Timeout-Ms")
}

func TestStartRequest(t *testing.T) {
	t.Parallel()
	requests := make(chan *process.StartRequest, 1)
	box := envd(t, func(_ context.Context, r *process.StartRequest, s startStream) error {
		requests <- r
		return errors.Join(sendStart(s), sendEnd(s, 0, true, "exit status 0"))
	}, nil)
	cmd := box.Command("sh", "-c", "exit")
	cmd.Dir, cmd.Env = "/tmp", map[string]string{"A": "b"}
	require.NoError(t, cmd.Run(t.Context()))
	r := <-requests
	require.Equal(t, []string{"-c", "exit"}, r.GetProcess().GetArgs())
	require.Equal(t, "/tmp", r.GetProcess().GetCwd())
	require.Equal(t, map[string]string{"A": "b"}, r.GetProcess().GetEnvs())
	require.NotNil(t, r.Stdin, "absent would be an open stdin that nobody feeds")
	require.False(t, r.GetStdin())
	require.Equal(t, 75, cmd.PID())
	require.Error(t, cmd.Start(t.Context()), "a Cmd is for one run")
	require.Error(t, box.Command("x").Wait(), "not started")
}

func TestExit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code   int32
		exited bool
		status string
		want   *e2b.ExitError
	}{
		{0, true, "exit status 0", nil},
		{3, true, "exit status 3", &e2b.ExitError{Code: 3, Status: "exit status 3"}},
		{-1, false, "signal: killed", &e2b.ExitError{Code: -1, Signal: "killed", Status: "signal: killed"}},
		{-1, false, "signal: terminated", &e2b.ExitError{Code: -1, Signal: "terminated", Status: "signal: terminated"}},
		{0, false, "signal: segmentation fault (core dumped)", &e2b.ExitError{Code: -1, Signal: "segmentation fault (core dumped)", Status: "signal: segmentation fault (core dumped)"}},
		{7, false, "", &e2b.ExitError{Code: -1}},
	} {
		box := envd(t, func(_ context.Context, _ *process.StartRequest, s startStream) error {
			return errors.Join(sendStart(s), sendEnd(s, tt.code, tt.exited, tt.status))
		}, nil)
		err := box.Command("x").Run(t.Context())
		if tt.want == nil {
			require.NoError(t, err)
			continue
		}
		var exit *e2b.ExitError
		require.ErrorAs(t, err, &exit, tt.status)
		require.Equal(t, tt.want, exit)
	}
}

func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		start   startFunc
		kind    error
		unknown bool
		code    string
	}{
		"no such directory": {func(context.Context, *process.StartRequest, startStream) error {
			return connect.NewError(connect.CodeInvalidArgument, errors.New("cwd '/nope' does not exist"))
		}, e2b.ErrInvalid, false, "invalid_argument"},
		"no such user": {func(context.Context, *process.StartRequest, startStream) error {
			return connect.NewError(connect.CodeUnauthenticated, errors.New("invalid username: 'x'"))
		}, e2b.ErrUnauthorized, false, "unauthenticated"},
		"internal before the start": {func(context.Context, *process.StartRequest, startStream) error {
			return connect.NewError(connect.CodeInternal, errors.New("x"))
		}, e2b.ErrUnavailable, true, "internal"},
		"reset before the start": {func(context.Context, *process.StartRequest, startStream) error {
			panic(http.ErrAbortHandler)
		}, e2b.ErrCut, true, ""},
		"nothing in the stream": {func(context.Context, *process.StartRequest, startStream) error {
			return nil
		}, e2b.ErrCut, true, ""},
		"no end event": {func(_ context.Context, _ *process.StartRequest, s startStream) error {
			return errors.Join(sendStart(s), sendOut(s, "half"))
		}, e2b.ErrCut, true, ""},
		"reset": {func(_ context.Context, _ *process.StartRequest, s startStream) error {
			_ = sendStart(s)
			panic(http.ErrAbortHandler)
		}, e2b.ErrCut, true, ""},
		"killed by a limit of envd": {func(_ context.Context, _ *process.StartRequest, s startStream) error {
			_ = sendStart(s)
			return connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
		}, e2b.ErrCut, true, "deadline_exceeded"},
		"not found after the start": {func(_ context.Context, _ *process.StartRequest, s startStream) error {
			_ = sendStart(s)
			return connect.NewError(connect.CodeNotFound, errors.New("x"))
		}, e2b.ErrCut, true, "not_found"},
		"output before the start": {func(_ context.Context, _ *process.StartRequest, s startStream) error {
			return sendOut(s, "early")
		}, e2b.ErrBadAnswer, true, ""},
		"a frame without a bound": {func(_ context.Context, _ *process.StartRequest, s startStream) error {
			return errors.Join(sendStart(s), sendOut(s, strings.Repeat("x", 5<<20)), sendEnd(s, 0, true, ""))
		}, e2b.ErrCut, true, ""},
		"silence before the start": {func(ctx context.Context, _ *process.StartRequest, s startStream) error {
			<-ctx.Done()
			return nil
		}, e2b.ErrStalled, true, ""},
		"silence after the start": {func(ctx context.Context, _ *process.StartRequest, s startStream) error {
			_ = sendStart(s)
			<-ctx.Done()
			return nil
		}, e2b.ErrStalled, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := envd(t, tt.start, nil).Command("x")
			cmd.KeepAlive = 10 * time.Second
			if errors.Is(tt.kind, e2b.ErrStalled) {
				cmd.KeepAlive = soon / 2
			}
			e := requireKind(t, cmd.Run(t.Context()), tt.kind, tt.unknown)
			require.Equal(t, tt.code, e.Code)
			require.Equal(t, "process.start", e.Op)
			require.Equal(t, testID, e.Sandbox)
		})
	}
}

// TestOnlyTheLinkStalls: signs of life keep a silent stream, and time spent in
// our own writer does not count against the link.
func TestOnlyTheLinkStalls(t *testing.T) {
	t.Parallel()
	const keepAlive = 2 * soon
	box := envd(t, func(_ context.Context, _ *process.StartRequest, s startStream) error {
		_ = sendStart(s)
		for began := time.Now(); time.Since(began) < 3*keepAlive; time.Sleep(keepAlive / 10) {
			_ = sendPing(s)
		}
		return errors.Join(sendOut(s, "late"), sendEnd(s, 0, true, "exit status 0"))
	}, nil)
	cmd := box.Command("x")
	cmd.KeepAlive = keepAlive
	cmd.Stdout = writer(func(p []byte) (int, error) {
		time.Sleep(3 * keepAlive)
		return len(p), nil
	})
	require.NoError(t, cmd.Run(t.Context()))
}

type writer func([]byte) (int, error)

func (f writer) Write(p []byte) (int, error) { return f(p) }

func TestWriterEndsTheStream(t *testing.T) {
	t.Parallel()
	cut := make(chan struct{})
	box := envd(t, func(ctx context.Context, _ *process.StartRequest, s startStream) error {
		_ = errors.Join(sendStart(s), sendOut(s, "x"))
		<-ctx.Done()
		close(cut)
		return nil
	}, nil)
	full := errors.New("claim lost")
	cmd := box.Command("x")
	cmd.Stdout = writer(func([]byte) (int, error) { return 0, full })
	require.ErrorIs(t, cmd.Run(t.Context()), full)
	<-cut

	cmd = envd(t, func(_ context.Context, _ *process.StartRequest, s startStream) error {
		return errors.Join(sendStart(s), sendOut(s, "xy"), sendEnd(s, 0, true, ""))
	}, nil).Command("x")
	cmd.Stdout = writer(func([]byte) (int, error) { return 1, nil })
	require.ErrorIs(t, cmd.Run(t.Context()), io.ErrShortWrite)
}

func TestContextEndsTheStream(t *testing.T) {
	t.Parallel()
	box := envd(t, func(ctx context.Context, _ *process.StartRequest, s startStream) error {
		_ = sendStart(s)
		<-ctx.Done()
		return nil
	}, nil)
	why := errors.New("detach")
	ctx, cancel := context.WithCancelCause(t.Context())
	cmd := box.Command("x")
	require.NoError(t, cmd.Start(ctx))
	cancel(why)
	err := cmd.Wait()
	requireKind(t, err, nil, true)
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, err, cmd.Wait(), "Wait says the same again")
}

func TestDataPlaneRefusals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status  int
		body    string
		kind    error
		unknown bool
	}{
		"gone":               {502, `{"sandboxId":"i1","message":"The sandbox was not found","code":502}`, e2b.ErrSandboxGone, false},
		"gone, other words":  {502, `<html>`, e2b.ErrSandboxGone, false},
		"envd is not up yet": {502, `{"sandboxId":"i1","message":"The sandbox is running but port is not open","port":49983,"code":502}`, e2b.ErrUnavailable, false},
		"token":              {401, `{"code":401,"message":"unauthorized access"}`, e2b.ErrUnauthorized, false},
		"traffic token":      {403, `{"code":403,"message":"x"}`, e2b.ErrForbidden, false},
		"transition":         {409, `{"sandboxId":"i1","code":409,"message":"The sandbox is still transitioning"}`, e2b.ErrConflict, false},
		"rpc not found":      {404, `{"code":"not_found","message":"process with pid 4 not found"}`, e2b.ErrNotFound, false},
		"rpc unknown method": {404, `404 page not found`, e2b.ErrBadAnswer, false},
		"rpc internal":       {500, `{"code":"internal","message":"x"}`, e2b.ErrUnavailable, true},
		"rpc unimplemented":  {501, `{"code":"unimplemented","message":"x"}`, e2b.ErrUnsupported, false},
		"rpc strange code":   {400, `{"code":"tea","message":"x"}`, e2b.ErrBadAnswer, false},
		"content type":       {415, ``, e2b.ErrUnsupported, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := cloud(t, always(tt.status, tt.body)).Open(ref())
			requireKind(t, box.Command("x").Run(t.Context()), tt.kind, tt.unknown)
			requireKind(t, box.Attach(4).Run(t.Context()), tt.kind, tt.unknown)
			_, err := box.Stat(t.Context(), "/")
			requireKind(t, err, tt.kind, tt.unknown)
			_, _, err = box.Open(t.Context(), "/", 0)
			requireKind(t, err, tt.kind, tt.unknown)
			requireKind(t, box.Write(t.Context(), "/", bytes.NewReader(nil), e2b.WriteOptions{}), tt.kind, tt.unknown)
			ok, err := box.Healthy(t.Context())
			require.False(t, ok)
			if errors.Is(tt.kind, e2b.ErrSandboxGone) {
				require.NoError(t, err)
			} else {
				requireKind(t, err, tt.kind, tt.unknown)
			}
		})
	}
}

func TestUnaryRunsIntoItsLimit(t *testing.T) {
	t.Parallel()
	box := cloud(t, hang, timeouts(soon)).Open(ref())
	_, err := box.Stat(t.Context(), "/")
	requireKind(t, err, e2b.ErrUnavailable, true)
	_, err = box.Healthy(t.Context())
	requireKind(t, err, e2b.ErrUnavailable, true)
	requireKind(t, box.Signal(t.Context(), 4, 1), e2b.ErrInvalid, false)
}
