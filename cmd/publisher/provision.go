package main

import (
	"context"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

func (a *App) provisionCommand() *cli.Command {
	return &cli.Command{
		Name:        "provision",
		Usage:       "make a session and its sandbox",
		ArgsUsage:   "SESSION",
		Description: "publisher provision --template base --idle-timeout 10m s1",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "template", Usage: "E2B template `NAME`"},
			&cli.DurationFlag{Name: "idle-timeout", Usage: "pause it after `DURATION` without work (5m unless given)", HideDefault: true, Validator: positive},
			&cli.DurationFlag{Name: "max-age", Usage: "destroy it after `DURATION`, whatever happens (24h unless given)", HideDefault: true, Validator: positive},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "environment `K=V` of every command, or K alone to pass ours on; may be repeated"},
			&cli.StringSliceFlag{Name: "secret", Usage: "`NAME` of a secret that the worker knows, given to every command as the variable of that name, or VAR=NAME; may be repeated"},
			&cli.StringSliceFlag{Name: "metadata", Usage: "metadata `K=V` for E2B; may be repeated"},
			&cli.StringSliceFlag{Name: "allow-out", Usage: "`HOST` or CIDR it may reach; may be repeated"},
			&cli.StringSliceFlag{Name: "deny-out", Usage: "`HOST` or CIDR it may not reach; may be repeated"},
			&cli.BoolFlag{Name: "no-internet", Usage: "cut it off from the internet"},
		}, jobFlags()),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			payload, err := a.provisionPayload(cmd)
			if err != nil {
				return err
			}
			return a.change(ctx, cmd, jobs.SandboxProvision, payload)
		},
	}
}

func (a *App) provisionPayload(cmd *cli.Command) (*jobs.Provision, error) {
	id, err := idArg(cmd, "SESSION")
	if err != nil {
		return nil, err
	}
	base, err := common(cmd, id)
	if err != nil {
		return nil, err
	}
	p := &jobs.Provision{
		Common:      base,
		Template:    cmd.String("template"),
		IdleTimeout: wire.Duration(cmd.Duration("idle-timeout")),
		MaxAge:      wire.Duration(cmd.Duration("max-age")),
		Network:     network(cmd),
	}
	if p.Env, err = pairs("env", cmd.StringSlice("env"), a.Env); err != nil {
		return nil, &usageErr{cmd: cmd, err: err}
	}
	if p.Secrets, err = secretRefs(cmd.StringSlice("secret")); err != nil {
		return nil, &usageErr{cmd: cmd, err: err}
	}
	if p.Metadata, err = pairs("metadata", cmd.StringSlice("metadata"), nil); err != nil {
		return nil, &usageErr{cmd: cmd, err: err}
	}
	return p, nil
}

func network(cmd *cli.Command) *session.Network {
	n := &session.Network{AllowOut: cmd.StringSlice("allow-out"), DenyOut: cmd.StringSlice("deny-out")}
	if cmd.Bool("no-internet") {
		n.AllowInternet = new(bool)
	}
	if n.AllowInternet == nil && len(n.AllowOut) == 0 && len(n.DenyOut) == 0 {
		return nil
	}
	return n
}

// change publishes a job that changes a session, waits for its end and prints
// what the session is then.
func (a *App) change(ctx context.Context, cmd *cli.Command, kind jobs.Kind, p jobs.Payload) error {
	return a.connected(func(ctx context.Context, cmd *cli.Command, c *conn) error {
		s, err := c.submit(ctx, cmd, kind, p)
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
		rec, _, err := c.log.Session(ctx, s.Session)
		if err != nil {
			return err
		}
		if cmd.Bool("json") {
			f.Record = rec
			return a.printJSON(f)
		}
		return a.printf("%s\n", sessionLine(rec))
	})(ctx, cmd)
}

// sessionLine is a session on one line: name and state first, for awk.
func sessionLine(r session.Record) string {
	return join("  ", r.Session, string(r.State),
		prefixed("sandbox=", r.SandboxID),
		prefixed("template=", r.Template),
		prefixed("owner=", r.Owner))
}
