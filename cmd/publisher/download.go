package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/jobs"
)

func (a *App) downloadCommand() *cli.Command {
	return &cli.Command{
		Name:        "download",
		Usage:       "fetch a file from a session's sandbox",
		ArgsUsage:   "PATH",
		Description: "publisher download --session s1 --to report.html /home/user/report.html",
		Flags:       slices.Concat(fileFlags("local `FILE`, - being stdout; the path's last part unless given"), jobFlags()),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			from, err := oneArg(cmd, "PATH")
			if err != nil {
				return err
			}
			return a.transfer(ctx, cmd, func(ctx context.Context, c *conn, p *jobs.File) error {
				p.Path = from
				return a.download(ctx, cmd, c, p)
			})
		},
	}
}

func (a *App) download(ctx context.Context, cmd *cli.Command, c *conn, p *jobs.File) error {
	to := cmd.String("to")
	if to == "" {
		to = path.Base(p.Path)
	} else if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, path.Base(p.Path))
	}
	s, err := c.submit(ctx, cmd, jobs.FileDownload, p)
	if err != nil {
		return err
	}
	if cmd.Bool("detach") {
		return a.detached(cmd, s)
	}
	f, err := a.await(ctx, c, s)
	if err != nil {
		return err
	}
	b, err := c.bucket(ctx)
	if err != nil {
		return err
	}
	if err := a.fetch(ctx, b, p.Object, to); err != nil {
		return err
	}
	a.drop(ctx, cmd, b, p.Object)
	if to == "-" {
		return nil
	}
	if cmd.Bool("json") {
		f.File = to
		return a.printJSON(f)
	}
	return a.printf("%s\n", to)
}

// fetch copies an object to a local file, which appears when it is whole: the
// object store compares its digest with the last byte. stdout has no such
// choice.
func (a *App) fetch(ctx context.Context, b jetstream.ObjectStore, object, to string) (err error) {
	in, err := b.Get(ctx, object)
	if err != nil {
		return fmt.Errorf("get object %s: %w", object, err)
	}
	defer in.Close()
	info, err := in.Info()
	if err != nil {
		return fmt.Errorf("get object %s: %w", object, err)
	}
	from := io.TeeReader(in, a.newMeter("downloading "+path.Base(to), int64(info.Size)))
	if to == "-" {
		_, err = io.Copy(a.console.Stdout(), from)
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(to), ".publisher-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = tmp.Close()
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	if _, err = io.Copy(tmp, from); err != nil {
		return fmt.Errorf("get object %s: %w", object, err)
	}
	if err = tmp.Chmod(0o644); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), to)
}
