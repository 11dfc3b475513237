package e2b

import (
	"context"
	"io/fs"
	"time"

	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem"
)

// Entry is a file, directory or symbolic link in a sandbox.
type Entry struct {
	Name    string
	Path    string      // absolute
	Size    int64       // of a link: the link's own
	Mode    fs.FileMode // permission and type bits; of a link: the target's permission
	Owner   string
	Group   string
	ModTime time.Time
	Target  string // what a symbolic link resolves to
	// Metadata was given when the file was written.
	Metadata map[string]string
}

// IsDir reports whether e is a directory, or a link to one.
func (e Entry) IsDir() bool { return e.Mode.IsDir() }

// IsLink reports whether e is a symbolic link.
func (e Entry) IsLink() bool { return e.Mode&fs.ModeSymlink != 0 }

// Stat describes one path. A missing one is fs.ErrNotExist. It may be
// repeated.
func (b *Box) Stat(ctx context.Context, path string) (Entry, error) {
	res, err := brief(ctx, b, "files.stat", b.files.Stat, &filesystem.StatRequest{Path: path})
	if err != nil {
		return Entry{}, err
	}
	if res.GetEntry() == nil {
		return Entry{}, &Error{Op: "files.stat", Sandbox: b.ref.ID, Kind: ErrBadAnswer, Message: "no entry"}
	}
	return entry(res.GetEntry()), nil
}

// Mkdir makes a directory and its parents. If it is there already the error is
// fs.ErrExist; if a file is there, ErrInvalid. It may be repeated.
func (b *Box) Mkdir(ctx context.Context, path string) error {
	_, err := brief(ctx, b, "files.mkdir", b.files.MakeDir, &filesystem.MakeDirRequest{Path: path})
	return err
}

// Rename moves a file or directory and makes the parents of the new place. A
// repeated call fails with fs.ErrNotExist if the first one had its effect.
func (b *Box) Rename(ctx context.Context, from, to string) error {
	_, err := brief(ctx, b, "files.rename", b.files.Move, &filesystem.MoveRequest{Source: from, Destination: to})
	return err
}

// ReadDir lists a directory, one level deep. It may be repeated.
func (b *Box) ReadDir(ctx context.Context, path string) ([]Entry, error) {
	res, err := brief(ctx, b, "files.readdir", b.files.ListDir, &filesystem.ListDirRequest{Path: path, Depth: 1})
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, e := range res.GetEntries() {
		entries = append(entries, entry(e))
	}
	return entries, nil
}

// Remove deletes a file, or a directory with all that is in it. A missing path
// is no error. It may be repeated.
func (b *Box) Remove(ctx context.Context, path string) error {
	_, err := brief(ctx, b, "files.remove", b.files.Remove, &filesystem.RemoveRequest{Path: path})
	return err
}

func entry(e *filesystem.EntryInfo) Entry {
	mode := fs.FileMode(e.GetMode()) & fs.ModePerm
	if e.GetType() == filesystem.FileType_FILE_TYPE_DIRECTORY {
		mode |= fs.ModeDir
	}
	// A link shows its target's type; what tells it is the target.
	if e.GetType() == filesystem.FileType_FILE_TYPE_SYMLINK || e.SymlinkTarget != nil {
		mode |= fs.ModeSymlink
	}
	return Entry{
		Name: e.GetName(), Path: e.GetPath(), Size: e.GetSize(), Mode: mode,
		Owner: e.GetOwner(), Group: e.GetGroup(), ModTime: e.GetModifiedTime().AsTime(),
		Target: e.GetSymlinkTarget(), Metadata: e.GetMetadata(),
	}
}
