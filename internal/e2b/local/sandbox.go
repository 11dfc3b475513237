package local

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
)

// state is where a sandbox is:
//
//	      create
//	        v        pause, endAt
//	     running ----------------> pausing
//	      |  ^                        |
//	 kill |  | connect                v
//	endAt |  +------ resuming <---- paused
//	      v                           |
//	     gone <-----------------------+ kill
type state string

const (
	running  state = "running"
	pausing  state = "pausing"
	paused   state = "paused"
	resuming state = "resuming"
	gone     state = "gone"
)

// sandbox is one sandbox of the server.
type sandbox struct {
	srv   *Server
	dir   string
	procs processes
	watch watchers
	calls calls

	// launch lets many commands start at once, but none while the jail comes,
	// goes, freezes or thaws. It is taken before mu.
	launch sync.RWMutex
	jail   *jail // nil until the sandbox is first used after a start of the server

	mu      sync.Mutex
	rec     record
	state   state
	slot    bool          // counts as running
	changed chan struct{} // closed and replaced when state changes
	timer   *time.Timer   // ends at rec.EndAt while running
}

func newSandbox(srv *Server, rec record) *sandbox {
	s := &sandbox{srv: srv, rec: rec, dir: filepath.Join(srv.dir, rec.ID), changed: make(chan struct{}), state: running}
	if rec.State == e2b.StatePaused {
		s.state = paused
	}
	return s
}

// id never changes, so that it needs no lock.
func (s *sandbox) id() string { return s.rec.ID }

// snapshot is the sandbox's record as callers may see it.
func (s *sandbox) snapshot() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec
}

// move changes the state; mu is held.
func (s *sandbox) move(to state) {
	s.state = to
	s.rec.State = e2b.StateRunning
	if to == pausing || to == paused {
		s.rec.State = e2b.StatePaused
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// save keeps the record; mu is held. A disk that fails is the log's business:
// the sandbox itself is well.
func (s *sandbox) save() {
	if s.state == gone {
		return
	}
	if err := s.rec.save(s.dir); err != nil {
		s.srv.log.Error("sandbox not saved", "sandbox_id", s.rec.ID, "err", err)
	}
}

// arm makes the sandbox end at rec.EndAt; mu is held.
func (s *sandbox) arm() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(time.Until(s.rec.EndAt), func() { s.srv.run(s.expire) })
}

// expire ends a sandbox whose time is up.
func (s *sandbox) expire() {
	s.mu.Lock()
	due := s.state == running && !time.Now().Before(s.rec.EndAt)
	pause, memory := s.rec.AutoPause, !s.rec.DiskOnly
	s.mu.Unlock()
	if !due {
		return
	}
	if !pause {
		s.kill()
		return
	}
	if err := s.pause(context.Background(), memory); err != nil {
		s.srv.log.Warn("sandbox not paused at its end", "sandbox_id", s.id(), "err", err)
	}
}

// pause stops the sandbox where it stands. Without memory its processes end
// and only the files stay.
func (s *sandbox) pause(ctx context.Context, memory bool) error {
	s.mu.Lock()
	switch s.state {
	case gone:
		s.mu.Unlock()
		return errNoSandbox(s.id())
	case paused:
		s.mu.Unlock()
		return failf(http.StatusConflict, "sandbox %q is already paused", s.id())
	case pausing, resuming:
		defer s.mu.Unlock()
		return failf(http.StatusConflict, "sandbox %q cannot be paused while in '%s' state", s.id(), s.state)
	}
	s.move(pausing)
	s.timer.Stop()
	s.mu.Unlock()

	err := s.freeze(context.WithoutCancel(ctx), memory)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != pausing { // killed meanwhile
		return errNoSandbox(s.id())
	}
	if err != nil {
		s.move(running)
		s.arm()
		return err
	}
	s.rec.EndAt, s.rec.NoMemory = time.Now(), !memory
	s.move(paused)
	s.leaveSlot()
	s.save()
	return nil
}

func (s *sandbox) freeze(ctx context.Context, memory bool) error {
	s.launch.Lock()
	defer s.launch.Unlock()
	if !memory {
		s.calls.cut()
		s.endJail()
		return nil
	}
	if s.jail != nil {
		if err := s.jail.freeze(ctx); err != nil {
			return err
		}
	}
	s.calls.cut()
	return nil
}

// leaveSlot gives the running place back; mu is held.
func (s *sandbox) leaveSlot() {
	if s.slot {
		s.slot = false
		s.srv.limits.release()
	}
}

// connect makes sure that the sandbox runs for d from now on; it never
// shortens. It reports whether it had to resume it. boot ends what a pause kept
// in memory.
func (s *sandbox) connect(ctx context.Context, d time.Duration, boot bool) (resumed bool, err error) {
	for {
		s.mu.Lock()
		switch s.state {
		case gone:
			s.mu.Unlock()
			return false, errNoSandbox(s.id())
		case running:
			defer s.mu.Unlock()
			return false, s.extend(d)
		case paused:
			return true, s.resume(ctx, d, boot) // gives mu back
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false, failf(http.StatusConflict, "sandbox %q is still transitioning", s.id())
		case <-s.srv.closing:
			return false, errClosing
		}
	}
}

// extend moves the end to at least d from now; mu is held.
func (s *sandbox) extend(d time.Duration) error {
	end := s.clip(time.Now().Add(d))
	if end.After(s.rec.EndAt) {
		s.rec.EndAt = end
		s.arm()
		s.save()
	}
	return nil
}

// refresh moves the end of a running sandbox to at least d from now.
func (s *sandbox) refresh(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != running {
		return errNoSandbox(s.id())
	}
	return s.extend(d)
}

// clip keeps an end within the longest run; mu is held.
func (s *sandbox) clip(end time.Time) time.Time {
	if last := s.rec.StartedAt.Add(s.srv.cfg.MaxLength); end.After(last) {
		return last
	}
	return end
}

// resume lets a paused sandbox go on. mu is held and given back.
func (s *sandbox) resume(ctx context.Context, d time.Duration, boot bool) error {
	if err := s.srv.limits.acquire(); err != nil {
		s.mu.Unlock()
		return err
	}
	s.slot = true
	s.move(resuming)
	s.mu.Unlock()

	err := s.thaw(context.WithoutCancel(ctx), boot)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != resuming { // killed meanwhile; kill gave the slot back
		return errNoSandbox(s.id())
	}
	if err != nil {
		s.move(paused)
		s.leaveSlot()
		return err
	}
	now := time.Now()
	s.rec.StartedAt, s.rec.NoMemory = now, false
	s.rec.EndAt = s.clip(now.Add(d))
	s.move(running)
	s.arm()
	s.save()
	return nil
}

func (s *sandbox) thaw(ctx context.Context, boot bool) error {
	s.launch.Lock()
	defer s.launch.Unlock()
	if boot {
		s.endJail()
	}
	if s.jail == nil {
		return s.beginJail()
	}
	return s.jail.thaw(ctx)
}

// setTimeout moves the end to d from now, sooner or later than it was.
func (s *sandbox) setTimeout(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case gone, paused:
		return errNoSandbox(s.id())
	case pausing, resuming:
		return failf(http.StatusConflict, "sandbox %q is in '%s' state", s.id(), s.state)
	}
	now := time.Now()
	if d > 0 && now.Sub(s.rec.StartedAt) >= s.srv.cfg.MaxLength {
		return failf(http.StatusBadRequest, "Max instance length exceeded")
	}
	s.rec.EndAt = s.clip(now.Add(max(d, 0)))
	s.arm()
	s.save()
	return nil
}

