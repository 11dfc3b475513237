package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/sandjet/sandjet/internal/stack"
)

// banner tells people what runs where, and three commands to paste.
func (a app) banner(s *stack.Stack, w *running) {
	lines := [][2]string{
		{"nats", s.NATSURL() + "  JetStream, " + strings.TrimSpace("nats-server "+dependency("github.com/nats-io/nats-server/v2"))},
		{"redis", s.RedisURL() + "  " + s.Redis.Kind},
		{"sandboxes", s.E2BURL() + "  isolation: " + s.E2B.Isolation()},
		{"worker", describeWorker(w)},
		{"data", dataLine(s)},
	}
	fmt.Fprintf(a.stderr, "Sandjet devstack %s\n", versionString())
	for _, l := range lines {
		fmt.Fprintf(a.stderr, "  %-10s %s\n", l[0], l[1])
	}
	publisher := "publisher"
	if _, err := exec.LookPath(publisher); err != nil {
		if _, err := os.Stat("cmd/publisher"); err == nil {
			publisher = "go run ./cmd/publisher"
		}
	}
	fmt.Fprintf(a.stderr, `
  nats -s %[1]s pub task.run '{"id":"hello","session":"s1","argv":["echo","hi"]}'
  %[2]s -s %[1]s follow hello --session s1
  %[2]s -s %[1]s run --session s1 -- sh -c 'id; pwd; ls -la'

`, s.NATSURL(), publisher)
}

func dataLine(s *stack.Stack) string {
	if s.Temporary {
		return s.DataDir + " (removed at the end; --data DIR keeps it)"
	}
	return s.DataDir
}

func describeWorker(w *running) string {
	if w == nil {
		return "none (--no-worker)"
	}
	return "in this process"
}
