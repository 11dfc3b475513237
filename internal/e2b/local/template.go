package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandjet/sandjet/internal/e2b/envd/process"
)

// builtTemplate is what a recipe made: files, and how sandboxes of it begin.
type builtTemplate struct {
	defaults

	files *snapshot
}

// defaults are what a template gives to each sandbox that is made from it, and to
// the snapshots of those.
type defaults struct {
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty"`    // who commands are run as; empty is user
	Workdir string            `json:"workdir,omitempty"` // where; empty is the home
	Start   []string          `json:"start,omitempty"`   // runs from the start of each sandbox
}

const (
	templatesDir = "templates"
	templateFile = "template.json"
	// builder is part of each template's sum: raise it when recipes come to mean
	// something else.
	builder = "1"
)

// buildTemplates makes a template of each directory in cfg.Recipes that has a
// recipe. One that was made from the same recipe and files is taken as it is.
func (s *Server) buildTemplates(ctx context.Context) error {
	if s.cfg.Recipes == "" {
		return nil
	}
	entries, err := os.ReadDir(s.cfg.Recipes)
	if err != nil {
		return fmt.Errorf("read the templates: %w", err)
	}
	keep := make(map[string]bool)
	for _, e := range entries {
		dir := filepath.Join(s.cfg.Recipes, e.Name())
		if !isDir(dir) {
			continue
		}
		r, err := readRecipe(dir)
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		if m := nameForm.FindStringSubmatch(e.Name()); m == nil || m[2] != "" {
			return fmt.Errorf("%s: %q is no template's name: a-z, 0-9, _ and -", r.file, e.Name())
		}
		sum, err := r.sum(string(s.isolation))
		if err != nil {
			return err
		}
		keep[sum] = true
		if s.templates[e.Name()], err = s.template(ctx, e.Name(), r, filepath.Join(s.dir, templatesDir, sum)); err != nil {
			return err
		}
	}
	if len(s.templates) == 0 {
		return fmt.Errorf("%s: no template: want a directory each, with a Dockerfile or an e2b.Dockerfile", s.cfg.Recipes)
	}
	old, _ := os.ReadDir(filepath.Join(s.dir, templatesDir))
	for _, e := range old {
		if !keep[e.Name()] {
			_ = removeTree(filepath.Join(s.dir, templatesDir, e.Name()))
		}
	}
	return nil
}

