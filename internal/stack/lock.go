package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockDir makes the folder if it is not there and takes it for this process
// until unlock: two NATS servers on one store would ruin it. The lock goes with
// the process, however that ends.
func lockDir(dir string) (unlock func(context.Context) error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("data folder %s: another stack is using it", dir)
		}
		return nil, fmt.Errorf("lock data folder %s: %w", dir, err)
	}
	return func(context.Context) error {
		// Closing alone would not do while a child that was just forked, and has
		// not come to its exec, still has the file open.
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		return errors.Join(err, f.Close())
	}, nil
}
