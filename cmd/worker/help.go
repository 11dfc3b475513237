package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/worker"
)

const intro = `worker - take Sandjet's jobs from NATS and run them in E2B sandboxes

Usage:
   worker [flags]

Example:
   NATS_URL=nats://127.0.0.1:4222 REDIS_URL=redis://127.0.0.1:6379 \
     E2B_API_KEY_FILE=/run/secrets/e2b worker --concurrency 32 --http-addr :8090

Flags, and the variables that say the same (a flag wins):
`

const outro = `
A first SIGTERM or SIGINT lets go of the jobs, whose commands go on in their
sandboxes; a second one stops at once.
Exit codes: 0 stopped in order; 1 could not start, or stopped at once; 2 the
configuration cannot work.
`

// The library takes this from a package variable.
func init() {
	cli.ShowRootCommandHelp = func(cmd *cli.Command) error { return help(cmd.Root().Writer) }
}

// help writes all there is to say. It is made from the list of settings.
func help(to io.Writer) error {
	var b strings.Builder
	b.WriteString(intro)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	group := ""
	for _, s := range worker.Settings() {
		if g, _, _ := strings.Cut(s.Env, "_"); g != group {
			group = g
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "   %s\t$%s\t%s\n", flagOf(s), s.Env, usageOf(s))
	}
	fmt.Fprint(w, "\n   -h, --help\t\tprint this\n   -v, --version\t\tprint the version\n")
	_ = w.Flush() // a strings.Builder takes everything
	b.WriteString(outro)
	_, err := io.WriteString(to, b.String())
	return err
}

func flagOf(s worker.Setting) string {
	switch {
	case s.Flag == "":
		return ""
	case s.Switch():
		return "--" + s.Flag
	}
	return "--" + s.Flag + " " + s.Takes
}

func usageOf(s worker.Setting) string {
	if s.Default == "" || s.Switch() {
		return s.Usage
	}
	return s.Usage + " (" + s.Default + ")"
}
