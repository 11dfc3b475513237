package wire

import (
	"fmt"
	"regexp"
)

// IDPattern is what a session, job or owner id looks like: safe as a subject
// token, a Redis key part and a file name.
const IDPattern = `^[A-Za-z0-9_-]{1,64}$`

var idRegexp = regexp.MustCompile(IDPattern)

// ReservedJob is the job token that session facts use in event subjects. No
// job may be called so.
const ReservedJob = "session"

// ValidID reports whether s may be a session, job or owner id.
func ValidID(s string) bool { return idRegexp.MatchString(s) }

// CheckID returns an error that names the field and the expected form if s is
// not a valid id.
func CheckID(field, s string) error {
	if ValidID(s) {
		return nil
	}
	return fmt.Errorf("%s %q is not an id: want 1 to 64 of A-Z a-z 0-9 _ -", field, clip(s, 80))
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
