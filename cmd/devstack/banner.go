package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sandjet/sandjet/internal/stack"
)

// banner tells people what runs where, and commands to paste.
func (a app) banner(s *stack.Stack, git *repository, w *running, httpAddr string) {
	lines := [][2]string{
		{"nats", s.NATSURL() + "  JetStream, " + strings.TrimSpace("nats-server "+dependency("github.com/nats-io/nats-server/v2"))},
		{"redis", s.RedisURL() + "  " + s.Redis.Kind},
		{"sandboxes", s.E2BURL() + "  isolation: " + s.E2B.Isolation()},
		{"git", gitLine(git, a.getenv)},
		{"worker", workerLine(w, httpAddr)},
		{"data", dataLine(s)},
	}
	fmt.Fprintf(a.stderr, "Sandjet devstack %s\n", versionString())
	for _, l := range lines {
		fmt.Fprintf(a.stderr, "  %-10s %s\n", l[0], l[1])
	}
	fmt.Fprintf(a.stderr, `
  nats -s %[1]s pub task.run '{"id":"hello","session":"s1","argv":["echo","hi"]}'
  %[2]s -s %[1]s follow hello --session s1
  %[2]s -s %[1]s run --session s1 -- sh -c 'id; pwd; ls -la'
`, s.NATSURL(), publisherCommand())
	if git != nil && git.env(a.getenv) != nil {
		fmt.Fprintf(a.stderr, `  %[2]s -s %[1]s run --repo %[3]s --commit 'docs: say more' --pr -- sh -c 'echo more >>README.md'
`, s.NATSURL(), publisherCommand(), git.URL)
	}
	fmt.Fprintln(a.stderr)
}

// gitLine says where the repository is, or what it wants.
func gitLine(git *repository, getenv func(string) string) string {
	switch {
	case git == nil:
		return "none (git is not installed)"
	case git.env(getenv) == nil:
		return git.URL + "  to clone alone: the credential in the environment is for GitHub"
	}
	return git.URL + "  with pull requests"
}

func dataLine(s *stack.Stack) string {
	if s.Temporary {
		return s.DataDir + " (removed at the end; --data DIR keeps it)"
	}
	return s.DataDir
}

func workerLine(w *running, httpAddr string) string {
	if w == nil {
		return "none (--no-worker)"
	}
	return "http://" + httpAddr + "/readyz, /metrics"
}

// publisherCommand is how the publisher is called from here: as it was
// installed, as it was built beside this program, or from its source.
func publisherCommand() string {
	if _, err := exec.LookPath("publisher"); err == nil {
		return "publisher"
	}
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), "publisher")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	if _, err := os.Stat("cmd/publisher"); err == nil {
		return "go run ./cmd/publisher"
	}
	return "publisher"
}
