package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"
)

// Help is kept to what fits a screen: what it does, one example, the flags.
// Every command's Description is its example.

const rootHelp = `{{.Name}} - {{.Usage}}

Usage:
   {{.Name}} [global flags] command [flags] [arguments]

Commands:{{template "visibleCommandTemplate" .}}

Global flags:{{template "visibleFlagTemplate" .}}

Exit codes of run and follow: the command's own; 124 timeout; 125 the job could
not be run; 130 cancelled. Example: {{.Name}} run --session s1 -- go test ./...
`

const commandHelp = `{{.FullName}} - {{.Usage}}

Usage:
   {{if .UsageText}}{{.UsageText}}{{else}}{{.FullName}}{{if .VisibleCommands}} command{{end}} [flags]{{with .ArgsUsage}} {{.}}{{end}}{{end}}
{{with .Description}}
Example:
   {{.}}
{{end}}{{if .VisibleCommands}}
Commands:{{template "visibleCommandTemplate" .}}
{{end}}{{if .VisibleFlags}}
Flags:{{template "visibleFlagTemplate" .}}
{{end}}
Global flags: see publisher --help
`

// The library takes these from package variables. All our commands share them.
func init() {
	cli.CommandHelpTemplate = commandHelp
	cli.SubcommandHelpTemplate = commandHelp
	cli.FlagStringer = flagLine
}

// flagLine is a flag in the help: its names, what it takes once, what it does.
// Columns are parted by a tab.
func flagLine(f cli.Flag) string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return ""
	}
	var names []string
	for _, n := range f.Names() {
		if len(n) == 1 {
			names = append([]string{"-" + n}, names...)
		} else {
			names = append(names, "--"+n)
		}
	}
	head, usage := strings.Join(names, ", "), d.GetUsage()
	if before, rest, ok := strings.Cut(usage, "`"); ok {
		what, after, _ := strings.Cut(rest, "`")
		head, usage = head+" "+what, before+what+after
	}
	if v := d.GetValue(); d.TakesValue() && d.IsDefaultVisible() && v != "" {
		usage += " (" + v + " unless given)"
	}
	for _, env := range d.GetEnvVars() {
		usage += " [$" + env + "]"
	}
	return head + "\t" + usage
}

// noSuchCommand is the root's action: it runs when no subcommand was named.
func noSuchCommand(ctx context.Context, cmd *cli.Command) error {
	switch name := cmd.Args().First(); {
	case name == "" || name == "help" && cmd.Args().Len() == 1:
		return cli.ShowRootCommandHelp(cmd)
	case name == "help" && cmd.Command(cmd.Args().Get(1)) != nil:
		return cli.ShowCommandHelp(ctx, cmd, cmd.Args().Get(1))
	}
	return unknown(cmd)
}

// groupAction is the action of a command that only has subcommands.
func groupAction(_ context.Context, cmd *cli.Command) error {
	if cmd.Args().Present() {
		return unknown(cmd)
	}
	return cli.ShowSubcommandHelp(cmd)
}
