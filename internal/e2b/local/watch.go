package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem"
)

// watcher reports what happens in one directory of a sandbox. It watches open
// directories, not paths, so that no link leads it elsewhere.
type watcher struct {
	place
	recursive, include bool
	fs                 *fsnotify.Watcher
	dirs               map[string]*os.File // by the name the notifier uses
	rel                map[string]string   // that name to the path below the watched directory
	at                 map[string]string   // and back
}

// watchRequest is what both ways to watch ask for.
type watchRequest interface {
	GetPath() string
	GetRecursive() bool
	GetIncludeEntry() bool
}

// newWatcher starts to watch; what happens from now on is reported.
func newWatcher(ctx context.Context, h http.Header, req watchRequest) (*watcher, error) {
	w := &watcher{
		recursive: req.GetRecursive(), include: req.GetIncludeEntry(),
		dirs: make(map[string]*os.File), rel: make(map[string]string), at: make(map[string]string),
	}
	err := within(ctx, h, req.GetPath(), func(p place) error {
		if err := p.wantDir(); err != nil {
			return err
		}
		w.place = p
		var err error
		if w.fs, err = fsnotify.NewWatcher(); err != nil {
			return fmt.Errorf("error creating watcher: %w", err)
		}
		if err := w.add("."); err != nil {
			w.close()
			return err
		}
		return nil
	})
	return w, err
}

// add watches a directory and, if asked to, those below it.
func (w *watcher) add(rel string) error {
	if _, ok := w.at[rel]; ok { // found in its parent before it was told of
		return nil
	}
	name := path.Join(w.name, rel)
	f, err := w.open(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	p := fdPath(f)
	if err := w.fs.Add(p); err != nil {
		f.Close()
		return fmt.Errorf("error adding path %s to watcher: %w", name, err)
	}
	w.dirs[p], w.rel[p], w.at[rel] = f, rel, p
	if !w.recursive {
		return nil
	}
	names, err := w.names(name)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := w.addBelow(path.Join(rel, n)); err != nil {
			return err
		}
	}
	return nil
}

// addBelow watches rel if it is a directory itself, not through a link. One
// that went meanwhile is no error.
func (w *watcher) addBelow(rel string) error {
	n, err := w.look(path.Join(w.name, rel))
	if err != nil {
		return nil //nolint:nilerr // it went
	}
	n.close()
	if n.isLink() || !n.isDir() {
		return nil
	}
	if err := w.add(rel); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// drop watches what was at rel no longer: a directory that went, or has another
// name by now, under which it is added anew with all that is below it.
func (w *watcher) drop(rel string, renamed bool) {
	p, ok := w.at[rel]
	if !ok {
		return
	}
	if renamed { // what is removed was empty
		for below := range w.at {
			if strings.HasPrefix(below, rel+"/") {
				w.drop(below, false)
			}
		}
	}
	_ = w.fs.Remove(p) // it may know already
	w.dirs[p].Close()
	delete(w.dirs, p)
	delete(w.rel, p)
	delete(w.at, rel)
}

func (w *watcher) close() {
	_ = w.fs.Close()
	for _, f := range w.dirs {
		f.Close()
	}
}

var eventTypes = []struct {
	op fsnotify.Op
	is filesystem.EventType
}{
	{fsnotify.Create, filesystem.EventType_EVENT_TYPE_CREATE},
	{fsnotify.Rename, filesystem.EventType_EVENT_TYPE_RENAME},
	{fsnotify.Chmod, filesystem.EventType_EVENT_TYPE_CHMOD},
	{fsnotify.Write, filesystem.EventType_EVENT_TYPE_WRITE},
	{fsnotify.Remove, filesystem.EventType_EVENT_TYPE_REMOVE},
}

// translate turns the notifier's event into envd's.
func (w *watcher) translate(ev fsnotify.Event) []*filesystem.FilesystemEvent {
	dir, base := path.Split(ev.Name)
	rel, ok := w.rel[strings.TrimSuffix(dir, "/")]
	if !ok { // about a watched directory itself; its parent's watch tells of it
		return nil
	}
	name := path.Join(rel, base)
	if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) {
		w.drop(name, ev.Has(fsnotify.Rename))
	}
	if w.recursive && ev.Has(fsnotify.Create) {
		_ = w.addBelow(name) // at worst its content goes unreported
	}
	var out []*filesystem.FilesystemEvent
	for _, t := range eventTypes {
		if ev.Has(t.op) {
			out = append(out, w.event(name, t.is))
		}
	}
	return out
}

func (w *watcher) event(name string, is filesystem.EventType) *filesystem.FilesystemEvent {
	ev := &filesystem.FilesystemEvent{Name: name, Type: is}
	gone := is == filesystem.EventType_EVENT_TYPE_REMOVE || is == filesystem.EventType_EVENT_TYPE_RENAME
	if w.include && !gone {
		if e, err := w.entry(path.Join(w.name, name), w.users); err == nil {
			ev.Entry = e
		}
	}
	return ev
}

// run hands events to emit until done, an error, or the notifier's end. After
// each silence of that length it calls idle.
func (w *watcher) run(done <-chan struct{}, emit func(*filesystem.FilesystemEvent) error, silence time.Duration, idle func() error) error {
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	for {
		select {
		case ev, ok := <-w.fs.Events:
			if !ok {
				return nil
			}
			for _, out := range w.translate(ev) {
				if err := emit(out); err != nil {
					return err
				}
			}
		case err, ok := <-w.fs.Errors:
			if !ok {
				return nil
			}
			return connect.NewError(connect.CodeInternal, fmt.Errorf("watcher error: %w", err))
		case <-quiet.C:
			if err := idle(); err != nil {
				return err
			}
		case <-done:
			return nil
		}
		quiet.Reset(silence)
	}
}

// WatchDir streams what happens in a directory.
func (filesystemService) WatchDir(ctx context.Context, req *connect.Request[filesystem.WatchDirRequest], out *connect.ServerStream[filesystem.WatchDirResponse]) error {
	w, err := newWatcher(ctx, req.Header(), req.Msg)
	if err != nil {
		return err
	}
	defer w.close()
	start := &filesystem.WatchDirResponse_Start{Start: &filesystem.WatchDirResponse_StartEvent{}}
	if err := out.Send(&filesystem.WatchDirResponse{Event: start}); err != nil {
		return err
	}
	err = w.run(ctx.Done(), func(ev *filesystem.FilesystemEvent) error {
		return out.Send(&filesystem.WatchDirResponse{Event: &filesystem.WatchDirResponse_Filesystem{Filesystem: ev}})
	}, keepalive(req.Header()), func() error {
		alive := &filesystem.WatchDirResponse_Keepalive{Keepalive: &filesystem.WatchDirResponse_KeepAlive{}}
		return out.Send(&filesystem.WatchDirResponse{Event: alive})
	})
	return errors.Join(err, ctx.Err())
}
