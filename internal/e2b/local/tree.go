package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is a sandbox's files. Every path is resolved by the kernel with the
// tree's top as its root: neither "..", nor a symbolic link, nor a rename in
// the middle leads out. Paths are absolute, as the sandbox sees them.
type tree struct {
	top  *os.File
	base string // what the kernel calls the top
}

func openTree(root string) (*tree, error) {
	top, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's tree: %w", err)
	}
	base, err := os.Readlink(fdPath(top))
	if err != nil {
		top.Close()
		return nil, fmt.Errorf("open the sandbox's tree: %w", err)
	}
	return &tree{top: top, base: strings.TrimSuffix(base, "/")}, nil
}

func (t *tree) close() { _ = t.top.Close() }

// fdPath names an open file, whatever its path is by now.
func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// open opens a path below the top. Never blocks on a pipe.
func (t *tree) open(name string, flags int, mode uint32) (*os.File, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOCTTY), Resolve: unix.RESOLVE_IN_ROOT}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	if flags&unix.O_PATH == 0 {
		how.Flags |= unix.O_NONBLOCK
	} else {
		how.Flags &^= unix.O_NOCTTY
	}
	for {
		fd, err := t.openat2(name, how)
		if err == nil {
			err = harmless(fd, flags)
			if err == nil {
				return os.NewFile(uintptr(fd), name), nil
			}
			_ = unix.Close(fd)
		}
		// EAGAIN: the kernel saw a rename while it climbed; it asks to retry.
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// harmless keeps file calls away from the kernel's own files: they act with the
// server's rights, and below /proc these reach the whole machine. What everybody
// may read there may be read.
func harmless(fd, flags int) error {
	var fsys unix.Statfs_t
	if flags&unix.O_PATH != 0 {
		return nil
	}
	if err := unix.Fstatfs(fd, &fsys); err != nil {
		return err
	}
	if fsys.Type != unix.PROC_SUPER_MAGIC {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if flags&unix.O_ACCMODE != unix.O_RDONLY || st.Mode&0o004 == 0 {
		return unix.EACCES
	}
	return nil
}

// openat2 keeps the top open during the call: a jail may end at any time.
func (t *tree) openat2(name string, how *unix.OpenHow) (fd int, err error) {
	rc, err := t.top.SyscallConn()
	if err != nil {
		return -1, err
	}
	if cerr := rc.Control(func(top uintptr) { fd, err = unix.Openat2(int(top), name, how) }); cerr != nil {
		return -1, cerr
	}
	return fd, err
}

// dir opens the directory that holds name, for the calls that end in "at".
func (t *tree) dir(name string) (*os.File, string, error) {
	d, err := t.open(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	return d, path.Base(name), err
}

// node is a file's description without its content.
type node struct {
	unix.Stat_t
	target string // of a symbolic link, resolved; empty where it leads nowhere
	real   *unix.Stat_t
	f      *os.File // what the name leads to; nil where it leads nowhere
}

func (n *node) close() {
	if n.f != nil {
		n.f.Close()
	}
}

func (n *node) isLink() bool { return n.Mode&unix.S_IFMT == unix.S_IFLNK }

// isDir says whether the name leads to a directory, through a link or not.
func (n *node) isDir() bool { return n.real != nil && n.real.Mode&unix.S_IFMT == unix.S_IFDIR }

// look describes what is at name: the link itself and what it leads to.
func (t *tree) look(name string) (*node, error) {
	f, err := t.open(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	n := &node{f: f}
	if err := unix.Fstat(int(f.Fd()), &n.Stat_t); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	n.real = &n.Stat_t
	if !n.isLink() {
		return n, nil
	}
	f.Close()
	n.f, n.real = nil, nil
	target, err := t.open(name, unix.O_PATH, 0)
	if err != nil {
		return n, nil //nolint:nilerr // a link that leads nowhere is a link still
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(target.Fd()), &st); err != nil {
		target.Close()
		return n, nil //nolint:nilerr // as above
	}
	n.f, n.real, n.target = target, &st, t.pathOf(target)
	return n, nil
}

// pathOf is an open file's path as the sandbox sees it.
func (t *tree) pathOf(f *os.File) string {
	p, err := os.Readlink(fdPath(f))
	if err != nil {
		return ""
	}
	if p = strings.TrimPrefix(p, t.base); p == "" {
		return "/"
	}
	return p
}

// mkdirAll makes a directory and those above it; what it makes belongs to own.
// It reports whether the last one is new.
func (t *tree) mkdirAll(name string, own account) (bool, error) {
	if f, err := t.open(name, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
		f.Close()
		return false, nil
	} else if errors.Is(err, unix.ENOTDIR) || name == "/" {
		return false, err
	}
	if _, err := t.mkdirAll(path.Dir(name), own); err != nil {
		return false, err
	}
	d, base, err := t.dir(name)
	if err != nil {
		return false, err
	}
	defer d.Close()
	err = unix.Mkdirat(int(d.Fd()), base, 0o755)
	if errors.Is(err, unix.EEXIST) { // by somebody else, or a link that leads nowhere
		return false, nil
	}
	if err == nil && own.uid >= 0 {
		err = unix.Fchownat(int(d.Fd()), base, own.uid, own.gid, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return false, &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return true, nil
}

// rename moves a file or directory.
func (t *tree) rename(from, to string) error {
	fd, fb, err := t.dir(from)
	if err != nil {
		return err
	}
	defer fd.Close()
	td, tb, err := t.dir(to)
	if err != nil {
		return err
	}
	defer td.Close()
	if err := unix.Renameat(int(fd.Fd()), fb, int(td.Fd()), tb); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// removeAll removes a name and all below it; a missing one is fine.
func (t *tree) removeAll(name string) error {
	d, base, err := t.dir(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	defer d.Close()
	// os.Root follows no link out of d, which is already inside the tree.
	r, err := os.OpenRoot(fdPath(d))
	if err != nil {
		return err
	}
	defer r.Close()
	return removeBelow(r, base)
}

// removeBelow removes a name of r and all below it, also where somebody took
// the permission to do so away from those who are not root.
func removeBelow(r *os.Root, name string) error {
	err := r.RemoveAll(name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = fs.WalkDir(r.FS(), name, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = r.Chmod(path, 0o700) // before it is read
		}
		return nil
	})
	return r.RemoveAll(name)
}

// names lists a directory, sorted.
func (t *tree) names(name string) ([]string, error) {
	f, err := t.open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// alias makes the machine's own path of the tree lead back to its top, so that
// a path which a plain process prints is one that the file calls know.
func (t *tree) alias(root string) error {
	up := filepath.Join(root, filepath.Dir(root))
	if err := os.MkdirAll(up, 0o755); err != nil {
		return fmt.Errorf("alias of the tree: %w", err)
	}
	err := os.Symlink("/", filepath.Join(root, root))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("alias of the tree: %w", err)
	}
	return nil
}
