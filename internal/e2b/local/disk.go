package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// disk is where a sandbox's files are: a file system in a file, of a size of its
// own, or where the machine lets us make none, a directory.
//
// The file system is mounted nowhere: it is there for who has its top open, the
// server and the sandbox's processes, and is gone with the last of them, however
// they end.
type disk struct {
	root   string   // the top, as any process of this machine's root may name it
	top    *os.File // nil of a directory
	device string   // what is mounted for the sandbox; empty of a directory
}

const (
	imageFile = "disk.img" // in the sandbox's directory
	plainRoot = "root"     // there, of one without an image
	imageType = "ext4"
	// Space that is given back in there is given back to the machine, and what a
	// new file system is cleared of never was anything.
	imageOptions = "discard,noinit_itable"
)

// openDisks learns whether this machine lets the server make disks.
func (s *Server) openDisks() {
	switch {
	case s.bounds.Disk < 0:
	case s.isolation != Strong || !s.users.mapped:
		s.noDisk = errors.New("disks of their own need strong isolation and a server that is root")
	default:
		s.blank, s.noDisk = newBlank(s.dir, s.bounds.Disk)
	}
}

// openDisk opens the disk of the sandbox in dir, or makes it one.
func (m *machine) openDisk(dir string) (*disk, error) {
	image, plain := filepath.Join(dir, imageFile), filepath.Join(dir, plainRoot)
	_, err := os.Lstat(image)
	isNew := errors.Is(err, os.ErrNotExist)
	if isNew && (m.blank == nil || isDir(plain)) {
		return &disk{root: plain}, os.MkdirAll(plain, 0o755)
	}
	f, err := os.OpenFile(image, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's disk: %w", err)
	}
	defer f.Close()
	if err = lockImage(f, lockTimeout); err == nil && isNew {
		err = m.blank.writeTo(f)
	} else if err == nil {
		err = repair(image)
	}
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's disk: %w", err)
	}
	defer m.mounting()()
	return mountImage(f)
}

// closeDisk lets a disk go; nil is fine.
func (m *machine) closeDisk(d *disk) {
	if d != nil && d.top != nil {
		defer m.mounting()()
		_ = d.top.Close()
	}
}

// maxMounts bounds the disks that come and go at once: each holds a thread, and
// the kernel takes them one after the other anyway.
const maxMounts = 4

func (m *machine) mounting() (done func()) {
	m.mounts <- struct{}{}
	return func() { <-m.mounts }
}

// use is how large the disk is and how much of it is taken, in bytes.
func (d *disk) use() (total, used int64) {
	var fs unix.Statfs_t
	if unix.Statfs(d.root, &fs) != nil {
		return 0, 0
	}
	total = int64(fs.Blocks) * fs.Bsize
	return total, total - int64(fs.Bfree)*fs.Bsize
}

// lockTimeout bounds how long what a server left may take to end.
const lockTimeout = 20 * time.Second

// lockImage keeps two from using one image, which would be the end of it. The
// lock is held by the loop device, as long as that is.
func lockImage(f *os.File, patience time.Duration) error {
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	late := time.After(patience)
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-retry.C:
		case <-late:
			return fmt.Errorf("%s is in use by another server", f.Name())
		}
	}
}

// repair makes good what a machine that went down left of a file system. One
// that was left in order it only looks at.
func repair(image string) error {
	out, err := exec.Command(sbin("e2fsck"), "-y", image).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 4 { // mended
		return nil
	}
	if err != nil {
		return fmt.Errorf("e2fsck %s: %w: %.300s", image, err, out)
	}
	return nil
}

// sbin finds a program that not everybody's PATH leads to.
func sbin(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return "/usr/sbin/" + name
}

// mountImage opens the file system in an image.
func mountImage(image *os.File) (*disk, error) {
	loop, err := attach(image)
	if err != nil {
		return nil, fmt.Errorf("attach %s: %w", image.Name(), err)
	}
	defer loop.Close() // the mount keeps it
	top, err := mountDetached(loop.Name())
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", image.Name(), err)
	}
	return &disk{root: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), top.Fd()), top: top, device: loop.Name()}, nil
}

