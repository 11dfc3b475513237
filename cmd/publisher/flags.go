package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/wire"
)

const defaultTimeout = 10 * time.Second

// globalFlags may stand before or after the command's name. HideDefault keeps
// a URL with a password in it out of the help text.
func (a *App) globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "server", Aliases: []string{"s"}, Usage: "NATS server `URL`s", Sources: a.env("NATS_URL"), HideDefault: true},
		&cli.StringFlag{Name: "context", Usage: "`NAME` of a context of the nats CLI", Sources: a.env("NATS_CONTEXT"), HideDefault: true},
		&cli.StringFlag{Name: "creds", Usage: "NATS credentials `FILE`", Sources: a.env("NATS_CREDS"), HideDefault: true},
		&cli.StringFlag{Name: "nkey", Usage: "NATS nkey seed `FILE`", Sources: a.env("NATS_NKEY"), HideDefault: true},
		&cli.StringFlag{Name: "ca", Usage: "trust the certificate authority in `FILE`", Sources: a.env("NATS_CA"), HideDefault: true},
		&cli.StringFlag{Name: "cert", Usage: "TLS client certificate `FILE`", Sources: a.env("NATS_CERT"), HideDefault: true},
		&cli.StringFlag{Name: "key", Usage: "TLS client key `FILE`", Sources: a.env("NATS_KEY"), HideDefault: true},
		&cli.StringFlag{Name: "namespace", Usage: "deployment `NAME` on a shared server", Sources: a.env("SANDJET_NAMESPACE"), HideDefault: true, Validator: checkNamespace},
		&cli.StringFlag{Name: "as", Usage: "publish and ask as owner `ID`, which NATS permissions prove: what is not provably his is not there", Sources: a.env("SANDJET_OWNER"), HideDefault: true, Validator: idCheck("owner")},
		&cli.BoolFlag{Name: "json", Usage: "write JSON to stdout"},
		&cli.DurationFlag{Name: "timeout", Usage: "wait `DURATION` at most for NATS and for one answer", Value: defaultTimeout, Validator: positive},
		&cli.BoolFlag{Name: "no-color", Usage: "no colours and no status line (NO_COLOR does the same)"},
	}
}

// jobFlags are those that every command has that publishes a job.
func jobFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "owner", Usage: "publish as owner `ID`, which NATS permissions may ask for; --as does that and more", Validator: idCheck("owner")},
		&cli.StringFlag{Name: "priority", Usage: "`LEVEL`: high or low", Validator: checkPriority},
		&cli.StringSliceFlag{Name: "label", Usage: "label `K=V`; may be repeated"},
		&cli.StringFlag{Name: "id", Usage: "job `ID`; the same id in the same session is the same job", Validator: idCheck("id")},
		&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "print the job's id and do not wait for its end"},
	}
}

func sessionFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "session", Usage: usage, Validator: idCheck("session")}
}

// common reads jobFlags into the fields that all payloads share. A job without
// an id gets one here, so that publishing it twice is publishing it once.
func common(cmd *cli.Command, session string) (jobs.Common, error) {
	labels, err := pairs("label", cmd.StringSlice("label"), nil)
	if err != nil {
		return jobs.Common{}, &usageErr{cmd: cmd, err: err}
	}
	id := cmd.String("id")
	if id == "" {
		id = newID()
	}
	return jobs.Common{V: jobs.Version, ID: id, Session: session, Labels: labels}, nil
}

// oneArg returns the command's only argument.
func oneArg(cmd *cli.Command, what string) (string, error) {
	switch args := cmd.Args(); args.Len() {
	case 0:
		return "", usagef(cmd, "%s is missing", what)
	case 1:
		return args.First(), nil
	default:
		return "", usagef(cmd, "one %s only, got %d arguments", what, args.Len())
	}
}

// idArg is oneArg for an id.
func idArg(cmd *cli.Command, what string) (string, error) {
	id, err := oneArg(cmd, what)
	if err != nil {
		return "", err
	}
	if err := wire.CheckID(what, id); err != nil {
		return "", &usageErr{cmd: cmd, err: err}
	}
	return id, nil
}

func noArgs(cmd *cli.Command) error {
	if cmd.Args().Present() {
		return usagef(cmd, "takes no arguments, got %q", cmd.Args().First())
	}
	return nil
}

func positive(d time.Duration) error {
	if d <= 0 {
		return errors.New("want more than 0; leave it out for the default")
	}
	return nil
}

func atLeastOne(n int) error {
	if n < 1 {
		return errors.New("want 1 or more")
	}
	return nil
}

func checkPriority(s string) error {
	if s != "high" && s != "low" {
		return errors.New("want high or low")
	}
	return nil
}

func checkNamespace(s string) error {
	_, err := wire.ParseNamespace(s)
	return err
}

func idCheck(field string) func(string) error {
	return func(s string) error { return wire.CheckID(field, s) }
}

// env is a flag's environment variable, looked up in the App's environment.
func (a *App) env(key string) cli.ValueSourceChain {
	return cli.NewValueSourceChain(envSource{app: a, key: key})
}

// envSource is asked only for a flag that the command line does not have.
type envSource struct {
	app *App
	key string
}

func (e envSource) Lookup() (string, bool) {
	v, ok := e.app.Env(e.key)
	if !ok || v == "" {
		return "", false
	}
	e.app.fromEnv[e.key] = true
	return v, true
}
func (e envSource) IsFromEnv() bool  { return true }
func (e envSource) Key() string      { return e.key }
func (e envSource) String() string   { return fmt.Sprintf("environment variable %q", e.key) }
func (e envSource) GoString() string { return e.String() }
