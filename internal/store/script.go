package store

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// script is a Lua script and the SHA1 that Redis knows it by. Its file says
// what KEYS, ARGV and the result are.
type script struct {
	name, body, sha string
}

// newScript reads files from lua/ and puts them one behind the other: helpers
// first, the script itself last.
func newScript(names ...string) *script {
	var b strings.Builder
	for _, name := range names {
		text, err := luaFiles.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // the file is compiled in
		}
		b.Write(text)
	}
	s := &script{name: names[len(names)-1], body: b.String()}
	s.sha = redis.NewScript(s.body).Hash()
	scripts = append(scripts, s)
	return s
}

// scripts holds every script there is, so that Open can load them.
var scripts []*script

// load makes Redis know every script, on all nodes of a cluster.
func load(ctx context.Context, c redis.UniversalClient) error {
	for _, s := range scripts {
		if err := c.ScriptLoad(ctx, s.body).Err(); err != nil {
			return fmt.Errorf("load script %s: %w", s.name, err)
		}
	}
	return nil
}

// command is one Redis command on its way. If it runs a script, script says
// which, for the case that Redis has forgotten it.
type command struct {
	*redis.Cmd
	script *script
}

// eval builds the command that runs s. The first keys of args are KEYS. The
// command is made a few times a job, so its arguments lie in one piece of memory.
func (s *script) eval(ctx context.Context, keys int, args ...string) command {
	line := &struct {
		text [14]string
		args [17]any
	}{}
	text, all := line.text[:], line.args[:]
	if len(args) > len(text) {
		text, all = make([]string, len(args)), make([]any, 3+len(args))
	}
	all = all[:3+len(args)]
	all[0], all[1], all[2] = "evalsha", &s.sha, keys
	copy(text, args)
	for i := range args {
		all[3+i] = &text[i]
	}
	cmd := redis.NewCmd(ctx, all...)
	cmd.SetFirstKeyPos(3)
	return command{cmd, s}
}

// plain builds a command that is no script.
func plain(ctx context.Context, args ...any) command {
	return command{redis.NewCmd(ctx, args...), nil}
}

// again builds c anew, with the script's body in place of its hash.
func (c command) again(ctx context.Context) command {
	if c.script == nil {
		return plain(ctx, c.Args()...)
	}
	cmd := redis.NewCmd(ctx, append([]any{"eval", c.script.body}, c.Args()[2:]...)...)
	cmd.SetFirstKeyPos(3)
	return command{cmd, c.script}
}
