package policy

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// Request is what a job asks for. Only what is filled in is checked.
type Request struct {
	// Owner is whom the job's subject names, so that NATS permissions vouch for it.
	// An owner that only the body names must not be given: anybody can write it.
	Owner    string
	Kind     string
	Template string
	Secrets  map[string]string // variable to reference, as in the body
	// Credential is the reference in the repo block.
	Credential string
	Repo       string // its URL
	Argv       []string
	Shell      string
	// Network is what the job's sandbox may reach; nil if the job does not say. Then
	// it is for the caller to give the sandbox what Policy.Egress returns.
	Network *Network

	// Limits as they will hold, defaults filled in.
	Timeout, SilentTimeout, IdleTimeout, MaxAge time.Duration
	MaxAttempts                                 int
}

// Check returns a *Refusal if the policy refuses a job.
func (p *Policy) Check(q Request) error {
	if p.open() {
		return nil
	}
	r := p.rule(q.Owner)
	if r == nil {
		return p.nobody(q.Owner)
	}
	for _, check := range []func(*Rule, Request) error{
		p.checkNames, p.checkSecrets, p.checkCaps, p.checkEgress, p.checkCommand,
	} {
		if err := check(r, q); err != nil {
			return err
		}
	}
	return nil
}

func (p *Policy) checkNames(r *Rule, q Request) error {
	for _, c := range []struct {
		names                *names
		what, value, pointer string
	}{
		{r.kinds, "jobs of the kind", q.Kind, ""},
		{r.templates, "the template", q.Template, "/template"},
		{r.repos, "the repository", q.Repo, "/repo/url"},
	} {
		if c.value != "" && !c.names.match(c.value) {
			return p.refuse(r, c.names.line, c.pointer, "%s %q is not allowed: want %s", c.what, c.value, c.names.says())
		}
	}
	return nil
}

func (p *Policy) checkSecrets(r *Rule, q Request) error {
	for _, name := range slices.Sorted(maps.Keys(q.Secrets)) {
		if err := p.secret(r, q.Secrets[name], "/secrets/"+name); err != nil {
			return err
		}
	}
	if q.Credential != "" {
		return p.secret(r, q.Credential, "/repo/credential")
	}
	return nil
}

// secret says no more than that it is refused: which other secrets there are is not
// the owner's business, and what stands for a reference may be a secret itself.
func (p *Policy) secret(r *Rule, ref, pointer string) error {
	if r.secrets.match(ref) {
		return nil
	}
	return p.refuse(r, r.secrets.line, pointer, "this secret is not allowed: add its name to secrets")
}

// Secret returns a *Refusal if an owner may not use a secret. It fits where
// internal/secret asks who may.
func (p *Policy) Secret(owner, ref string) error {
	if p.open() {
		return nil
	}
	r := p.rule(owner)
	if r == nil {
		return p.nobody(owner)
	}
	return p.secret(r, ref, "")
}

func (p *Policy) checkCaps(r *Rule, q Request) error {
	for _, c := range []struct {
		name  string
		cap   *limit
		value time.Duration
	}{
		{"timeout", r.caps.timeout, q.Timeout},
		{"silent_timeout", r.caps.silent, q.SilentTimeout},
		{"idle_timeout", r.caps.idle, q.IdleTimeout},
		{"max_age", r.caps.age, q.MaxAge},
	} {
		if c.cap != nil && c.value > time.Duration(c.cap.max) {
			return p.refuse(r, c.cap.line, "/"+c.name, "%s of %s is too long: want %s at most", c.name, short(c.value), short(time.Duration(c.cap.max)))
		}
	}
	if c := r.caps.attempts; c != nil && int64(q.MaxAttempts) > c.max {
		return p.refuse(r, c.line, "/max_attempts", "%d attempts are too many: want %s at most", q.MaxAttempts, strconv.FormatInt(c.max, 10))
	}
	return nil
}
