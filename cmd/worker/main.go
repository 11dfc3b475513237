// Command worker takes Sandjet's jobs from NATS and runs them in E2B sandboxes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/worker"
)

func main() {
	os.Exit(run(os.Args, os.Getenv, os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitFailed = 1 // it could not start, or was made to stop at once
	exitConfig = 2 // the configuration or the command line cannot work
)

// hurry is how long a second signal leaves for last words.
const hurry = time.Second

// run is main with its surroundings handed in. It returns the exit code, 0
// after an orderly stop.
func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	// The first signal stops in order, the second at once.
	kill, killNow := context.WithCancel(context.Background())
	defer killNow()
	ctx, stop := context.WithCancel(kill)
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		<-signals
		stop()
		<-signals
		killNow()
		time.AfterFunc(hurry, func() { os.Exit(exitFailed) })
	}()

	cmd := command(stdout, stderr, func(flags map[string]string) error {
		cfg, err := worker.ConfigFromEnv(worker.FromFlags(flags, getenv))
		if err != nil {
			return &usageError{err}
		}
		cfg.Environ = os.Environ()
		app, err := worker.New(cfg, logger(cfg, stderr, getenv))
		if err != nil {
			return err
		}
		return app.Run(ctx, kill)
	})
	err := cmd.Run(ctx, args)
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		// Each fault of the configuration has a line of its own.
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(stderr, "worker: %s\n", strings.TrimSpace(line))
		}
		return exitConfig
	case errors.Is(err, worker.ErrRefused):
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(stderr, "worker: %s\n", strings.TrimSpace(line))
		}
		return exitFailed
	case err != nil:
		fmt.Fprintf(stderr, "worker: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return exitFailed
	case kill.Err() != nil:
		return exitFailed
	}
	return 0
}

// usageError is a command line or a configuration that cannot work.
type usageError struct{ error }

func command(stdout, stderr io.Writer, work func(flags map[string]string) error) *cli.Command {
	return &cli.Command{
		Name:    "worker",
		Version: worker.Version,
		Flags:   flags(),
		// Without this the word help would be a command. The flag stays.
		HideHelpCommand: true,
		Writer:          stdout,
		ErrWriter:       stderr,
		OnUsageError: func(_ context.Context, _ *cli.Command, err error, _ bool) error {
			return &usageError{fmt.Errorf("%w: see --help", err)}
		},
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() > 0 {
				return &usageError{fmt.Errorf("unknown argument %q: settings are flags or environment variables, see --help", cmd.Args().First())}
			}
			given := map[string]string{}
			for _, s := range worker.Settings() {
				if s.Flag != "" && cmd.IsSet(s.Flag) {
					given[s.Env] = fmt.Sprint(cmd.Value(s.Flag))
				}
			}
			return work(given)
		},
	}
}

func flags() []cli.Flag {
	var out []cli.Flag
	for _, s := range worker.Settings() {
		switch {
		case s.Flag == "":
		case s.Switch():
			out = append(out, &cli.BoolFlag{Name: s.Flag})
		default:
			out = append(out, &cli.StringFlag{Name: s.Flag})
		}
	}
	return out
}

// logger writes lines for people to a terminal, JSON elsewhere.
func logger(cfg worker.Config, stderr io.Writer, getenv func(string) string) *slog.Logger {
	f, isFile := stderr.(*os.File)
	tty := isFile && isatty.IsTerminal(f.Fd())
	if cfg.LogFormat == "json" || cfg.LogFormat == "" && !tty {
		return slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
	}
	return slog.New(tint.NewTextHandler(stderr, &tint.Options{
		Level: cfg.LogLevel, TimeFormat: "15:04:05.000", NoColor: !tty || getenv("NO_COLOR") != "",
	}))
}
