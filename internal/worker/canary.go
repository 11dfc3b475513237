package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/session"
)

// canaryFile lies in the home directory of the sandbox's default user. It is
// written anew before each pause and read after the resume: a sandbox that
// comes back from an older snapshot, or with an empty disk, has not the same.
const canaryFile = ".sandjet-canary"

// sweepScript takes away what git's scripts left that were killed: nothing of theirs
// goes to sleep with a sandbox.
var sweepScript = "(set -- \"$2\"\n" + git.SweepText + ")\n"

// leaveScript writes the canary, whole or not at all, and has the sandbox write
// its disk: files have been lost over a pause and resume without that. Secrets of runs
// that nobody began do not go to sleep with it.
const leaveScript = `f="$HOME/` + canaryFile + `"
printf '%s\n' "$1" >"$f.new" && mv -f "$f.new" "$f"
done=$?
rm -f /tmp/.sandjet-*/*.env 2>/dev/null
sync
exit $done`

// canary is what the file says.
func canary(r session.Record, nonce string) string {
	return fmt.Sprintf("sandjet %s %d %s", r.Session, r.Generation, nonce)
}

// leaveCanary writes a canary into a sandbox that is about to be paused and
// returns its nonce, which is recorded before the pause begins: what the record
// names was there. Without a nonce nothing will be compared.
func (s *sessions) leaveCanary(ctx context.Context, k known, b *box) (nonce string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	nonce = randomID(20)
	if err := b.Command("/bin/sh", "-c", sweepScript+leaveScript, "sandjet", canary(k.Record, nonce), deskPrefix("", k.Session)).Run(ctx); err != nil {
		return "", fmt.Errorf("write the canary: %w", err)
	}
	return nonce, nil
}

// recall compares the canary of a sandbox that runs again. amiss says what is
// wrong with it, if anything; an error says that nobody knows.
func (s *sessions) recall(ctx context.Context, k known, b *e2b.Box) (amiss string, err error) {
	if k.Canary == "" || point.Off(point.Canary) {
		return "", nil
	}
	got, err := b.ReadFile(ctx, canaryFile)
	switch {
	case errors.Is(err, e2b.ErrNotFound):
		amiss = "is missing"
	case err != nil:
		return "", fmt.Errorf("read the canary: %w", err)
	case string(got) != canary(k.Record, k.Canary)+"\n":
		amiss = "is another"
	default:
		return "", nil
	}
	return fmt.Sprintf("the sandbox came back without its work: the canary of generation %d, left at the pause of %s, %s",
		k.Generation, k.PausedAt.Format(time.RFC3339), amiss), nil
}

// welcome records that a sandbox runs again, if it is the one that was put to
// sleep.
func (s *sessions) welcome(ctx context.Context, k known, b *e2b.Box, reason string) (known, error) {
	amiss, err := s.recall(ctx, k, b)
	switch {
	case err != nil:
		return k, err
	case amiss != "":
		return s.lose(ctx, k, amiss)
	}
	return s.activate(ctx, k, reason)
}

// errSlowResume ends a wake that takes too long.
var errSlowResume = errors.New("the sandbox does not wake from its memory")

// wake connects to the session's sandbox and sees that it answers. A snapshot of
// memory that hangs is given up, once: the sandbox starts from its disk alone, and
// what ran in it is gone.
func (s *sessions) wake(ctx context.Context, k known) (known, *e2b.Sandbox, error) {
	short, cancel := context.WithTimeoutCause(ctx, s.cfg.ResumeTimeout, errSlowResume)
	defer cancel()
	sb, err := s.connect(short, k, k.SandboxID)
	if err == nil {
		err = s.answers(short, sb)
	}
	if err == nil || ctx.Err() != nil || short.Err() == nil {
		return k, sb, err
	}
	s.log.Warn("sandbox does not wake from its memory", "session_id", k.Session, "sandbox_id", k.SandboxID, "after", s.cfg.ResumeTimeout, "err", err)
	k, err = s.put(ctx, k, session.Resuming, func(r *session.Record) {
		r.Deadline = s.resumeBy()
		r.Reason = fmt.Sprintf("%s within %s: starting it from its disk alone", errSlowResume, s.cfg.ResumeTimeout)
	})
	if err != nil {
		return k, nil, err
	}
	if sb != nil { // it runs, and nobody is at home
		if err := s.pauseDisk(ctx, k); err != nil {
			return k, nil, err
		}
	}
	short, cancel = context.WithTimeout(ctx, s.cfg.ResumeTimeout)
	defer cancel()
	if sb, err = s.boot(short, k); err == nil {
		err = s.answers(short, sb)
	}
	return k, sb, err
}

// answers waits until a sandbox that was woken answers.
func (s *sessions) answers(ctx context.Context, sb *e2b.Sandbox) error {
	box := s.e2b.Open(sb.Ref())
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		ok, err := box.Healthy(try)
		cancel()
		if ok {
			return nil
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		if err == nil {
			// The control plane may know better than we do what became of it.
			if _, err := s.e2b.Get(ctx, sb.SandboxID); errors.Is(err, e2b.ErrNotFound) {
				return err
			}
		}
	}
}

// resumeBy is when a resume that begins now counts as abandoned: two tries and
// the pause between them.
func (s *sessions) resumeBy() time.Time {
	return time.Now().UTC().Add(resumeLimit + 2*s.cfg.ResumeTimeout)
}