// sum tells apart what templates are made from: the recipe, all files beside it,
// and how sandboxes are isolated.
func (r *recipe) sum(isolation string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", builder, isolation)
	root, err := os.OpenRoot(r.context)
	if err != nil {
		return "", fmt.Errorf("read the template: %w", err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %s %d\n", name, info.Mode(), info.Size())
		if !info.Mode().IsRegular() {
			return nil
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(h, f)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the template: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// template takes a template from dir, or builds it there.
func (s *Server) template(ctx context.Context, name string, r *recipe, dir string) (*builtTemplate, error) {
	t := &builtTemplate{files: &snapshot{ID: name, dir: dir}}
	b, err := os.ReadFile(filepath.Join(dir, templateFile))
	if err == nil && json.Unmarshal(b, t) == nil {
		return t, nil
	}
	s.log.Info("template is built", "template", name, "file", r.file)
	_ = removeTree(dir)
	if err := os.MkdirAll(filepath.Join(dir, "root"), 0o755); err != nil {
		return nil, fmt.Errorf("build the template: %w", err)
	}
	now := time.Now()
	sb, err := s.begin(ctx, record{
		ID: newID(), Template: name, State: "running", CreatedAt: now, StartedAt: now, EndAt: now.Add(s.cfg.MaxLength), Timeout: s.cfg.MaxLength,
		Building: true,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("build the template: %w", err)
	}
	defer sb.kill()
	build := &build{sandbox: sb, recipe: r, builtTemplate: t, user: "root", vars: make(map[string]string)}
	if err := build.run(ctx); err != nil {
		return nil, err
	}
	sb.launch.Lock() // what a step left running must not change what is copied
	sb.endJail()
	err = copyTree(ctx, sb.disk.root, filepath.Join(dir, "root"))
	sb.launch.Unlock()
	if err == nil {
		b, err = json.Marshal(t)
	}
	if err == nil { // the last of it: without this file it is built again
		err = os.WriteFile(filepath.Join(dir, templateFile), b, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("build the template: %w", err)
	}
	return t, nil
}

// build goes through the steps of a recipe in a sandbox.
type build struct {
	*sandbox
	*recipe
	*builtTemplate
	user string
	vars map[string]string // ARG and ENV
}

func (b *build) run(ctx context.Context) error {
	for _, s := range b.steps {
		if err := b.step(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) step(ctx context.Context, s step) error {
	var err error
	switch s.op {
	case "ARG":
		name, value, _ := strings.Cut(fill(s.rest, b.vars), "=")
		words, serr := split(value)
		if _, set := b.vars[name]; !set {
			b.vars[name] = strings.Join(words, " ")
		}
		err = serr
	case "ENV":
		err = b.env(fill(s.rest, b.vars))
	case "WORKDIR":
		dir := b.path(fill(s.rest, b.vars))
		b.Workdir = dir
		err = b.awake(func(j *jail) error {
			if err := b.visible(dir); err != nil {
				return err
			}
			u, _ := b.srv.users.byName(b.user)
			_, err := j.tree.mkdirAll(dir, u)
			return err
		})
	case "USER":
		name, _, _ := strings.Cut(fill(s.rest, b.vars), ":")
		if _, ok := b.srv.users.byName(name); !ok {
			err = fmt.Errorf("user %q: a sandbox has user and root", name)
			break
		}
		b.user, b.User = name, name
	case "COPY", "ADD":
		s.rest = fill(s.rest, b.vars)
		err = b.copy(s)
	case "RUN":
		err = b.exec(ctx, s.argv())
	case "CMD", "ENTRYPOINT":
		b.Start = s.argv()
	}
	if err != nil {
		return b.at(s, "%w", err)
	}
	return nil
}

// env takes A=b C="d e", or the old A b c.
func (b *build) env(rest string) error {
	words, err := split(rest)
	if err != nil {
		return err
	}
	if name, value, ok := strings.Cut(rest, " "); ok && !strings.Contains(name, "=") {
		words = []string{name + "=" + strings.TrimSpace(value)}
	}
	if b.Env == nil {
		b.Env = make(map[string]string)
	}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok || name == "" {
			return fmt.Errorf("want NAME=VALUE, not %q", w)
		}
		b.Env[name], b.vars[name] = value, value
	}
	return nil
}

// path is absolute, from the working directory on.
func (b *build) path(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	if b.Workdir == "" {
		u, _ := b.srv.users.byName(b.User)
		return path.Join(u.home, name)
	}
	return path.Join(b.Workdir, name)
}

// visible refuses places that commands would not see: without a root of their
// own they see the machine's.
func (b *build) visible(name string) error {
	if b.srv.isolation == Strong {
		return nil
	}
	for _, own := range []string{"/home/user", "/root", "/tmp"} {
		if name == own || strings.HasPrefix(name, own+"/") {
			return nil
		}
	}
	return fmt.Errorf("%s is the machine's: isolation is %s, so there are /home/user, /root and /tmp", name, b.srv.isolation)
}

// copy puts files of the context into the sandbox.
func (b *build) copy(s step) error {
	flags, words, err := s.flags()
	if err != nil {
		return err
	}
	owner := "root"
	for name, value := range flags {
		if name != "chown" {
			return fmt.Errorf("--%s is not supported", name)
		}
		owner, _, _ = strings.Cut(value, ":")
	}
	own, ok := b.srv.users.byName(owner)
	switch {
	case !ok:
		return fmt.Errorf("user %q: a sandbox has user and root", owner)
	case len(words) < 2:
		return errors.New("want a source and a destination")
	}
	context, err := os.OpenRoot(b.context)
	if err != nil {
		return err
	}
	defer context.Close()
	from, last := words[:len(words)-1], words[len(words)-1]
	to := b.path(last)
	if err := b.visible(to); err != nil {
		return err
	}
	into := strings.HasSuffix(last, "/") || len(from) > 1
	return b.awake(func(j *jail) error {
		if n, err := j.tree.look(to); err == nil {
			into = into || n.isDir()
			n.close()
		}
		for _, pattern := range from {
			found, err := fs.Glob(context.FS(), path.Clean(strings.TrimPrefix(pattern, "/")))
			if err != nil || len(found) == 0 {
				return fmt.Errorf("%s: no such file beside the recipe", pattern)
			}
			for _, name := range found {
				dst := to
				if st, err := context.Stat(name); err == nil && !st.IsDir() && into {
					dst = path.Join(to, path.Base(name))
				}
				if err := copyInto(j.tree, context, name, dst, own); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// copyInto copies a file, or what is below a directory, with its modes.
func copyInto(t *tree, from *os.Root, name, to string, own account) error {
	return fs.WalkDir(from.FS(), name, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(name, at)
		if err != nil {
			return err
		}
		dst := path.Join(to, rel)
		if d.IsDir() {
			_, err := t.mkdirAll(dst, own)
			return readOnly(dst, err)
		}
		st, err := from.Stat(at)
		if err != nil {
			return err
		}
		if !st.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", at)
		}
		in, err := from.Open(at)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := t.create(dst, own)
		if err != nil {
			return readOnly(dst, err)
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Chmod(st.Mode().Perm()), out.Close())
	})
}

func readOnly(name string, err error) error {
	if errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%s: the system's directories are the machine's, and read-only", name)
	}
	return err
}

// exec runs a command in the sandbox and shows the end of its output if it fails.
func (b *build) exec(ctx context.Context, argv []string) error {
	u, _ := b.srv.users.byName(b.user)
	env := maps.Clone(b.vars)
	dir := b.Workdir
	if dir == "" {
		dir = u.home
	}
	req := &process.StartRequest{Process: &process.ProcessConfig{Cmd: argv[0], Args: argv[1:]}}
	p, l, err := b.start(ctx, command{user: u, dir: dir, argv: argv, env: b.environment(u, env)}, req)
	if err != nil {
		return err
	}
	defer p.hub.leave(l)
	const shown = 2000
	var tail []byte
	var end *process.ProcessEvent_EndEvent
	err = p.stream(ctx, l, http.Header{}, func(ev *process.ProcessEvent) error {
		tail = slices.Concat(tail, ev.GetData().GetStdout(), ev.GetData().GetStderr())
		tail = tail[max(0, len(tail)-shown):]
		if e := ev.GetEnd(); e != nil {
			end = e
		}
		return nil
	})
	if err == nil && end.GetStatus() != "exit status 0" {
		err = fmt.Errorf("%s\n%s", end.GetStatus(), strings.TrimSpace(string(tail)))
	}
	return err
}

// apply gives a new sandbox what its template says; what the request says wins.
func (d defaults) apply(rec *record) {
	rec.TemplateEnv, rec.User, rec.Workdir, rec.Start = d.Env, d.User, d.Workdir, d.Start
}

// boot runs the template's start command, if it has one. Nobody listens to it. A
// sandbox without it is worth more than none, so that an error is told in the logs.
func (s *sandbox) boot(ctx context.Context) {
	start := s.rec.Start // it never changes
	if len(start) == 0 {
		return
	}
	req := &process.StartRequest{Process: &process.ProcessConfig{Cmd: start[0], Args: start[1:]}, Stdin: new(bool)}
	c, err := s.command(req, http.Header{})
	if err == nil {
		var p *proc
		var l *listener
		if p, l, err = s.start(context.WithoutCancel(ctx), c, req); err == nil {
			p.hub.leave(l)
			return
		}
	}
	s.log.add("error", "start command not begun", "err", err.Error())
	s.srv.log.Warn("start command not begun", "sandbox_id", s.id(), "template", s.rec.Template, "err", err)
}
