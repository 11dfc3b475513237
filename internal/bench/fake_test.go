package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/envd/process"
	"github.com/sandjet/sandjet/internal/e2b/envd/process/processconnect"
)

// chatty is the command that writes as much as it is told, in chunks of a size.
const chatty = "/bin/chatty"

// greeting is what every other command of a job writes.
const greeting = "hi\n"

// fakeMain is an E2B that keeps nothing and runs nothing: as much of it as a job
// calls, at the least cost. Package local is the one to test against.
func fakeMain() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	var made atomic.Int64
	mux.HandleFunc("GET /v2/sandboxes", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, []int{}) })
	mux.HandleFunc("POST /v2/sandboxes", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 201, e2b.Sandbox{SandboxID: fmt.Sprintf("ifake%016d", made.Add(1)), TemplateID: "base", EnvdVersion: "0.4.0"})
	})
	mux.HandleFunc("GET /sandboxes/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, 200, e2b.SandboxDetail{ListedSandbox: e2b.ListedSandbox{
			SandboxID: r.PathValue("id"), TemplateID: "base", State: e2b.StateRunning, EnvdVersion: "0.4.0",
			StartedAt: time.Now(), EndAt: time.Now().Add(24 * time.Hour),
		}})
	})
	record := fmt.Sprintf("code=0\nout=%d\nout_dropped=0\nout_sha256=%x\nerr=0\nerr_dropped=0\n", len(greeting), sha256.Sum256([]byte(greeting)))
	mux.HandleFunc("GET /files", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(record)) })
	mux.Handle(processconnect.NewProcessHandler(fakeProcesses{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	return answer("http://"+l.Addr().String(), nil)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

type fakeProcesses struct {
	processconnect.UnimplementedProcessHandler
}

// Start is chatty, or a command that greets and ends. Connect flushes each
// message, as envd does.
func (fakeProcesses) Start(_ context.Context, req *connect.Request[process.StartRequest], s *connect.ServerStream[process.StartResponse]) error {
	if err := s.Send(&process.StartResponse{Event: &process.ProcessEvent{
		Event: &process.ProcessEvent_Start{Start: &process.ProcessEvent_StartEvent{Pid: 7}},
	}}); err != nil {
		return err
	}
	cmd := req.Msg.GetProcess()
	data, n := []byte(greeting), 1
	switch args := cmd.GetArgs(); {
	case cmd.GetCmd() == chatty:
		size, _ := strconv.Atoi(args[0])
		n, _ = strconv.Atoi(args[1])
		data = append(bytes.Repeat([]byte("."), size-1), '\n')
	case len(args) < 5: // a script of the worker's own, which says nothing
		n = 0
	}
	out := &process.StartResponse{Event: &process.ProcessEvent{Event: &process.ProcessEvent_Data{
		Data: &process.ProcessEvent_DataEvent{Output: &process.ProcessEvent_DataEvent_Stdout{Stdout: data}},
	}}}
	for range n {
		if err := s.Send(out); err != nil {
			return err
		}
	}
	return s.Send(&process.StartResponse{Event: &process.ProcessEvent{
		Event: &process.ProcessEvent_End{End: &process.ProcessEvent_EndEvent{Exited: true, Status: "exit status 0"}},
	}})
}
