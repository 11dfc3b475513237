package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// keyFile is a credential in a file, read again when the file changes: a key is
// rotated without a restart.
type keyFile struct {
	path string

	mu    sync.Mutex
	value string
	info  os.FileInfo // of the file that value was read from
	fresh bool        // the file was written so shortly before that a second write may not show
}

// settled is the age from which a file's time tells it from every later version.
const settled = 2 * time.Second

// read returns the key. After a change that cannot be read it goes on with the
// last good value: a rotation is seldom atomic. Errors name no path: it may be
// the key itself, in the wrong variable.
func (k *keyFile) read() (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	info, err := os.Stat(k.path)
	if err == nil && k.same(info) {
		return k.value, nil
	}
	if err == nil {
		err = k.load(info)
	} else {
		err = fmt.Errorf("cannot be read: %w", withoutPath(err))
	}
	if err != nil && k.value == "" {
		return "", err
	}
	return k.value, nil
}

// same reports whether the value is known to be of this version of the file.
func (k *keyFile) same(info os.FileInfo) bool {
	return k.value != "" && !k.fresh && os.SameFile(info, k.info) &&
		info.ModTime().Equal(k.info.ModTime()) && info.Size() == k.info.Size()
}

func (k *keyFile) load(info os.FileInfo) error {
	data, err := os.ReadFile(k.path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", withoutPath(err))
	}
	value := strings.TrimSpace(string(data))
	switch {
	case value == "":
		return errors.New("is empty")
	case !oneWord(value):
		return errors.New("holds more than a key")
	}
	k.value, k.info = value, info
	k.fresh = time.Since(info.ModTime()) < settled
	return nil
}

// oneWord reports whether s can be a key: it goes into a header as it is.
func oneWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// withoutPath is err without the name of the file.
func withoutPath(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
