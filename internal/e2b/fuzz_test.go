package e2b_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// server is a transport that gives one answer to everything.
func server(t *testing.T, status int, header http.Header, body []byte) *e2b.Client {
	t.Helper()
	return client(t, func(c *e2b.Config) {
		c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: status, Header: header.Clone(), Request: r, ContentLength: -1,
				Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(bytes.NewReader(body)),
			}, nil
		})}
	})
}

// hasClass fails unless err is nil, the end of a command, or of one kind.
func hasClass(t *testing.T, what string, err error) {
	t.Helper()
	var exit *e2b.ExitError
	if err == nil || errors.As(err, &exit) {
		return
	}
	n := 0
	for _, k := range kinds {
		if errors.Is(err, k) {
			n++
		}
	}
	if n != 1 {
		t.Fatalf("%s: %d kinds: %v", what, n, err)
	}
}

func frame(flag byte, payload []byte) []byte {
	n := len(payload)
	return append([]byte{flag, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, payload...)
}

func message(e *process.ProcessEvent) []byte {
	b, err := proto.Marshal(event(e))
	if err != nil {
		panic(err)
	}
	return frame(0, b)
}

// FuzzStream feeds a command's stream with anything.
func FuzzStream(f *testing.F) {
	start := message(&process.ProcessEvent{Event: &process.ProcessEvent_Start{Start: &process.ProcessEvent_StartEvent{Pid: 75}}})
	out := message(&process.ProcessEvent{Event: &process.ProcessEvent_Data{Data: &process.ProcessEvent_DataEvent{Output: &process.ProcessEvent_DataEvent_Stdout{Stdout: []byte("hi")}}}})
	end := message(&process.ProcessEvent{Event: &process.ProcessEvent_End{End: &process.ProcessEvent_EndEvent{ExitCode: 3, Exited: true, Status: "exit status 3"}}})
	for _, seed := range [][]byte{
		nil,
		bytes.Join([][]byte{start, out, end, frame(2, []byte("{}"))}, nil),
		bytes.Join([][]byte{start, frame(2, []byte(`{"error":{"code":"unavailable","message":"x"}}`))}, nil),
		bytes.Join([][]byte{start, out[:9]}, nil),
		bytes.Join([][]byte{start, {0, 0xff, 0xff, 0xff, 0xff, 1}}, nil),
		bytes.Join([][]byte{start, frame(1, []byte("not gzip"))}, nil),
		frame(2, []byte(`{"error":{"code":"tea"}}`)),
		frame(2, []byte(`{"error":{"code":7}}`)),
		frame(2, []byte(`[`)),
		out,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c := server(t, 200, http.Header{"Content-Type": {"application/connect+proto"}}, body)
		var stdout bytes.Buffer
		cmd := c.Open(ref()).Command("x")
		cmd.Stdout = &stdout
		hasClass(t, "start", cmd.Run(t.Context()))
		if stdout.Len() > len(body) {
			t.Fatalf("%d bytes of output from %d", stdout.Len(), len(body))
		}
		hasClass(t, "attach", c.Open(ref()).Attach(4).Run(t.Context()))
	})
}

// FuzzAnswer answers every other call with anything.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "application/json", "", []byte(listedJSON))
	f.Add(200, "application/json", "", []byte("["+listedJSON+"]"))
	f.Add(201, "application/json", "x", []byte(sandboxJSON))
	f.Add(404, "application/json", "", []byte(`{"code":404,"message":"x"}`))
	f.Add(429, "application/json", "3", []byte(`{"code":429,"message":"x","error_code":"y"}`))
	f.Add(502, "text/html", "", []byte(`{"port":1}`))
	f.Add(200, "application/proto", "", []byte{0x0a, 0x03, 0x0a, 0x01, 'f'})
	f.Add(200, "application/proto", "", []byte(""))
	f.Add(416, "", "bytes */0", []byte("x"))
	f.Add(206, "", "bytes 0-0/1", []byte("x"))
	f.Add(400, "application/json", "", []byte(`{"code":"invalid_argument","message":"\u0000\ud800"}`))
	f.Fuzz(func(t *testing.T, status int, contentType, extra string, body []byte) {
		if status < 100 || status > 999 {
			return
		}
		c := server(t, status, http.Header{
			"Content-Type": {contentType}, "Retry-After": {extra}, "X-Next-Token": {extra},
			"Content-Range": {extra}, "X-Request-Id": {extra}, "Content-Encoding": {extra},
		}, body)
		ctx := t.Context()
		_, err := c.Create(ctx, e2b.CreateRequest{TemplateID: "base"})
		hasClass(t, "create", err)
		_, err = c.Get(ctx, testID)
		hasClass(t, "get", err)
		_, _, err = c.Connect(ctx, testID, 1)
		hasClass(t, "connect", err)
		hasClass(t, "pause", c.Pause(ctx, testID))
		_, err = c.Kill(ctx, testID)
		hasClass(t, "kill", err)
		for _, err := range c.List(ctx, e2b.ListQuery{}) {
			hasClass(t, "list", err)
		}
		box := c.Open(ref())
		_, err = box.Healthy(ctx)
		hasClass(t, "healthy", err)
		_, err = box.Stat(ctx, "/")
		hasClass(t, "stat", err)
		_, err = box.ReadDir(ctx, "/")
		hasClass(t, "readdir", err)
		_, err = box.ReadFile(ctx, "/")
		hasClass(t, "read", err)
		if rc, _, err := box.Open(ctx, "/", 3); err == nil {
			_, err = io.Copy(io.Discard, rc)
			hasClass(t, "range", err)
			rc.Close()
		} else {
			hasClass(t, "range", err)
		}
		hasClass(t, "start", box.Command("x").Run(ctx))
	})
}
