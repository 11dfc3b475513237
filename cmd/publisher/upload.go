package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/jobs"
)

func (a *App) uploadCommand() *cli.Command {
	return &cli.Command{
		Name:        "upload",
		Usage:       "put a file into a session's sandbox",
		ArgsUsage:   "FILE",
		Description: "publisher upload --session s1 --to /home/user/data.tgz data.tgz",
		Flags:       slices.Concat(fileFlags("`PATH` in the sandbox; the file's name in the home folder unless given"), []cli.Flag{modeFlag()}, jobFlags()),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			name, err := oneArg(cmd, "FILE")
			if err != nil {
				return err
			}
			return a.transfer(ctx, cmd, func(ctx context.Context, c *conn, p *jobs.File) error {
				return a.upload(ctx, cmd, c, p, name)
			})
		},
	}
}

// fileFlags are those of upload and download.
func fileFlags(to string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "session", Usage: "session `ID`; must be given", Validator: idCheck("session")},
		&cli.StringFlag{Name: "to", Usage: to},
		&cli.StringFlag{Name: "object", Usage: "keep it in the object bucket as `NAME`"},
	}
}

func modeFlag() cli.Flag {
	return &cli.StringFlag{Name: "mode", Usage: "permissions in the sandbox, octal `MODE`"}
}

// transfer prepares what upload and download share.
func (a *App) transfer(ctx context.Context, cmd *cli.Command, f func(context.Context, *conn, *jobs.File) error) error {
	if cmd.String("session") == "" {
		return usagef(cmd, "--session is missing")
	}
	base, err := common(cmd, cmd.String("session"))
	if err != nil {
		return err
	}
	p := &jobs.File{Common: base, Object: cmd.String("object")}
	if p.Object == "" {
		if cmd.Bool("detach") && cmd.Name == "download" {
			return usagef(cmd, "--detach needs --object, to fetch the file from later")
		}
		p.Object = "transfer/" + base.ID
	}
	return a.connected(func(ctx context.Context, _ *cli.Command, c *conn) error { return f(ctx, c, p) })(ctx, cmd)
}

func (a *App) upload(ctx context.Context, cmd *cli.Command, c *conn, p *jobs.File, name string) error {
	in, size, err := a.openInput(name)
	if err != nil {
		return err
	}
	defer in.Close()
	p.Mode = cmd.String("mode")
	if p.Path = cmd.String("to"); p.Path == "" {
		if name == "-" {
			return usagef(cmd, "--to is missing: stdin has no name")
		}
		p.Path = filepath.Base(name) // of the home folder
	}
	// A fault in the job is found before the bytes travel.
	if err := c.check(jobs.FileUpload, p); err != nil {
		return err
	}
	b, err := c.bucket(ctx)
	if err != nil {
		return err
	}
	meter := a.newMeter("uploading "+filepath.Base(name), size)
	if _, err := b.Put(ctx, jetstream.ObjectMeta{Name: p.Object}, io.TeeReader(in, meter)); err != nil {
		return fmt.Errorf("put object %s: %w", p.Object, err)
	}
	s, err := c.submit(ctx, cmd, jobs.FileUpload, p)
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
	a.drop(ctx, cmd, b, p.Object)
	if cmd.Bool("json") {
		f.File = p.Path
		return a.printJSON(f)
	}
	return a.printf("%s:%s\n", s.Session, p.Path)
}

// openInput opens a file, or stdin for "-". size is -1 where it is not known.
func (a *App) openInput(name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(a.Stdin), -1, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory: pack it first, for instance with tar", name)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}
