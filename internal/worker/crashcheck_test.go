package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/audit"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/session"
)

// settled waits until nothing is left to be done: no message, no sandbox beyond
// those that sleep.
func (s *crashSite) settled(ctx context.Context) error {
	return until(ctx, "not settled", func() error {
		for _, name := range []string{jobs.StreamJobs, jobs.StreamSchedules} {
			st, err := s.w.js.Stream(ctx, s.ns.Stream(name))
			if err != nil {
				return err
			}
			if n := st.CachedInfo().State.Msgs; n > 0 {
				return fmt.Errorf("%d messages are in %s", n, name)
			}
		}
		if n := len(s.sandboxes()); n != len(s.asleep) {
			return fmt.Errorf("E2B has %d sandboxes, want %d: %v", n, len(s.asleep), s.sandboxes())
		}
		return s.agrees(ctx)
	})
}

// agrees compares the view with the log.
func (s *crashSite) agrees(ctx context.Context) error {
	for f, err := range s.facts.Sessions(ctx) {
		if err != nil {
			return err
		}
		rec, seq, err := s.facts.Session(ctx, f.Value.Session)
		if err != nil {
			return err
		}
		have, at, err := s.view.Session(ctx, rec.Session)
		if err != nil || at != seq || have.State != rec.State || have.SandboxID != rec.SandboxID {
			return fmt.Errorf("session %s is %s at %d, and in the view %s at %d (%w)", rec.Session, rec.State, seq, have.State, at, err)
		}
		running, queued, err := s.view.Busy(ctx, rec.Session)
		if err == nil && queued > 0 && s.frozen {
			queued, err = s.unended(ctx, rec.Session)
		}
		if err != nil || len(running)+queued > 0 {
			return fmt.Errorf("in session %s the view has %v running and %d in the lane (%w)", rec.Session, running, queued, err)
		}
	}
	return nil
}

// unended counts the jobs in a session's lane that have not ended. What a worker that was
// frozen has put there of one that has, whoever comes next takes away.
func (s *crashSite) unended(ctx context.Context, session string) (n int, err error) {
	ids, err := s.view.Registered(ctx, session)
	for _, id := range ids {
		h, histErr := s.facts.History(ctx, events.Job{Session: session, ID: id})
		if err = errors.Join(err, histErr); !h.Ended() {
			n++
		}
	}
	return n, err
}

// verify checks what must hold when all is over and nobody is at work any more.
func (s *crashSite) verify(ctx context.Context) error {
	return errors.Join(s.verifyLog(ctx), s.verifySandboxes(ctx), s.verifyLetters(ctx), s.verifyAudit(ctx), s.agrees(ctx))
}

// verifyAudit checks that no audit record is missing, and that none stands there twice.
func (s *crashSite) verifyAudit(ctx context.Context) error {
	r, err := audit.Verify(ctx, s.w.js, s.ns)
	if err != nil || r.Whole() && r.Records > 0 {
		return err
	}
	return fmt.Errorf("of %d audit records: %+v", r.Records, r.Faults)
}

// jobLog is what was written of one job, in order.
type jobLog struct {
	end   events.Kind // its terminal event
	token uint64      // of its newest claim
	errs  []error
}

func (l *jobLog) see(e events.Event) {
	complain := func(format string, args ...any) {
		l.errs = append(l.errs, fmt.Errorf("job %s: event %d (%s): "+format, append([]any{e.Job, e.Seq, e.Kind}, args...)...))
	}
	if l.end != "" && e.Kind != events.KindCancelRequested {
		complain("follows the terminal event %s", l.end)
	}
	switch {
	case e.Kind == events.KindClaimed:
		l.token = e.Seq
	case e.Kind == events.KindAccepted, e.Kind == events.KindCancelRequested:
	case e.Token() != l.token:
		complain("is under claim %d, the job was claimed at %d", e.Token(), l.token)
	}
	if e.Kind.Terminal() {
		l.end = e.Kind
	}
}

// verifyLog reads all events: each job has one terminal event, its last, and none
// is of a claim that was not the newest.
func (s *crashSite) verifyLog(ctx context.Context) error {
	logs := map[events.Job]*jobLog{}
	st, err := s.w.js.Stream(ctx, s.ns.Stream(events.StreamEvents))
	if err != nil {
		return err
	}
	for seq := st.CachedInfo().State.FirstSeq; seq <= st.CachedInfo().State.LastSeq; seq++ {
		m, err := st.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		e, err := s.event(m)
		if err != nil {
			return err
		}
		if e.Kind == events.SessionState {
			continue
		}
		if logs[e.Job] == nil {
			logs[e.Job] = &jobLog{}
		}
		logs[e.Job].see(e)
	}
	var errs []error
	for job, l := range logs {
		if l.end == "" {
			l.errs = append(l.errs, fmt.Errorf("job %s has no terminal event", job))
		}
		errs = append(errs, l.errs...)
	}
	return errors.Join(errs...)
}

// event reads a stored message as an event.
func (s *crashSite) event(m *jetstream.RawStreamMsg) (events.Event, error) {
	rest, ok := s.ns.Trim(m.Subject)
	t := strings.Split(rest, ".")
	if !ok || len(t) != 4 {
		return events.Event{}, fmt.Errorf("event %d has subject %s", m.Sequence, m.Subject)
	}
	return events.Event{
		Seq: m.Sequence, Time: m.Time, Job: events.Job{Session: t[1], ID: t[2]}, Kind: events.Kind(t[3]),
		Header: m.Header, Data: m.Data,
	}, nil
}

// verifySandboxes checks that each sandbox belongs to a session, and that those
// sleep which should.
func (s *crashSite) verifySandboxes(ctx context.Context) error {
	var owned []string
	for _, id := range s.asleep {
		r, _, err := s.facts.Session(ctx, id)
		if err != nil {
			return err
		}
		if r.State != session.Paused {
			return fmt.Errorf("session %s is %s (%s), want paused", id, r.State, r.Reason)
		}
		owned = append(owned, r.SandboxID)
	}
	for _, id := range s.sandboxes() {
		if !slices.Contains(owned, id) {
			return fmt.Errorf("sandbox %s belongs to nobody", id)
		}
	}
	return nil
}

// verifyLetters checks that each dead job has one letter.
func (s *crashSite) verifyLetters(ctx context.Context) error {
	st, err := s.w.js.Stream(ctx, s.ns.Stream(jobs.StreamDead))
	if err != nil {
		return err
	}
	if n := st.CachedInfo().State.Msgs; n != uint64(s.letters) {
		return fmt.Errorf("%d dead letters, want %d", n, s.letters)
	}
	return nil
}
