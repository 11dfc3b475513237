package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/stack"
)

// roleVar makes this binary a server: one of the outside systems, in a process
// of its own.
const roleVar = "SANDJET_BENCH_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(roleVar) {
	case "":
		os.Exit(m.Run())
	case "nats":
		err = natsMain(os.Getenv("SANDJET_BENCH_DIR"))
	case "e2b":
		err = fakeMain()
	case "sandboxes":
		err = sandboxesMain(os.Getenv("SANDJET_BENCH_DIR"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// natsMain is NATS on file storage.
func natsMain(dir string) error {
	s, err := stack.StartNATS(stack.NATSOptions{StoreDir: dir})
	if err != nil {
		return err
	}
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return answer(s.ClientURL(), map[string]func(string) error{
		// Who is measured need not look for its own end.
		"drained": func(stream string) error { return awaitEmpty(js, stream) },
	})
}

// awaitEmpty waits until a work queue has no message left.
func awaitEmpty(js jetstream.JetStream, stream string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	for {
		info, err := s.Info(ctx)
		if err != nil {
			return err
		}
		if info.State.Msgs == 0 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// answer says where the server is and then does what it is asked, a line at a
// time, until whoever started it is gone.
func answer(addr string, acts map[string]func(string) error) error {
	fmt.Println(addr)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, arg, _ := strings.Cut(in.Text(), " ")
		if word == "cpu" {
			fmt.Println(cpu().Nanoseconds())
			continue
		}
		act, ok := acts[word]
		if !ok {
			return fmt.Errorf("asked for %q", word)
		}
		if err := act(arg); err != nil {
			return fmt.Errorf("%s: %w", in.Text(), err)
		}
		fmt.Println("ok")
	}
	return in.Err()
}

// cpu is what this process has used so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are constant
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
