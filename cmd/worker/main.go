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
	"syscall"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/worker"
)

func main() {
	os.Exit(run(os.Args, os.Getenv, os.Stdout, os.Stderr))
}

// run is main with its surroundings handed in. It returns the exit code: 0
// after an orderly stop, 2 for a configuration that cannot work, 1 otherwise.
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
	}()

	code := 0
	cmd := command(stdout, stderr, func(flags map[string]string) error {
		cfg, err := worker.ConfigFromEnv(func(name string) string {
			if v, ok := flags[name]; ok {
				return v
			}
			return getenv(name)
		})
		if err != nil {
			code = 2
			return err
		}
		app, err := worker.New(cfg, logger(cfg, stderr))
		if err != nil {
			return err
		}
		return app.Run(ctx, kill)
	})
	if err := cmd.Run(ctx, args); err != nil {
		fmt.Fprintf(stderr, "worker: %v\n", err)
		if code == 0 {
			code = 1
		}
		var usage *usageError
		if errors.As(err, &usage) {
			code = 2
		}
	}
	return code
}

// usageError is a command line that cannot be read.
type usageError struct{ error }

func command(stdout, stderr io.Writer, work func(flags map[string]string) error) *cli.Command {
	var flags []cli.Flag
	for _, s := range worker.Settings() {
		flags = append(flags, &cli.StringFlag{
			Name: s.Flag, Usage: s.Usage + " ($" + s.Env + ")", DefaultText: s.Default, HideDefault: s.Default == "",
		})
	}
	return &cli.Command{
		Name:      "worker",
		Usage:     "take Sandjet's jobs from NATS and run them in E2B sandboxes",
		UsageText: "NATS_URL=nats://127.0.0.1:4222 REDIS_URL=redis://127.0.0.1:6379 E2B_API_KEY_FILE=key worker",
		Version:   worker.Version,
		Flags:     flags,
		Writer:    stdout,
		ErrWriter: stderr,
		OnUsageError: func(_ context.Context, _ *cli.Command, err error, _ bool) error {
			return &usageError{err}
		},
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() > 0 {
				return &usageError{fmt.Errorf("unknown argument %q: settings are flags or environment variables, see --help", cmd.Args().First())}
			}
			given := map[string]string{}
			for _, s := range worker.Settings() {
				if cmd.IsSet(s.Flag) {
					given[s.Env] = cmd.String(s.Flag)
				}
			}
			return work(given)
		},
	}
}

// logger writes lines for people to a terminal, JSON elsewhere.
func logger(cfg worker.Config, stderr io.Writer) *slog.Logger {
	f, isFile := stderr.(*os.File)
	tty := isFile && isatty.IsTerminal(f.Fd())
	if cfg.LogFormat == "json" || cfg.LogFormat == "" && !tty {
		return slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
	}
	return slog.New(tint.NewHandler(stderr, &tint.Options{
		Level: cfg.LogLevel, TimeFormat: "15:04:05.000", NoColor: !tty || os.Getenv("NO_COLOR") != "",
	}))
}
