package local

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

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
		s.armIn(max(pauseAgain, time.Until(s.rec.EndAt)))
		return err
	}
	s.rec.EndAt, s.rec.NoMemory = time.Now(), !memory
	s.move(paused)
	s.leaveSlot()
	s.save()
	s.log.add("info", "sandbox paused", "memory", strconv.FormatBool(memory))
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

// resumption says what of a paused sandbox goes on.
type resumption int

const (
	resumeKept   resumption = iota // what the pause kept
	resumeFiles                    // the files alone: a reboot
	resumeMemory                   // the memory too, or nothing does
)

// connect makes sure that the sandbox runs for d from now on; it never
// shortens. It reports whether it had to resume it. With resumeMemory one that
// has none stays as it is: errAsleep.
func (s *sandbox) connect(ctx context.Context, d time.Duration, what resumption) (resumed bool, err error) {
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
			if what == resumeMemory && (s.rec.NoMemory || s.lost) {
				s.mu.Unlock()
				return false, errAsleep
			}
			return true, s.resume(ctx, d, what == resumeFiles) // gives mu back
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

// resume lets a paused sandbox go on. mu is held and given back.
func (s *sandbox) resume(ctx context.Context, d time.Duration, boot bool) error {
	if err := s.srv.limits.acquire(); err != nil {
		s.mu.Unlock()
		return err
	}
	s.slot = true
	s.move(resuming)
	asked := boot || s.rec.NoMemory
	s.mu.Unlock()

	booted, err := s.thaw(context.WithoutCancel(ctx), boot)
	if err := s.resumed(d, !booted, err); err != nil {
		return err
	}
	if booted && !asked { // a cloud would have its memory
		s.boot(ctx)
	}
	return nil
}

// resumed is the end of a resume, which err tells of.
func (s *sandbox) resumed(d time.Duration, memory bool, err error) error {
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
	s.rec.StartedAt, s.rec.NoMemory, s.lost = now, false, false
	s.rec.EndAt = s.clip(now.Add(d))
	s.move(running)
	s.arm()
	s.save()
	s.log.add("info", "sandbox resumed", "memory", strconv.FormatBool(memory))
	return nil
}

// thaw lets the processes go on, or the sandbox begin anew without them.
func (s *sandbox) thaw(ctx context.Context, boot bool) (booted bool, err error) {
	s.launch.Lock()
	defer s.launch.Unlock()
	if boot {
		s.endJail()
	}
	if s.jail == nil {
		return true, s.beginJail()
	}
	return false, s.jail.thaw(ctx)
}
