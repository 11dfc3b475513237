package worker

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/secret"
)

// Names of the variables that hold secrets: WORKER_SECRET_GITHUB_TOKEN is
// "github-token", and WORKER_SECRET_GITHUB_TOKEN_FILE names a file with it.
const (
	secretPrefix = "WORKER_SECRET_"
	secretFile   = "_FILE"
)

// secretSources are where secrets are looked for, in this order: the variables, the
// files that variables name, the directory.
func secretSources(environ []string, dir string) []secret.Source {
	var plain []string
	var files []secret.Source
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if rest, ok := strings.CutPrefix(name, secretPrefix); ok && value != "" {
			if ref, ok := strings.CutSuffix(rest, secretFile); ok && ref != "" {
				files = append(files, secret.File(strings.ReplaceAll(strings.ToLower(ref), "_", "-"), value))
				continue
			}
		}
		plain = append(plain, kv)
	}
	sources := append([]secret.Source{secret.Env(secretPrefix, plain)}, files...)
	if dir != "" {
		sources = append(sources, secret.Dir(dir))
	}
	return sources
}

// secretsDir checks that a directory can be read.
func (e *env) secretsDir(name string) string {
	dir := e.get(name)
	if dir == "" {
		return ""
	}
	if _, err := os.ReadDir(dir); err != nil {
		e.fail(name, fmt.Sprintf("cannot be read: %v: want a directory with a file for each secret", withoutPath(err)))
	}
	return dir
}

// vouched is the owner whom a job's subject names; what a body says proves nothing.
func vouched(j *jobs.Job) string {
	if j.OwnerProven {
		return j.Owner
	}
	return ""
}

func (h *hold) vouched() string { return vouched(h.d.Job) }

// reveal finds the values of references, by the names that the job has for them, and
// has them masked.
func (h *hold) reveal(refs map[string]string) (map[string]string, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	values, at, err := h.w.secrets.ResolveAll(h.vouched(), refs)
	if err != nil {
		return nil, secretFault(at, err)
	}
	out := make(map[string]string, len(values))
	for name, v := range values {
		if err := h.masking.hide(refs[name], v); err != nil {
			return nil, secretFault(name, err)
		}
		out[name] = v.Reveal()
	}
	return out, nil
}

// unreadableFor is how long a job waits before an unreadable secret is tried again.
const unreadableFor = 15 * time.Second

// secretFault says what becomes of a job whose secret cannot be had. What may pass by
// itself, a file that is being written or a volume that is away, makes it wait.
func secretFault(name string, err error) error {
	f := &fault{class: jobs.ClassNotFound, pointer: "/secrets/" + name, err: err, reason: "variable " + name}
	switch {
	case errors.Is(err, secret.ErrUnreadable), errors.Is(err, secret.ErrEmpty):
		f.class, f.after = jobs.ClassUnavailable, unreadableFor
	case errors.Is(err, secret.ErrNotAllowed):
		f.class = jobs.ClassPolicy
	case errors.Is(err, secret.ErrName), errors.Is(err, secret.ErrPasted):
		f.class = jobs.ClassInvalid
	}
	return f
}
