package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"

	"github.com/sandjet/sandjet/internal/stack"
)

type upOptions struct {
	stack    stack.Options
	envFile  string
	gitAddr  string
	httpAddr string
	logLevel string
	noWorker bool
}

// up starts the stack and a worker, says ready, and stops them in order when
// ctx ends. It fails if a part does not start or the worker ends by itself.
func (a app) up(ctx context.Context, o upOptions) (err error) {
	log, err := a.logger(o.logLevel)
	if err != nil {
		return err
	}
	if err := stack.CheckAddr(o.httpAddr); err != nil {
		return fmt.Errorf("--http-addr: %w", err)
	}
	if err := stack.CheckAddr(o.gitAddr); err != nil {
		return fmt.Errorf("--git-addr: %w", err)
	}
	if o.httpAddr == "" {
		if o.httpAddr, err = stack.FreeAddr(); err != nil {
			return err
		}
	}
	o.stack.Log = log
	// The parts outlive ctx: they stop one after the other, the worker first.
	life := context.WithoutCancel(ctx)
	s, err := stack.Start(life, o.stack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(life)) }()

	git, err := startGit(filepath.Join(s.DataDir, "git"), o.gitAddr, log)
	switch {
	case err == nil:
		defer git.Close()
	case !errors.Is(err, errNoGit) || o.gitAddr != "":
		return err
	}

	var w *running
	if !o.noWorker {
		if w, err = startWorker(ctx, workerEnv(s, git.env(a.getenv), o.httpAddr, a.getenv), log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.stop()) }()
	}
	a.banner(s, git, w, o.httpAddr)
	if err := a.announce(o.envFile, s.Env()); err != nil {
		return err
	}
	return w.wait(ctx)
}

// logger writes to stderr: colored on a terminal, unless NO_COLOR is set.
func (a app) logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	return slog.New(tint.NewTextHandler(a.stderr, &tint.Options{
		Level:      l,
		TimeFormat: "15:04:05.000",
		NoColor:    a.getenv("NO_COLOR") != "" || !isTerminal(a.stderr),
	})), nil
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
