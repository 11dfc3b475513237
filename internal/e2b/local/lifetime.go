package local

import (
	"context"
	"net/http"
	"time"
)

// arm makes the sandbox end at rec.EndAt; mu is held.
func (s *sandbox) arm() { s.armIn(time.Until(s.rec.EndAt)) }

// pauseAgain is how soon a pause that failed at the sandbox's end is tried again.
const pauseAgain = 5 * time.Second

func (s *sandbox) armIn(d time.Duration) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(d, func() { s.srv.run(s.expire) })
}

// expire ends a sandbox whose time is up.
func (s *sandbox) expire() {
	s.mu.Lock()
	runs, due := s.state == running, !time.Now().Before(s.rec.EndAt)
	if runs && !due { // the end moved, or the machine's clock did
		s.arm()
	}
	pause, memory := s.rec.AutoPause, !s.rec.DiskOnly
	s.mu.Unlock()
	if !runs || !due {
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
	if err := s.settled(); err != nil {
		return err
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

// settled is the error of calls that only a running sandbox takes; mu is held.
func (s *sandbox) settled() error {
	switch s.state {
	case gone, paused:
		return errNoSandbox(s.id())
	case pausing, resuming:
		return failf(http.StatusConflict, "sandbox %q is in '%s' state", s.id(), s.state)
	}
	return nil
}

// setTimeout moves the end to d from now, sooner or later than it was.
func (s *sandbox) setTimeout(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.settled(); err != nil {
		return err
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
