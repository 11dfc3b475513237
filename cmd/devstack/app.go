package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/stack"
)

// version is set by the linker ("make build").
var version string

// app holds what the commands write to and read from, so that a test can drive
// them.
type app struct {
	stdout, stderr io.Writer // stdout is for programs, stderr for people
	getenv         func(string) string
}

func (a app) command() *cli.Command {
	return &cli.Command{
		Name:  "devstack",
		Usage: "everything Sandjet needs, in one process on loopback",
		Description: "No account, no containers, no configuration: NATS with JetStream, Redis, an\n" +
			"E2B-compatible sandbox server and a worker.",
		Version:        versionString(),
		Writer:         a.stdout,
		ErrWriter:      a.stderr,
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // main prints and exits
		Commands:       []*cli.Command{a.upCommand(), a.e2bCommand(), a.demoCommand()},
	}
}

func (a app) upCommand() *cli.Command {
	var o upOptions
	return &cli.Command{
		Name:  "up",
		Usage: "start the whole stack and keep it until SIGINT or SIGTERM",
		Description: "Prints \"ready\" on stdout when everything takes requests and the file of\n" +
			"--env-file is written. All addresses are loopback.",
		Flags: []cli.Flag{
			dataFlag(&o.stack.DataDir),
			envFileFlag(&o.envFile),
			&cli.BoolFlag{Name: "no-worker", Usage: "leave the worker out", Destination: &o.noWorker},
			addrFlag("nats-addr", "NATS", &o.stack.NATSAddr),
			addrFlag("redis-addr", "Redis", &o.stack.RedisAddr),
			addrFlag("e2b-addr", "the sandbox server", &o.stack.E2BAddr),
			addrFlag("git-addr", "the git server", &o.gitAddr),
			addrFlag("http-addr", "the worker's health and metrics", &o.httpAddr),
			logLevelFlag(&o.logLevel, "warn"),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArgs(cmd); err != nil {
				return err
			}
			return a.up(ctx, o)
		},
	}
}

func (a app) e2bCommand() *cli.Command {
	var o e2bOptions
	return &cli.Command{
		Name:  "e2b",
		Usage: "start the sandbox server alone, for any program that uses an E2B SDK",
		Description: "Prints the variables an SDK wants, then \"ready\", on stdout. With --data sandboxes,\n" +
			"paused ones too, and snapshots are there again after a restart; processes are not.",
		Flags: []cli.Flag{
			dataFlag(&o.dataDir),
			envFileFlag(&o.envFile),
			addrFlag("e2b-addr", "the sandbox server", &o.addr),
			&cli.StringFlag{Name: "fault", Usage: "script failures as `FILE` says, in JSON (docs/sandbox-server.md)", Destination: &o.faultFile, TakesFile: true},
			&cli.StringFlag{Name: "record", Usage: "append the traffic to `FILE`, a line of JSON a call, without keys, tokens and contents", Destination: &o.recordFile, TakesFile: true},
			&cli.DurationFlag{Name: "latency", Usage: "let every call wait `DURATION`, as the way to a cloud does", Destination: &o.latency},
			&cli.Int64Flag{Name: "memory", Usage: "let a sandbox use `MIB` MiB of memory; -1 is no limit", Value: 2048, Destination: &o.memory},
			&cli.IntFlag{Name: "processes", Usage: "let a sandbox have `N` processes, threads counted; -1 is no limit", Value: 1024, Destination: &o.processes},
			&cli.Int64Flag{Name: "disk", Usage: "give a sandbox a disk of `MIB` MiB; -1 is no limit but the machine's", Value: 10240, Destination: &o.disk},
			&cli.StringFlag{Name: "network", Usage: "what a sandbox reaches past its egress proxy: `none` but itself, or host, this machine's network with its loopback", Value: "none", Destination: &o.network},
			&cli.StringFlag{Name: "egress-ca", Usage: "let sandboxes and their egress proxies trust the certificates in `FILE` too, in PEM", Destination: &o.egressCA, TakesFile: true},
			&cli.StringFlag{Name: "templates", Usage: "build a template of each directory in `DIR` that has a Dockerfile or an e2b.Dockerfile (docs/sandbox-server.md)", Destination: &o.templates, TakesFile: true},
			&cli.BoolFlag{Name: "strict-templates", Usage: "refuse other names of templates; else they are accepted, and empty", Destination: &o.strict},
			&cli.BoolFlag{Name: "insecure-no-isolation", Usage: "take an address beyond loopback although sandboxes are not strongly isolated", Destination: &o.insecure},
			logLevelFlag(&o.logLevel, "warn"),
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArgs(cmd); err != nil {
				return err
			}
			return a.e2b(ctx, o)
		},
	}
}

func (a app) demoCommand() *cli.Command {
	var o demoOptions
	return &cli.Command{
		Name:  "demo",
		Usage: "run the main job once, on a stack of its own, and exit with its result",
		Description: "Provisions a session, clones a repository in its sandbox, runs the repository's\n" +
			"tests with live output, moves a file both ways, lets the session fall asleep, wakes\n" +
			"it with a job and destroys it. Then one job takes the repository to a draft pull\n" +
			"request, its events printed as they come. Every step is checked; exit 0 means all\n" +
			"were true. Wants git.",
		Flags: []cli.Flag{logLevelFlag(&o.logLevel, "error")},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := noArgs(cmd); err != nil {
				return err
			}
			return a.demo(ctx, o)
		},
	}
}

func dataFlag(to *string) cli.Flag {
	return &cli.StringFlag{Name: "data", Usage: "keep everything in `DIR`, across restarts (default: a temporary folder, removed at the end)", Destination: to, TakesFile: true}
}

func envFileFlag(to *string) cli.Flag {
	return &cli.StringFlag{Name: "env-file", Usage: "write the addresses and the key as KEY=VALUE lines to `FILE`", Destination: to, TakesFile: true}
}

func addrFlag(name, what string, to *string) cli.Flag {
	return &cli.StringFlag{Name: name, Usage: "`HOST:PORT` of " + what + " (default: a free port of 127.0.0.1)", Destination: to}
}

func logLevelFlag(to *string, def string) cli.Flag {
	return &cli.StringFlag{Name: "log-level", Usage: "log from `LEVEL` on, to stderr: debug, info, warn, error", Value: def, Sources: cli.EnvVars("LOG_LEVEL"), Destination: to}
}

func noArgs(cmd *cli.Command) error {
	if cmd.Args().Present() {
		return fmt.Errorf("%s takes no arguments, got %q", cmd.Name, cmd.Args().First())
	}
	return nil
}

// announce writes the env file, if one is wanted, and then says ready.
func (a app) announce(envFile string, vars []stack.Var) error {
	if envFile != "" {
		if err := stack.WriteEnvFile(envFile, vars); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(a.stdout, "ready")
	return err
}

func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// dependency returns the version of a module that is linked in.
func dependency(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return ""
}