// attach gives an image a loop device that frees itself when nobody uses it.
func attach(image *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	config := &unix.LoopConfig{Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO}}
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		loop, err := openLoop(n)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), config)
		if err == nil {
			return loop, nil
		}
		_ = loop.Close()
		if !errors.Is(err, unix.EBUSY) { // somebody else was given the same one
			return nil, err
		}
	}
}

// openLoop opens a loop device. A container's /dev does not follow the kernel's,
// so that one which is new to it has to be made.
func openLoop(n int) (*os.File, error) {
	name := "/dev/loop" + strconv.Itoa(n)
	loop, err := os.OpenFile(name, os.O_RDWR, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return loop, err
	}
	number, err := os.ReadFile(fmt.Sprintf("/sys/block/loop%d/dev", n))
	if err != nil {
		return nil, err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(string(number), "%d:%d", &major, &minor); err != nil {
		return nil, fmt.Errorf("number of %s: %w", name, err)
	}
	err = unix.Mknod(name, unix.S_IFBLK|0o660, int(unix.Mkdev(major, minor)))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mknod", Path: name, Err: err}
	}
	return os.OpenFile(name, os.O_RDWR, 0)
}

// mountDetached mounts a device without a place.
func mountDetached(device string) (*os.File, error) {
	fs, err := unix.Fsopen(imageType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fs) }()
	err = unix.FsconfigSetString(fs, "source", device)
	for _, option := range strings.Split(imageOptions, ",") {
		if err == nil {
			err = unix.FsconfigSetFlag(fs, option)
		}
	}
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return nil, err
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), device), nil
}

// mountAt mounts the disk a second time, at a place of this thread's.
func (d *disk) mountAt(place string) error {
	if d.device == "" {
		return unix.Mount(d.root, place, "", unix.MS_BIND, "")
	}
	return unix.Mount(d.device, place, imageType, unix.MS_NODEV|unix.MS_NOSUID, imageOptions)
}

// blank is an empty file system: what is written of it, and where. To write it
// takes a hundredth of the time to make it.
type blank struct {
	size   int64
	pieces []piece
}

type piece struct {
	at   int64
	data []byte
}

// newBlank makes one of size bytes, with a file in dir that it removes.
func newBlank(dir string, size int64) (*blank, error) {
	f, err := os.CreateTemp(dir, imageFile+".*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = format(f, size)
	_ = f.Close()
	if err != nil {
		return nil, err
	}
	if f, err = os.Open(f.Name()); err != nil {
		return nil, err
	}
	defer f.Close()
	if err := lockImage(f, lockTimeout); err != nil { // now all is written
		return nil, err
	}
	return readBlank(f, size)
}

// format makes an empty file system in a file, and leaves the file locked until
// all of it is written: closing what was mounted does not wait for that, since a
// process that is being started holds whatever is open for a moment.
func format(f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	// No journal: a sandbox dies with its machine.
	mkfs := exec.Command(sbin("mkfs.ext4"), "-q", "-F", "-m", "0", "-O", "^has_journal,^resize_inode", "-E", "nodiscard,lazy_itable_init=1", f.Name())
	if out, err := mkfs.CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %.300s", err, out)
	}
	if err := lockImage(f, lockTimeout); err != nil {
		return err
	}
	d, err := mountImage(f)
	if err != nil {
		return err
	}
	defer d.top.Close()
	return os.Remove(d.root + "/lost+found")
}

func readBlank(f *os.File, size int64) (*blank, error) {
	b := &blank{size: size}
	for end := int64(0); ; {
		at, err := f.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return b, nil
		}
		if err == nil {
			end, err = f.Seek(at, unix.SEEK_HOLE)
		}
		if err != nil {
			return nil, err
		}
		data := make([]byte, end-at)
		if _, err := f.ReadAt(data, at); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		b.pieces = append(b.pieces, piece{at, data})
	}
}

func (b *blank) writeTo(f *os.File) error {
	for _, p := range b.pieces {
		if _, err := f.WriteAt(p.data, p.at); err != nil {
			return err
		}
	}
	return f.Truncate(b.size)
}
