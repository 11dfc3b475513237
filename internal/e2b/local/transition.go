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
		s.arm()
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
	s.log.add("info", "sandbox resumed")
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
