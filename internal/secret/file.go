package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// settled is the age from which a file's time tells it from every later version.
const settled = 2 * time.Second

// File is a source of one secret, in a file that is read again when it changes.
func File(name, path string) Source { return &single{name: name, file: file{path: path}} }

type single struct {
	name string
	file file
}

func (s *single) Find(name string) (Value, error) {
	if name != s.name {
		return Value{}, ErrUnknown
	}
	return s.file.read()
}

func (s *single) Check() []error { return s.file.check(s.name) }

// Dir is a source of one secret a file, whose name is the reference. Files may be
// symbolic links, as those of a volume that Kubernetes mounts: it swaps the link
// ..data to change all at once. A file is read again when it, or what it points to,
// changes; without the file the secret is unknown.
func Dir(path string) Source { return &dir{path: path, files: map[string]*file{}} }

type dir struct {
	path string

	mu    sync.Mutex
	files map[string]*file // those that were found; there are no more than were in the directory
}

func (d *dir) Find(name string) (Value, error) {
	if !isName(name) {
		return Value{}, ErrUnknown
	}
	d.mu.Lock()
	f := d.files[name]
	if f == nil {
		f = &file{path: filepath.Join(d.path, name)}
	}
	d.mu.Unlock()
	v, err := f.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	if errors.Is(err, ErrUnknown) {
		delete(d.files, name)
	} else if d.files[name] == nil {
		d.files[name] = f
	}
	return v, err
}

func (d *dir) Check() []error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return []error{fmt.Errorf("directory of secrets %w: create it, or let the worker's user read it", unreadable(err))}
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(d.path, e.Name())
		if info, err := os.Stat(path); !isName(e.Name()) || err == nil && info.IsDir() {
			continue
		}
		errs = append(errs, (&file{path: path}).check(e.Name())...)
	}
	return errs
}

// file is a secret in a file.
type file struct {
	path string

	mu    sync.Mutex
	value Value
	info  os.FileInfo // of the file that value was read from
	fresh bool        // the file was written so shortly before that a second write may not show
}

// read returns the secret of the file as it is now. A file just emptied is being
// written: until it has settled the secret is the last one.
func (f *file) read() (Value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.same(info) {
		return f.value, nil
	}
	var value Value
	if err == nil {
		value, info, err = load(f.path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.value = Value{}
		return Value{}, ErrUnknown
	case errors.Is(err, ErrEmpty) && !f.value.IsZero() && young(info):
		return f.value, nil
	case err == nil, errors.Is(err, ErrUnreadable), isFault(err):
	default:
		err = unreadable(err)
	}
	if err != nil {
		f.value = Value{}
		return Value{}, err
	}
	f.value, f.info, f.fresh = value, info, young(info)
	return value, nil
}

// same reports whether the value is known to be of this version of the file.
func (f *file) same(info os.FileInfo) bool {
	return !f.value.IsZero() && !f.fresh && os.SameFile(info, f.info) &&
		info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size()
}

func young(info os.FileInfo) bool { return time.Since(info.ModTime()) < settled }

// load reads a file and says which version of it was read.
func load(path string) (Value, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Value{}, nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return Value{}, info, fmt.Errorf("%w: it is not a regular file", ErrUnreadable)
	}
	f, err := os.Open(path)
	if err != nil {
		return Value{}, info, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return Value{}, info, err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxLength+3))
	if err != nil {
		return Value{}, info, err
	}
	value, err := parse(data)
	return value, info, err
}

// isFault reports whether err says what is wrong with a secret's text.
func isFault(err error) bool {
	for _, fault := range []error{ErrEmpty, ErrTooShort, ErrTooLong, ErrNUL} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}

// check says what is wrong with the file.
func (f *file) check(name string) []error {
	if _, err := f.read(); err != nil {
		return []error{fmt.Errorf("secret %s in its file: %w", name, err)}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if mode := f.info.Mode().Perm(); mode&0o007 != 0 {
		return []error{fmt.Errorf("secret %s in its file: everybody on this machine may use it (mode %04o): chmod 0400 it, or set defaultMode of the volume", name, mode)}
	}
	return nil
}
