package jobs

import (
	"bytes"
	"encoding/json"
	"path"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/wire"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// limit is the range of a duration field. A zero value that stands in the body
// is below it: 0 must not quietly mean the default.
type limit struct {
	name     string
	min, max time.Duration
}

var (
	limitExpiresIn     = limit{"expires_in", time.Millisecond, year}
	limitDelay         = limit{"delay", 0, year}
	limitTimeout       = limit{"timeout", time.Millisecond, day}
	limitSilentTimeout = limit{"silent_timeout", time.Millisecond, day}
	limitIdleTimeout   = limit{"idle_timeout", time.Second, day}
	limitMaxAge        = limit{"max_age", time.Minute, year}
)

// check says what the schema cannot: ranges of durations, and paths that lead
// out of the home folder.
func check(p Payload, body []byte) error {
	c := p.common()
	if err := limitExpiresIn.check(c.ExpiresIn, body); err != nil {
		return err
	}
	if err := limitDelay.check(c.Delay, body); err != nil {
		return err
	}
	switch p := p.(type) {
	case *Provision:
		if err := limitIdleTimeout.check(p.IdleTimeout, body); err != nil {
			return err
		}
		return limitMaxAge.check(p.MaxAge, body)
	case *Run:
		if err := limitTimeout.check(p.Timeout, body); err != nil {
			return err
		}
		if err := limitSilentTimeout.check(p.SilentTimeout, body); err != nil {
			return err
		}
		return checkRepo(p.Repo)
	case *Git:
		return checkRepo(p.Repo)
	case *File:
		return checkPath(p.Path)
	}
	return nil
}

func (l limit) check(d wire.Duration, body []byte) error {
	if d == 0 && (l.min == 0 || !given(body, l.name)) {
		return nil
	}
	if d.D() < l.min || d.D() > l.max {
		return invalid("/"+l.name, "%s is out of range: want %s to %s", d, short(l.min), short(l.max))
	}
	return nil
}

// given reports whether the body has a field of that name at its top. The quick
// look spares almost every body the slow one.
func given(body []byte, name string) bool {
	if !bytes.Contains(body, []byte(`"`+name+`"`)) {
		return false
	}
	var fields map[string]json.RawMessage
	return json.Unmarshal(body, &fields) == nil && fields[name] != nil
}

// short formats a round duration without its zero parts: "24h", not "24h0m0s".
func short(d time.Duration) string {
	s := d.String()
	s = strings.TrimSuffix(s, "m0s") + map[bool]string{true: "m"}[strings.HasSuffix(s, "m0s")]
	return strings.TrimSuffix(s, "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(s, "h0m")]
}

// checkPath refuses what is no file: a folder, or a relative path that climbs
// out of the home folder. An absolute path may be any.
func checkPath(p string) error {
	if strings.HasSuffix(p, "/") {
		return invalid("/path", "want a file, not a folder")
	}
	clean := path.Clean(p)
	if clean == "." || clean == "/" {
		return invalid("/path", "want a file, not a folder")
	}
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return invalid("/path", "a relative path must stay in the home folder: give an absolute path to leave it")
	}
	return nil
}

// checkTimes refuses a start so far away that it can only be a mistake.
func (j *Job) checkTimes() error {
	if j.RunAfter.After(j.PublishedAt.Add(year)) {
		return invalid("/run_after", "more than %s away", short(year))
	}
	return nil
}
