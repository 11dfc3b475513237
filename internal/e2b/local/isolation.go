package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// chooseIsolation tries the levels on the machine, best first, or the one that
// was asked for. Each is tried whole: a jail is started and a command run. It
// tells why a better level was passed over, too.
func (m *machine) chooseIsolation(want Isolation) (level Isolation, why error, err error) {
	switch want {
	case Auto:
		for _, level := range []Isolation{Strong, Basic} {
			err := m.tryIsolation(level)
			if err == nil {
				return level, why, nil
			}
			if _, ok := errors.AsType[untried](err); ok {
				return "", nil, fmt.Errorf("try isolation %s: %w", level, err)
			}
			why = errors.Join(why, fmt.Errorf("isolation %s: %w", level, err))
		}
		return None, why, nil
	case None: // always possible
		return None, nil, nil
	case Strong, Basic:
		if err := m.tryIsolation(want); err != nil {
			return "", nil, fmt.Errorf("isolation %s: %w", want, err)
		}
		return want, nil, nil
	}
	return "", nil, fmt.Errorf("isolation %q: no such level", want)
}

const probeTimeout = 20 * time.Second

// untried is why a level could not even be tried, which says nothing of it: a
// full disk must not be taken for a machine that isolates nothing.
type untried struct{ error }

func (e untried) Unwrap() error { return e.error }

func (m *machine) tryIsolation(level Isolation) error {
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		return untried{err}
	}
	defer func() { _ = removeTree(dir) }()
	d, err := (&machine{}).openDisk(dir)
	if err == nil {
		err = layout(d.root, m.users, level == Strong)
	}
	if err != nil {
		return untried{err}
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
