package main

import (
	"context"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

// App is the command line. What the process gives it comes in as fields, so
// that a test can drive it. An App runs one command line at a time.
type App struct {
	Env     func(string) (string, bool)
	Stdin   io.Reader
	Stdout  io.Writer // data
	Stderr  io.Writer // for people
	Signals <-chan os.Signal
	// Abort ends the process when a second signal comes before the first one
	// has been minded, for instance while stdin is read. It may be nil.
	Abort func()

	args    []string // as given, for run's argv
	fromEnv map[string]bool
	console *console
	signals *signals

	hintAfter time.Duration // for tests; see the constant
}

// Run executes one command line, args[0] being the program's name, and returns
// the process's exit code. Errors have been printed by then.
func (a *App) Run(ctx context.Context, args []string) int {
	a.args, a.fromEnv = args, map[string]bool{}
	a.console = newConsole(a.Stdout, a.Stderr, a.dumb(args))
	a.signals = &signals{ch: a.Signals, abort: a.Abort}
	ctx, stop := a.signals.watch(ctx)
	defer stop()

	err := a.root().Run(ctx, args)
	a.console.Status("")
	return a.report(err)
}

// root builds the whole tree anew: flags keep the values they were given.
func (a *App) root() *cli.Command {
	root := &cli.Command{
		Name:                            "publisher",
		Usage:                           "give Sandjet its jobs and see what becomes of them",
		Version:                         buildVersion(),
		Flags:                           a.globalFlags(),
		Writer:                          a.Stdout,
		ErrWriter:                       a.Stderr,
		Reader:                          a.Stdin,
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: completionCommand,
		CustomRootCommandHelpTemplate:   rootHelp,
		HideHelpCommand:                 true,
		Action:                          noSuchCommand,
		ExitErrHandler:                  func(context.Context, *cli.Command, error) {}, // App.report does it
		Commands: []*cli.Command{
			a.runCommand(),
			a.followCommand(),
			a.cancelCommand(),
			a.provisionCommand(),
			a.lifecycleCommand(resume),
			a.lifecycleCommand(pause),
			a.lifecycleCommand(destroy),
			a.uploadCommand(),
			a.downloadCommand(),
			a.cloneCommand(),
			a.publishCommand(),
			a.sessionsCommand(),
			a.jobsCommand(),
			a.whyCommand(),
			a.deadCommand(),
			a.auditCommand(),
			a.doctorCommand(),
		},
	}
	_ = root.Walk(func(c *cli.Command) error {
		c.OnUsageError = usageError
		c.DisableSliceFlagSeparator = true // -e LIST=a,b is one variable
		return nil
	})
	return root
}

// dumb reports whether people asked for plain text: no status line, no
// colours. It looks at the arguments themselves, because errors in them must
// be printed the same way.
func (a *App) dumb(args []string) bool {
	if v, ok := a.Env("NO_COLOR"); ok && v != "" {
		return true
	}
	if v, _ := a.Env("TERM"); v == "dumb" {
		return true
	}
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--no-color", "--json":
			return true
		}
	}
	return false
}

// buildVersion is the release's version, or the commit a plain go build came
// from.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return strings.Trim(info.Main.Version, "v()")
}
