package local

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// userOf reads the user of a call from its Basic authorization; the password
// means nothing.
func (s *sandbox) userOf(h http.Header) (account, error) {
	name := ""
	if rest, ok := strings.CutPrefix(h.Get("Authorization"), "Basic "); ok {
		b, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return account{}, connect.NewError(connect.CodeUnauthenticated, errors.New("invalid basic authorization"))
		}
		name, _, _ = strings.Cut(string(b), ":")
	}
	u, ok := s.account(name)
	if !ok {
		return account{}, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("invalid username: '%s'", name))
	}
	return u, nil
}

// account is the user of that name; the empty one is the template's, or user.
func (s *sandbox) account(name string) (account, bool) {
	if name == "" {
		name = s.rec.User // it never changes
	}
	return s.srv.users.byName(name)
}

// expand makes a path absolute as envd does: relative to the user's home, "~"
// being that home.
func expand(name string, u account) (string, error) {
	switch {
	case name == "" || name == "~":
		return u.home, nil
	case strings.HasPrefix(name, "~/"):
		return path.Join(u.home, name[2:]), nil
	case strings.HasPrefix(name, "~"):
		return "", errors.New("cannot expand user-specific home dir")
	case strings.ContainsRune(name, 0):
		return "", errors.New("invalid path: it holds a zero byte")
	case path.IsAbs(name):
		return path.Clean(name), nil
	}
	return path.Join(u.home, name), nil
}

// command turns a request into what to run, or says what is wrong with it.
func (s *sandbox) command(req *process.StartRequest, h http.Header) (command, error) {
	u, err := s.userOf(h)
	if err != nil {
		return command{}, err
	}
	cfg := req.GetProcess()
	cwd := cfg.GetCwd()
	if cwd == "" {
		cwd = s.rec.Workdir // it never changes
	}
	dir, err := expand(cwd, u)
	if err != nil {
		return command{}, connect.NewError(connect.CodeInvalidArgument, err)
	}
	c := command{
		user: u, dir: dir, argv: append([]string{cfg.GetCmd()}, cfg.GetArgs()...),
		stdin: req.Stdin == nil || req.GetStdin(), env: s.environment(u, cfg.GetEnvs()),
	}
	if size := req.GetPty().GetSize(); size != nil {
		c.size = &winsize{cols: uint16(size.GetCols()), rows: uint16(size.GetRows())}
	}
	if err := c.check(); err != nil {
		return command{}, connect.NewError(connect.CodeInvalidArgument, err)
	}
	return c, nil
}

// environment is what a command sees: nothing of the server's own, then the
// sandbox's, then the request's.
func (s *sandbox) environment(u account, own map[string]string) []string {
	rec := s.snapshot()
	env := map[string]string{
		"PATH": sandboxPath, "HOME": u.home, "USER": u.name, "LOGNAME": u.name,
		"E2B_SANDBOX": "true", "E2B_SANDBOX_ID": rec.ID, "E2B_TEMPLATE_ID": rec.Template,
	}
	for _, more := range []map[string]string{rec.environment(), own} {
		for k, v := range more {
			if k != "" && !strings.Contains(k, "=") {
				env[k] = v
			}
		}
	}
	list := make([]string, 0, len(env))
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

// start starts a command and listens to it from its first byte.
func (s *sandbox) start(ctx context.Context, c command, req *process.StartRequest) (p *proc, l *listener, err error) {
	err = s.awake(func(j *jail) error {
		n, err := j.tree.look(c.dir)
		if err != nil || !n.isDir() {
			return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("cwd '%s' does not exist", c.dir))
		}
		n.close()
		c.env = slices.Concat(s.egress.environment(), j.trust.environment(j.level), c.env) // the last one counts
		if j.level == None {
			c.env = j.plainEnv(c)
		}
		run, err := j.launch(c)
		if errors.Is(err, syscall.E2BIG) { // not that of the program that leads in
			err = syscall.E2BIG
		}
		if err != nil {
			return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("error starting process '%s': %w", c.argv[0], err))
		}
		p = newProc(run, req.GetProcess(), req.Tag)
		l = p.hub.listen(ctx)
		s.procs.add(p)
		p.limit(ctx)
		pid := strconv.Itoa(p.pid)
		s.log.add("info", "process started", "pid", pid, "cmd", c.argv[0], "user", c.user.name)
		s.srv.run(func() {
			p.run()
			s.log.add("info", "process ended", "pid", pid, "status", p.ended().GetEnd().GetStatus())
			s.procs.retire(p)
		})
		s.srv.cfg.Faults.noteStart(c.argv)
		return run.ctl.release()
	})
	if errors.Is(err, errAsleep) {
		err = connect.NewError(connect.CodeUnavailable, err)
	}
	return p, l, err
}

// limit makes the call's deadline the command's own: it dies at it, whether
// the client still listens or not.
func (p *proc) limit(ctx context.Context) {
	if end, ok := ctx.Deadline(); ok {
		p.life = time.AfterFunc(time.Until(end), func() { _ = p.signal(syscall.SIGKILL) })
	}
}

// plainEnv points a command without namespaces to the sandbox's own places.
func (j *jail) plainEnv(c command) []string {
	env := make([]string, 0, len(c.env)+1)
	env = append(env, "TMPDIR="+j.hostPath("/tmp"))
	for _, kv := range c.env {
		if kv == "HOME="+c.user.home {
			kv = "HOME=" + j.hostPath(c.user.home)
		}
		env = append(env, kv)
	}
	return env
}
