package worker

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// keyFile is a credential in a file, read again when the file changes: a key is
// rotated without a restart.
type keyFile struct {
	path string

	mu      sync.Mutex
	value   string
	modTime time.Time
	size    int64
}

// read returns the key. After a change that cannot be read it goes on with the
// last good value: a rotation is seldom atomic.
func (k *keyFile) read() (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	info, err := os.Stat(k.path)
	if err == nil && k.value != "" && info.ModTime().Equal(k.modTime) && info.Size() == k.size {
		return k.value, nil
	}
	if err == nil {
		err = k.load(info)
	}
	if err != nil && k.value == "" {
		return "", err
	}
	return k.value, nil
}

func (k *keyFile) load(info os.FileInfo) error {
	data, err := os.ReadFile(k.path)
	if err != nil {
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		return fmt.Errorf("cannot read %s: %w", k.path, err)
	}
	value := strings.TrimSpace(string(data))
	if value == "" {
		return fmt.Errorf("%s is empty", k.path)
	}
	k.value, k.modTime, k.size = value, info.ModTime(), info.Size()
	return nil
}
