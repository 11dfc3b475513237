package spool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandjet/sandjet/internal/e2b"
)

// Secrets are variables whose values stand in no argument, in no environment that
// envd is asked for, and in no request that it logs. They are uploaded as a file that
// only its user can read. The runner reads it and removes it before the command starts.
type Secrets struct {
	// Values returns the variables. It is a func because nothing prints one. Nil is
	// for who does not know them: the run can be joined, and not begun.
	Values func() map[string]string
	// Changed is called before anything is shown of a run that was given other
	// values than these, or has not said which.
	Changed func()
}

// text is what the runner has the shell read.
func (s *Secrets) text() string {
	values := s.Values()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(values[name], "'", `'\''`))
	}
	return b.String()
}

// givenSum is what the runner writes down of the text that it was given.
func givenSum(dir, text string) string {
	h := sha256.Sum256([]byte(dir + "\n" + strings.TrimRight(text, "\n")))
	return hex.EncodeToString(h[:])
}

// putSecrets uploads what the command is to be given, before the run exists. Of one
// that exists it finds out whether it was given the same.
func (r Run) putSecrets(ctx context.Context, s *Secrets) error {
	if s == nil {
		return nil
	}
	if s.Values == nil {
		s.Changed()
		return nil
	}
	var out bytes.Buffer
	cmd := r.sh(keepScript, r.dir())
	cmd.Stdout = &out
	if err := cmd.Run(ctx); err != nil {
		return err
	}
	text := s.text()
	if given, begun := strings.CutPrefix(out.String(), "begun\n"); begun {
		if strings.TrimSpace(given) != givenSum(r.dir(), text) {
			s.Changed()
		}
		return nil
	}
	return r.Box.As(r.User).Write(ctx, r.dir()+".env", strings.NewReader(text), e2b.WriteOptions{Size: int64(len(text))})
}
