package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
)

// plant sets every trap in a work tree that git would run something for. Each
// writes its name to the proof directory.
func plant(t *testing.T, w *git.Work, home string) (proof string) {
	t.Helper()
	proof = plainDir(t)
	at := func(name string) string {
		p := filepath.Join(home, "trap-"+name)
		require.NoError(t, os.WriteFile(p, []byte("#!/bin/sh\necho $$ >>"+proof+"/"+name+"\ncat 2>/dev/null\nexit 0\n"), 0o755))
		return p
	}
	hooks := filepath.Join(w.Dir, ".git/hooks")
	require.NoError(t, os.MkdirAll(hooks, 0o755))
	for _, h := range []string{
		"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-index-change", "pre-rebase", "post-rewrite",
		"pre-push", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc", "post-merge", "sendemail-validate",
	} {
		require.NoError(t, os.Symlink(at("hook-"+h), filepath.Join(hooks, h)))
	}
	config := map[string]string{
		"core.hooksPath": hooks, "core.fsmonitor": at("fsmonitor"), "core.sshCommand": at("ssh"), "core.gitProxy": at("proxy"), "core.askPass": at("askpass"),
		"core.pager": at("pager"), "core.editor": at("editor"), "sequence.editor": at("sequence"), "core.alternateRefsCommand": at("alternates"),
		"credential.helper": "!" + at("helper"), "diff.external": at("diff"), "diff.trap.textconv": at("textconv"), "diff.trap.command": at("diffcommand"),
		"filter.trap.clean": at("clean"), "filter.trap.smudge": at("smudge"), "filter.trap.process": at("process"), "filter.trap.required": "true",
		"merge.trap.driver": at("merge"), "gpg.program": at("gpg"), "gpg.ssh.program": at("gpgssh"), "commit.gpgSign": "true", "gpg.format": "ssh",
		"user.signingKey": "/nonexistent", "uploadpack.packObjectsHook": at("pack"), "remote.origin.uploadpack": at("uploadpack"), "remote.origin.receivepack": at("receivepack"),
		"alias.add": "!" + at("alias"), "url.ext::sh -c " + at("ext") + ".insteadOf": "http://", "http.proxy": "http://127.0.0.1:9",
		"remote.origin.vcs": "trap", "fetch.recurseSubmodules": "true", "submodule.recurse": "true", "interactive.diffFilter": at("filter"), "trailer.x.command": at("trailer"),
	}
	for k, v := range config {
		run(t, w.Dir, "git", "config", k, v)
		run(t, home, "git", "config", "-f", filepath.Join(home, ".gitconfig"), k, v)
	}
	write(t, w.Dir, ".gitattributes", "* filter=trap diff=trap merge=trap\n")
	write(t, home, ".netrc", "machine 127.0.0.1 login x password y\n")
	// A repository within, whose own configuration git status would heed.
	nestedDir := filepath.Join(w.Dir, "sub")
	run(t, "", "git", "init", "-q", nestedDir)
	write(t, nestedDir, "x", "y")
	run(t, nestedDir, "git", "add", ".")
	run(t, nestedDir, "git", "commit", "-q", "-m", "x")
	run(t, nestedDir, "git", "config", "core.fsmonitor", at("sub-fsmonitor"))
	write(t, nestedDir, "x", "changed")
	return proof
}

// Nothing that the command planted runs, neither while a credential is in reach
// nor at another time.
func TestTrapsStayShut(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	home := plainDir(t)
	w, c := cloned(t, r, "task-j1")
	l := local(home)
	trap := filepath.Join(home, "trap-env")
	l.Env = append(l.Env, "GIT_SSH_COMMAND="+trap, "GIT_ASKPASS="+trap, "SSH_ASKPASS="+trap, "GIT_EXTERNAL_DIFF="+trap, "GIT_PROXY_COMMAND="+trap, "GIT_EDITOR="+trap,
		"GIT_TRACE="+filepath.Join(home, "trace"), "GIT_TRACE_CURL="+filepath.Join(home, "curl"), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0="+trap,
		"GIT_DIR=/nonexistent", "GIT_WORK_TREE=/nonexistent", "PATH="+home+":/usr/bin:/bin", "ENV="+trap, "BASH_ENV="+trap)
	w.Runner = l
	proof := plant(t, w, home)
	for _, name := range []string{"git", "ssh", "sed", "env", "git-remote-trap", "env"} {
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte("#!/bin/sh\necho >>"+proof+"/path-"+name+"\n"), 0o755))
	}
	require.NoError(t, os.WriteFile(trap, []byte("#!/bin/sh\necho >>"+proof+"/env\n"), 0o755))

	write(t, w.Dir, "src/a.txt", "one\ntwo\nthree\nfour\n")
	done := commit(t, w, c.Base)
	require.True(t, done.Created)
	commitTo(t, bare, "task-j1", map[string]string{"README.md": "# theirs\n", ".gitattributes": "* merge=trap filter=trap\n"}, "feat: x")
	run(t, bare, "git", "update-ref", "refs/heads/task-j1", commitTo(t, bare, "main", map[string]string{"README.md": "# theirs\n"}, "feat: x"))
	p, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "task-j1", Guard: git.Guard{AllowModules: true}})
	require.NoError(t, err)
	require.True(t, p.Rebased)
	_, err = w.Clone(t.Context(), git.CloneOptions{Branch: "task-j1"})
	require.NoError(t, err)
	host := git.HostOptions{PushOptions: git.PushOptions{Commit: done.Commit, Branch: "task-host", Guard: git.Guard{AllowModules: true}}, Began: c.Base, Dir: plainDir(t)}
	_, err = w.PushHost(t.Context(), local(plainDir(t)), host)
	require.NoError(t, err)

	found, err := os.ReadDir(proof)
	require.NoError(t, err)
	require.Empty(t, found, "a trap went off")
	require.NoFileExists(t, filepath.Join(home, "trace"))
	require.NoFileExists(t, filepath.Join(home, "curl"))

	// The traps are good ones: plain git walks into them.
	_, _ = output(w.Dir, "git", "add", "-A")
	_, _ = output(w.Dir, "git", "fetch")
	_, _ = output(w.Dir, "git", "-c", "core.hooksPath=.git/hooks", "commit", "-m", "x")
	found, err = os.ReadDir(proof)
	require.NoError(t, err)
	require.NotEmpty(t, found)
}

