package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// etcShared are the parts of the machine's /etc that programs need to run and
// that hold no secret. The rest of a sandbox's /etc is its own.
var etcShared = []string{
	"alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
	"fonts", "inputrc", "java-17-openjdk", "java-21-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime",
	"magic", "mime.types", "os-release", "perl", "pki", "protocols", "python3", "python3.11", "python3.12",
	"python3.13", "rpc", "services", "ssl", "terminfo", "timezone",
}

// systemDirs are what a read-only /usr stands for on the machine.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// layout makes a sandbox's own tree below dir, or completes it after a
// restart. strong adds what only a root of its own needs. All goes through
// os.Root: after a restart the tree is full of what the sandbox left there, and
// a link of its making must not lead us out.
func layout(dir string, users accounts, strong bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("lay out the sandbox: %w", err)
	}
	defer root.Close()
	l := &layouter{root: root, users: users}
	user, _ := users.byName("user")
	l.su, _ = users.byName("root")
	l.adopt()
	l.dir(".", 0o755, l.su)
	l.dir("home", 0o755, l.su)
	l.dir("home/user", 0o755, user)
	l.dir("root", 0o700, l.su)
	l.dir("tmp", 0o777|fs.ModeSticky, l.su)
	if strong {
		l.system()
	}
	if l.err != nil {
		return fmt.Errorf("lay out the sandbox: %w", l.err)
	}
	return nil
}

// layouter makes one tree; its first error stops the rest.
type layouter struct {
	root  *os.Root
	users accounts
	su    account
	err   error
}

// adopt gives the sandbox's root what was the machine's root's: as it was made,
// or left by a server for which the two were one.
func (l *layouter) adopt() {
	if l.su.uid < 0 || ownerOf(l.root.Lstat(".")) != 0 {
		return
	}
	l.err = fs.WalkDir(l.root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || ownerOf(l.root.Lstat(name)) != 0 {
			return err
		}
		return l.root.Lchown(name, l.su.uid, l.su.gid)
	})
}

func ownerOf(st fs.FileInfo, err error) int {
	if err != nil {
		return -1
	}
	return int(st.Sys().(*syscall.Stat_t).Uid)
}

// system lays out what a root of its own needs: places to mount on, links as
// the machine has them, and an /etc.
func (l *layouter) system() {
	for _, d := range []string{"etc", "usr", "proc", "dev", "run", "opt", "srv", "mnt", "var", "var/lib", "var/log", "var/cache"} {
		l.dir(d, 0o755, l.su)
	}
	l.dir("var/tmp", 0o777|fs.ModeSticky, l.su)
	for _, d := range systemDirs {
		if target, err := os.Readlink(d); err == nil {
			l.link(target, d[1:])
		} // a real directory is bound, a missing one stays missing
	}
	for _, name := range etcShared {
		l.noLink(filepath.Join("etc", name))
	}
	l.file("etc/passwd", l.users.passwd())
	l.file("etc/group", l.users.group())
	l.file("etc/hostname", hostName+"\n")
	l.file("etc/hosts", "127.0.0.1 localhost "+hostName+"\n::1 localhost ip6-localhost\n")
	l.file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
	l.file("etc/profile", profile)
	l.file("etc/resolv.conf", machineFile("/etc/resolv.conf"))
}

// noLink removes a link where something is to be mounted or written.
func (l *layouter) noLink(name string) {
	if l.err != nil {
		return
	}
	if st, err := l.root.Lstat(name); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		l.err = l.root.Remove(name)
	}
}

// dir makes a directory, or leaves one as the sandbox has it by now.
func (l *layouter) dir(name string, mode fs.FileMode, own account) {
	l.noLink(name)
	if l.err != nil {
		return
	}
	err := l.root.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrExist) && name != "." {
		return
	}
	if name != "." && err != nil {
		l.err = err
		return
	}
	if l.err = l.root.Chmod(name, mode); l.err == nil && own.uid >= 0 { // past the umask
		l.err = l.root.Lchown(name, own.uid, own.gid)
	}
}

// link makes a link unless something is there already.
func (l *layouter) link(target, name string) {
	if l.err != nil {
		return
	}
	if err := l.root.Symlink(target, name); !errors.Is(err, fs.ErrExist) {
		l.err = err
	}
}

// file writes a file, whatever the sandbox made of it.
func (l *layouter) file(name, text string) {
	l.noLink(name)
	if l.err == nil {
		l.err = l.root.WriteFile(name, []byte(text), 0o644)
	}
	if l.err == nil && l.su.uid >= 0 {
		l.err = l.root.Lchown(name, l.su.uid, l.su.gid)
	}
}

const hostName = "e2b.local"

// profile is what a login shell reads. It leaves PATH as the request set it.
const profile = `[ "$PS1" ] && [ -n "$BASH" ] && PS1='\u@\h:\w\$ '
umask 022
`

func machineFile(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// discard removes a directory that is a sandbox or a snapshot by what stands in
// its record, and the record first: a server that dies in the middle must not
// leave one that has lost its files.
func discard(dir, record string) error {
	err := os.Remove(filepath.Join(dir, record))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, removeTree(dir))
}

// removeTree removes a sandbox's directory.
func removeTree(dir string) error {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("remove the sandbox's files: %w", err)
	}
	defer parent.Close()
	if err := removeBelow(parent, filepath.Base(dir)); err != nil {
		return fmt.Errorf("remove the sandbox's files: %w", err)
	}
	return nil
}
