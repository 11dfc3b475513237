package worker_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sandjet/sandjet/internal/stack"
)

// workerBinary is the real worker, built once for all tests.
var workerBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "sandjet-worker")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "worker")
	out, err := exec.Command("go", "build", "-o", bin, "github.com/sandjet/sandjet/cmd/worker").CombinedOutput()
	if err != nil {
		return "", &buildError{string(out), err}
	}
	return bin, nil
})

// pointsBinary is the worker with its crash points.
var pointsBinary = sync.OnceValues(func() (string, error) {
	plain, err := workerBinary() // TestMain removes its folder
	if err != nil {
		return "", err
	}
	bin := plain + "-faultpoints"
	out, err := exec.Command("go", "build", "-tags", "faultpoints", "-o", bin, "github.com/sandjet/sandjet/cmd/worker").CombinedOutput()
	if err != nil {
		return "", &buildError{string(out), err}
	}
	return bin, nil
})

type buildError struct {
	out string
	err error
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + e.out }

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := workerBinary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
	if code == 0 {
		if err := leaked(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked finds goroutines of a worker's that go on after all workers have ended. The
// NATS servers that run in this process do not wait for all of theirs.
func leaked() (err error) {
	for deadline := time.Now().Add(eventually); time.Now().Before(deadline); {
		err = goleak.Find(goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"))
		if err == nil || !strings.Contains(err.Error(), "github.com/sandjet/sandjet/") {
			return nil
		}
	}
	return err
}

// process is a worker in a process of its own, so that it can be killed.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

// said is the process's log so far.
func (p *process) said() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.log.Bytes())
}

// spawn starts a worker process and waits until it takes jobs.
func (w *world) spawn(name string, env ...string) *process {
	w.t.Helper()
	bin, err := workerBinary()
	require.NoError(w.t, err)
	return w.spawnOf(bin, name, env...)
}

// spawnPoints is spawn for a worker with crash points.
func (w *world) spawnPoints(name string, env ...string) *process {
	w.t.Helper()
	bin, err := pointsBinary()
	require.NoError(w.t, err)
	return w.spawnOf(bin, name, env...)
}

func (w *world) spawnOf(bin, name string, env ...string) *process {
	w.t.Helper()
	cmd := exec.Command(bin)
	cmd.Env = []string{"WORKER_NAME=" + name, "LOG_FORMAT=json", "LOG_LEVEL=debug", "HOME=" + w.dir}
	for k, v := range w.env() {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	require.NoError(w.t, err)
	p := &process{t: w.t, cmd: cmd, done: make(chan struct{})}
	ready := make(chan struct{})
	require.NoError(w.t, stack.StartTied(cmd, func() {
		defer close(p.done)
		var once sync.Once
		sc := bufio.NewScanner(stderr)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			w.log.Debug("a worker says", "process", name, "line", sc.Text())
			p.mu.Lock()
			p.log.WriteString(sc.Text() + "\n")
			p.mu.Unlock()
			if strings.Contains(sc.Text(), "worker takes jobs") {
				once.Do(func() { close(ready) })
			}
		}
		_ = cmd.Wait()
	}))
	w.t.Cleanup(p.Kill)
	select {
	case <-ready:
	case <-p.done:
		w.t.Fatalf("worker %s ended at once: %s", name, cmd.ProcessState)
	case <-time.After(2 * eventually):
		w.t.Fatalf("worker %s not ready", name)
	}
	return p
}

// Kill ends the process as a crash would.
func (p *process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends a signal.
func (p *process) Signal(s syscall.Signal) { require.NoError(p.t, p.cmd.Process.Signal(s)) }

// Wait waits until the process has ended by itself.
func (p *process) Wait() {
	select {
	case <-p.done:
	case <-time.After(2 * eventually):
		p.t.Fatal("worker process did not end")
	}
}
