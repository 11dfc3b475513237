package policy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// settled is the age from which a file's time tells it from every later version.
const settled = 2 * time.Second

// File is a policy in a file, read again when the file changes. It may be used
// concurrently.
type File struct {
	path  string
	kinds []string
	tell  func(*Policy, error)

	mu    sync.Mutex
	last  *Policy     // the last good one
	info  os.FileInfo // of the version that was read last, good or not; nil if it could not be
	fresh bool        // the file was written so shortly before that a second write may not show
	text  string      // what was read last
	fault string      // what was told last
}

// Open reads a policy file. It must be good at the start. tell, unless nil, is
// called after each change of the file: with the policy that holds from now on or,
// when the file cannot be read or is faulty, with the last good one, which goes on,
// and what is wrong.
func Open(path string, kinds []string, tell func(*Policy, error)) (*File, error) {
	f := &File{path: path, kinds: kinds, tell: tell}
	p, err := f.load()
	if err != nil {
		return nil, fmt.Errorf("policy file %w", err)
	}
	f.last = p
	return f, nil
}

// Policy returns the policy that holds now.
func (f *File) Policy() *Policy {
	f.mu.Lock()
	p, news, err := f.look()
	f.mu.Unlock()
	if news && f.tell != nil {
		f.tell(p, err)
	}
	return p
}

// look reads the file if it changed and reports whether there is something to tell.
func (f *File) look() (p *Policy, news bool, err error) {
	info, err := os.Stat(f.path)
	if err == nil && f.same(info) {
		return f.last, false, nil
	}
	text := f.text
	if p, err = f.load(); err != nil {
		news = f.fault != err.Error()
		f.fault = err.Error()
		return f.last, news, err
	}
	news = f.text != text || f.fault != ""
	f.last, f.fault = p, ""
	return p, news, nil
}

func (f *File) same(info os.FileInfo) bool {
	return f.info != nil && !f.fresh && os.SameFile(info, f.info) &&
		info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size()
}

// load reads the file. Its path is not told: policies are spoken of to publishers.
func (f *File) load() (*Policy, error) {
	f.info = nil
	file, err := os.Open(f.path)
	if err != nil {
		return nil, unreadable(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, unreadable(err)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return nil, unreadable(err)
	}
	f.info, f.fresh = info, time.Since(info.ModTime()) < settled
	p, err := Parse(f.path, data, f.kinds)
	f.text = string(data)
	return p, err
}

func unreadable(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