// The credential is in nothing that stays, and in nothing that others see while
// it is used.
func TestCredentialLeavesNoTrace(t *testing.T) {
	t.Parallel()
	f := newForge(t)
	r, bare := f.seeded(t, "app")
	w := work(t, r)
	const token = "ghs_of0this0test0alone" // the others' is in memory while they run
	f.token, w.Credential.Password = token, token
	rec := &recorder{Runner: w.Runner}
	w.Runner = rec
	w.SigningKey, _ = sshKey(t)
	hook(t, bare, "pre-receive", "echo \"we know "+token+"\" >&2; [ ! -f deny ]\n") // a server that talks

	// What git shows of itself while it works, in its arguments and environment.
	var seen []string
	f.set(func() {
		f.before = func(string) {
			procs, _ := filepath.Glob("/proc/[0-9]*")
			for _, p := range procs {
				for _, n := range []string{"/cmdline", "/environ"} {
					if b, err := os.ReadFile(p + n); err == nil && strings.Contains(string(b), token) && p != "/proc/self" && !strings.HasSuffix(p, "/"+self()) {
						f.mu.Lock()
						seen = append(seen, p+n)
						f.mu.Unlock()
					}
				}
			}
		}
	})
	c, err := w.Clone(t.Context(), git.CloneOptions{Branch: "task-j1"})
	require.NoError(t, err)
	write(t, w.Dir, "x", "y\n")
	done := commit(t, w, c.Base)
	p, err := w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "task-j1"})
	require.NoError(t, err)
	require.Equal(t, "we know ***", p.Words)

	require.NoError(t, os.WriteFile(filepath.Join(bare, "deny"), nil, 0o600))
	_, err = w.Push(t.Context(), git.PushOptions{Commit: done.Commit, Branch: "task-j2"})
	require.ErrorIs(t, err, git.ErrRejected)
	require.NotContains(t, err.Error(), token)

	require.Empty(t, seen)
	for _, s := range rec.scripts {
		require.NotContains(t, s.Text+strings.Join(s.Args, "\x00"), token)
		for k, v := range s.Env {
			require.NotContains(t, k+v, token)
		}
		require.NotContains(t, string(s.Stdin), token, "not even as plain text in the input")
	}
	require.Empty(t, search(t, filepath.Dir(w.Dir), token), "somewhere in the sandbox")
	require.Empty(t, search(t, filepath.Dir(w.Dir), strings.Split(string(w.SigningKey), "\n")[1]))
	require.Empty(t, search(t, "/dev/shm", token), "in memory")
	for _, url := range f.seen {
		require.NotContains(t, url, token)
	}
}

func self() string {
	p, _ := os.Readlink("/proc/self")
	return p
}

// search returns the files below a directory that hold a text.
func search(t *testing.T, dir, text string) []string {
	t.Helper()
	var out []string
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), text) {
				out = append(out, p)
			}
		}
		return nil // what is gone by now holds nothing
	})
	return out
}

// A server that another one is asked to stand in for does not get the credential.
func TestCredentialIsForOneServer(t *testing.T) {
	t.Parallel()
	f, other := newForge(t), newForge(t)
	r, _ := f.seeded(t, "app")
	got := false
	other.set(func() { other.before = func(string) { got = true } })
	w := work(t, r)
	rec := &recorder{Runner: w.Runner}
	w.Runner = redirect{rec, r.Host}
	w.Remote, _ = git.ParseURL(other.URL + "/app.git")
	_, err := w.Clone(t.Context(), git.CloneOptions{Branch: "b"})
	require.ErrorIs(t, err, git.ErrAuth)
	require.False(t, got)
}
