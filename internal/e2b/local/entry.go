package local

import (
	"io/fs"
	"path"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem"
)

// entry describes what is at name as envd does. Of a symbolic link, type, mode
// and metadata are the target's; the rest is the link's own.
func (t *tree) entry(name string, users accounts) (*filesystem.EntryInfo, error) {
	n, err := t.look(name)
	if err != nil {
		return nil, err
	}
	defer n.close()
	e := &filesystem.EntryInfo{
		Name: path.Base(name), Path: name, Size: n.Size, Permissions: fileMode(n.Mode).String(),
		Owner: users.name(n.Uid), Group: users.name(n.Gid),
		ModifiedTime: timestamppb.New(time.Unix(n.Mtim.Sec, n.Mtim.Nsec)),
	}
	if n.isLink() {
		e.SymlinkTarget = &n.target
	}
	if n.real == nil {
		return e, nil
	}
	e.Mode = uint32(fileMode(n.real.Mode).Perm())
	switch n.real.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		e.Type = filesystem.FileType_FILE_TYPE_DIRECTORY
	case unix.S_IFREG:
		e.Type = filesystem.FileType_FILE_TYPE_FILE
	}
	e.Metadata = readMetadata(n.f)
	return e, nil
}

// fileMode turns a kernel mode into Go's, which prints as envd prints it.
func fileMode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	}
	for bit, flag := range map[uint32]fs.FileMode{unix.S_ISUID: fs.ModeSetuid, unix.S_ISGID: fs.ModeSetgid, unix.S_ISVTX: fs.ModeSticky} {
		if m&bit != 0 {
			mode |= flag
		}
	}
	return mode
}
