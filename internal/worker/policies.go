package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/policy"
	"github.com/sandjet/sandjet/internal/secret"
	"github.com/sandjet/sandjet/internal/session"
)

// policies returns the policy that holds now. Without a file it is the one that allows
// what Sandjet takes.
type policies func() *policy.Policy

// openRules reads the policy file. It must be good at the start; a faulty edit later
// leaves the last good policy in force.
func openRules(path string, log *slog.Logger) (policies, error) {
	if path == "" {
		return policy.Default, nil
	}
	f, err := policy.Open(path, kindNames(), func(p *policy.Policy, err error) {
		if err != nil {
			log.Error("policy file not taken, the last good policy holds", "err", err)
			return
		}
		log.Info("policy file read again", "rules", len(p.Rules()))
	})
	if err != nil {
		return nil, fmt.Errorf("WORKER_POLICY_FILE: %w", err)
	}
	return f.Policy, nil
}

func kindNames() (names []string) {
	for _, k := range jobs.Kinds() {
		names = append(names, string(k))
	}
	return names
}

// secret says whether an owner may use a secret. It is what a resolver asks.
func (r policies) secret(owner, ref string) error { return r().Secret(owner, ref) }

var _ secret.Allow = policies(nil).secret

// permitted refuses what the policy does not let the job's owner do. The owner is the
// one that the subject names. A command that runs already is not looked at again, nor
// is what workers ask of each other.
func (h *hold) permitted(ctx context.Context) error {
	if h.startedBefore() {
		return nil
	}
	err := h.w.rules().Check(h.asks())
	if err == nil || h.housekeeping(ctx) {
		return nil
	}
	return err
}

// asks is the job as the policy sees it.
func (h *hold) asks() policy.Request {
	q := policy.Request{Owner: h.vouched(), Kind: string(h.d.Kind), MaxAttempts: h.d.MaxAttempts()}
	switch p := h.d.Payload.(type) {
	case *jobs.Run:
		q.Argv, q.Shell, q.Secrets = p.Argv, p.Shell, p.Secrets
		q.Timeout, q.SilentTimeout = h.d.Timeout(), p.SilentTimeout.D()
		q.Repo, q.Credential = ofRepo(p.Repo)
	case *jobs.Git:
		q.Repo, q.Credential = ofRepo(p.Repo)
	case *jobs.Provision:
		q.Template, q.Secrets, q.Network = p.Template, p.Secrets, network(p.Network)
		q.IdleTimeout, q.MaxAge = p.IdleTimeout.Or(h.w.cfg.IdleTimeout), p.MaxAge.Or(h.w.cfg.MaxAge)
	}
	return q
}

func ofRepo(r *jobs.Repo) (url, credential string) {
	if r == nil {
		return "", ""
	}
	return r.URL, r.Credential
}

func network(n *session.Network) *policy.Network {
	if n == nil {
		return nil
	}
	return &policy.Network{AllowInternet: n.AllowInternet, AllowOut: n.AllowOut}
}

// housekeeping reports whether the job does what workers do by themselves: put to
// sleep who is idle, and end who is too old. Whoever asks for that gets no more.
func (h *hold) housekeeping(ctx context.Context) bool {
	switch h.d.Kind {
	case jobs.SandboxPause:
		return h.d.Labels[IdleLabel] != ""
	case jobs.SandboxDestroy:
		k, err := h.w.sessions.read(ctx, h.d.Session)
		return err == nil && h.ask.mine(k) == nil && !k.StaleAt.IsZero() && time.Now().After(k.StaleAt)
	}
	return false
}

// fence gives a new sandbox what its owner's rule lets it reach, where its job does
// not say, and refuses one that the rule does not allow.
func (r policies) fence(rec *session.Record, owner string, kind jobs.Kind, idle, age time.Duration) error {
	p := r()
	if e := p.Egress(owner); e != nil && !e.Internet && rec.Network == nil {
		rec.Network = &session.Network{AllowInternet: new(bool), AllowOut: e.Allow, DenyOut: []string{"0.0.0.0/0"}}
	}
	return p.Check(policy.Request{
		Owner: owner, Kind: string(kind), Template: rec.Template, Network: network(rec.Network),
		IdleTimeout: idle, MaxAge: age,
	})
}
