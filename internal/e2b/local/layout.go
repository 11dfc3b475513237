package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// layout makes a sandbox's own tree below root, or completes it after a
// restart. strong adds what only a root of its own needs.
func layout(root string, users accounts, strong bool) error {
	user, _ := users.byName("user")
	su, _ := users.byName("root")
	dirs := []struct {
		path string
		mode fs.FileMode
		own  account
	}{
		{"", 0o755, su},
		{"home", 0o755, su},
		{"home/user", 0o755, user},
		{"root", 0o700, su},
		{"tmp", 0o777 | fs.ModeSticky, su},
	}
	for _, d := range dirs {
		if err := makeDir(filepath.Join(root, d.path), d.mode, d.own); err != nil {
			return err
		}
	}
	if !strong {
		return nil
	}
	return layoutSystem(root, users, su)
}

func layoutSystem(root string, users accounts, su account) error {
	for _, d := range []string{"etc", "usr", "proc", "dev", "run", "opt", "srv", "mnt", "var", "var/lib", "var/log", "var/cache"} {
		if err := makeDir(filepath.Join(root, d), 0o755, su); err != nil {
			return err
		}
	}
	if err := makeDir(filepath.Join(root, "var/tmp"), 0o777|fs.ModeSticky, su); err != nil {
		return err
	}
	for _, d := range systemDirs {
		target, err := os.Readlink(d)
		if err != nil {
			continue // a real directory is bound, a missing one stays missing
		}
		if err := os.Symlink(target, filepath.Join(root, d)); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("lay out the sandbox: %w", err)
		}
	}
	files := map[string]string{
		"passwd":        users.passwd(),
		"group":         users.group(),
		"hostname":      hostName + "\n",
		"hosts":         "127.0.0.1 localhost " + hostName + "\n::1 localhost ip6-localhost\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		"profile":       profile,
		"resolv.conf":   machineFile("/etc/resolv.conf"),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("lay out the sandbox: %w", err)
		}
	}
	return nil
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

func makeDir(path string, mode fs.FileMode, own account) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // the sandbox may have changed its mode since
		}
		return fmt.Errorf("lay out the sandbox: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil { // past the umask
		return fmt.Errorf("lay out the sandbox: %w", err)
	}
	if own.uid < 0 {
		return nil
	}
	if err := os.Chown(path, own.uid, own.gid); err != nil {
		return fmt.Errorf("lay out the sandbox: %w", err)
	}
	return nil
}

// removeTree removes a sandbox's directory, also where the sandbox took the
// permission to do so away.
func removeTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a directory, ours to remove
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the sandbox's files: %w", err)
	}
	return nil
}
