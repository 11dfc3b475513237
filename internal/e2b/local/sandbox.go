package local

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
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
	used  history
	log   logbook

	// launch lets many commands start at once, but none while the jail comes,
	// goes, freezes or thaws. It is taken before mu.
	launch sync.RWMutex
	disk   *disk   // nil as jail at first; stays while the jail comes and goes. Written with mu held, too
	jail   *jail   // nil until the sandbox is first used after a start of the server
	egress *egress // as long as the jail

	wayIn       wayIn                       // never changes
	egressRules atomic.Pointer[egressRules] // written with mu held

	mu      sync.Mutex
	rec     record
	state   state
	slot    bool          // counts as running
	lost    bool          // its memory went with an earlier server, while it was paused
	changed chan struct{} // closed and replaced when state changes
	timer   *time.Timer   // ends at rec.EndAt while running
}

func newSandbox(srv *Server, rec record) *sandbox {
	s := &sandbox{srv: srv, rec: rec, dir: filepath.Join(srv.dir, rec.ID), changed: make(chan struct{}), state: running}
	if rec.State == e2b.StatePaused {
		s.state = paused
	}
	s.wayIn, _ = rec.wayIn() // what the create took
	rules, err := srv.rulesOf(rec)
	if err != nil { // of a server that took them as they came
		srv.log.Error("network rules not understood, nothing goes out", "sandbox_id", rec.ID, "err", err)
		nothing := false
		rules, _ = srv.rulesOf(record{AllowInternet: &nothing})
	}
	s.egressRules.Store(rules)
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

// leaveSlot gives the running place back; mu is held.
func (s *sandbox) leaveSlot() {
	if s.slot {
		s.slot = false
		s.srv.limits.release()
	}
}

// kill ends the sandbox and removes its files. It reports whether there was
// one to end.
func (s *sandbox) kill() bool {
	if !s.leave() {
		return false
	}
	s.srv.drop(s)
	s.shut()
	if err := discard(s.dir, recordFile); err != nil {
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
	s.srv.closeDisk(s.disk)
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
		booted, err := s.wake()
		if err != nil {
			return err
		}
		if booted {
			s.boot(context.Background())
		}
	}
	defer s.launch.RUnlock()
	if !s.is(running) {
		return errAsleep
	}
	return do(s.jail)
}

// wake starts the jail of a sandbox that ran before the server did. It reports
// whether it was needed.
func (s *sandbox) wake() (booted bool, err error) {
	s.launch.Lock()
	defer s.launch.Unlock()
	if s.jail != nil || !s.is(running) {
		return false, nil
	}
	return true, s.beginJail()
}

func (s *sandbox) is(st state) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == st
}

// openDisk makes the sandbox's files be there; launch is held.
func (s *sandbox) openDisk() error {
	if s.is(gone) { // whoever ended it has been here already
		return errNoSandbox(s.id())
	}
	if s.disk != nil {
		return nil
	}
	d, err := s.srv.openDisk(s.dir)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = d
	return nil
}

// beginJail starts the jail and watches over it; launch is held.
func (s *sandbox) beginJail() error {
	if err := s.openDisk(); err != nil {
		return err
	}
	j, err := s.srv.startJail(s.srv.isolation, s.id(), s.disk)
	if err != nil {
		return err
	}
	if s.egress, err = openEgress(s, j); err != nil {
		j.kill()
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
	s.egress.close()
	j.kill()
	s.procs.forget()
}
