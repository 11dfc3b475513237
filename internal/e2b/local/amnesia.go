package local

import (
	"context"
	"fmt"
	"io/fs"
	"os"
)

// LoseFiles lets a pause or a connect do its work, and then empties the home
// directory: the sandbox comes back without what was done in it.
type LoseFiles struct{}

func (LoseFiles) action() {}

type amnesiaKey struct{}

func withAmnesia(ctx context.Context) context.Context {
	return context.WithValue(ctx, amnesiaKey{}, true)
}

// forget empties the home directory if ctx's call has the fault. What is in
// there is the sandbox's own making, so nothing is followed out of it.
func (s *sandbox) forget(ctx context.Context) error {
	if ctx.Value(amnesiaKey{}) == nil {
		return nil
	}
	s.launch.Lock()
	defer s.launch.Unlock()
	if err := s.openDisk(); err != nil {
		return fmt.Errorf("lose files: %w", err)
	}
	root, err := os.OpenRoot(s.disk.root)
	if err != nil {
		return fmt.Errorf("lose files: %w", err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), "home/user")
	if err != nil {
		return fmt.Errorf("lose files: %w", err)
	}
	for _, e := range entries {
		if err := root.RemoveAll("home/user/" + e.Name()); err != nil {
			return fmt.Errorf("lose files: %w", err)
		}
	}
	return nil
}
