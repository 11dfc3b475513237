package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// chooseIsolation tries the levels on the machine, best first, or the one that
// was asked for. Each is tried whole: a jail is started and a command run.
func (m *machine) chooseIsolation(want Isolation) (Isolation, error) {
	switch want {
	case Auto:
		for _, level := range []Isolation{Strong, Basic} {
			if m.tryIsolation(level) == nil {
				return level, nil
			}
		}
		return None, nil
	case None: // always possible
		return None, nil
	case Strong, Basic:
		if err := m.tryIsolation(want); err != nil {
			return "", fmt.Errorf("isolation %s: %w", want, err)
		}
		return want, nil
	}
	return "", fmt.Errorf("isolation %q: no such level", want)
}

const probeTimeout = 20 * time.Second

func (m *machine) tryIsolation(level Isolation) error {
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		return err
	}
	defer func() { _ = removeTree(dir) }()
	d, err := (&machine{}).openDisk(dir)
	if err != nil {
		return err
	}
	// Of the isolation only: limits too small for it must not lower it.
	probe := *m
	probe.bounds = Limits{Memory: -1, Processes: -1, Disk: -1}
	j, err := probe.startJail(level, newID(), d)
	if err != nil {
		return err
	}
	defer j.kill()
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	if err := errors.Join(j.freeze(ctx), j.thaw(ctx)); err != nil {
		return err
	}
	for _, name := range []string{"user", "root"} {
		u, _ := m.users.byName(name)
		if err := j.try(u); err != nil {
			return err
		}
	}
	return nil
}

// try runs one command as a user.
func (j *jail) try(u account) error {
	l, err := j.launch(command{user: u, dir: u.home, argv: []string{"/bin/sh", "-c", "exit 7"}})
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.ctl.release(); err != nil {
		return err
	}
	if st := l.wait(); st.code != 7 {
		return fmt.Errorf("a command as %s: %s", u.name, st.text)
	}
	return nil
}