// kill ends the sandbox and removes its files. It reports whether there was
// one to end.
func (s *sandbox) kill() bool {
	if !s.leave() {
		return false
	}
	s.srv.drop(s)
	s.shut()
	if err := removeTree(s.dir); err != nil {
		s.srv.log.Warn("sandbox not removed", "sandbox_id", s.id(), "err", err)
	}
	s.srv.log.Debug("sandbox killed", "sandbox_id", s.id())
	return true
}

// leave makes the sandbox gone for everybody who asks from now on.
func (s *sandbox) leave() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == gone {
		return false
	}
	s.move(gone)
	s.leaveSlot()
	if s.timer != nil {
		s.timer.Stop()
	}
	return true
}

// shut ends all that runs for the sandbox.
func (s *sandbox) shut() {
	s.calls.cut()
	s.launch.Lock()
	defer s.launch.Unlock()
	s.endJail()
	s.watch.closeAll()
}

var errAsleep = errors.New("the sandbox does not run")

// awake runs do with the sandbox's jail, which stays as it is meanwhile.
func (s *sandbox) awake(do func(j *jail) error) error {
	for {
		s.launch.RLock()
		if s.jail != nil || !s.is(running) {
			break
		}
		s.launch.RUnlock()
		if err := s.wake(); err != nil {
			return err
		}
	}
	defer s.launch.RUnlock()
	if !s.is(running) {
		return errAsleep
	}
	return do(s.jail)
}

// wake starts the jail of a sandbox that ran before the server did.
func (s *sandbox) wake() error {
	s.launch.Lock()
	defer s.launch.Unlock()
	if s.jail != nil || !s.is(running) {
		return nil
	}
	return s.beginJail()
}

func (s *sandbox) is(st state) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == st
}

// beginJail starts the jail and watches over it; launch is held.
func (s *sandbox) beginJail() error {
	if s.is(gone) { // whoever ended it has been here already
		return errNoSandbox(s.id())
	}
	j, err := startJail(s.srv.forks, s.srv.isolation, s.id(), s.dir, s.srv.users)
	if err != nil {
		return err
	}
	s.jail = j
	s.srv.run(func() {
		<-j.done
		s.launch.RLock()
		died := s.jail == j
		s.launch.RUnlock()
		if died && s.kill() {
			s.srv.log.Warn("sandbox died", "sandbox_id", s.id())
		}
	})
	return nil
}

// endJail ends every process of the sandbox; launch is held.
func (s *sandbox) endJail() {
	if s.jail == nil {
		return
	}
	j := s.jail
	s.jail = nil
	j.kill()
	s.procs.forget()
}
