package local

import (
	"io/fs"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// xattrPrefix is where a file's metadata is kept.
const xattrPrefix = "user.e2b."

// readMetadata reads a file's metadata. What cannot be read is not there: a
// file system may know no attributes.
func readMetadata(f *os.File) map[string]string {
	p := fdPath(f)
	size, err := unix.Listxattr(p, nil)
	if err != nil || size == 0 {
		return nil
	}
	buf := make([]byte, size)
	size, err = unix.Listxattr(p, buf)
	if err != nil {
		return nil
	}
	var meta map[string]string
	for name := range strings.SplitSeq(string(buf[:size]), "\x00") {
		key, ok := strings.CutPrefix(name, xattrPrefix)
		if !ok {
			continue
		}
		value := make([]byte, 4096)
		n, err := unix.Getxattr(p, name, value)
		if err != nil {
			continue
		}
		if meta == nil {
			meta = make(map[string]string)
		}
		meta[key] = string(value[:n])
	}
	return meta
}

// The bounds on metadata: ext4 keeps it all in one block.
const (
	maxMetaKey   = 246
	maxMetaTotal = 4096
)

// uploadMetadata reads the X-Metadata- headers.
func uploadMetadata(h http.Header) (map[string]string, error) {
	var meta map[string]string
	total := 0
	for k, v := range h {
		key, ok := strings.CutPrefix(strings.ToLower(k), "x-metadata-")
		if !ok || key == "" || len(v) == 0 {
			continue
		}
		total += len(key) + len(v[0])
		if len(key) > maxMetaKey || total > maxMetaTotal {
			return nil, failf(http.StatusBadRequest, "metadata is too large")
		}
		if meta == nil {
			meta = make(map[string]string)
		}
		meta[key] = v[0]
	}
	return meta, nil
}

// writeMetadata makes meta all the metadata there is.
func writeMetadata(f *os.File, meta map[string]string) error {
	for key := range readMetadata(f) {
		if _, stays := meta[key]; !stays {
			_ = unix.Removexattr(fdPath(f), xattrPrefix+key)
		}
	}
	for key, value := range meta {
		if err := unix.Setxattr(fdPath(f), xattrPrefix+key, []byte(value), 0); err != nil {
			return &fs.PathError{Op: "set metadata of", Path: f.Name(), Err: err}
		}
	}
	return nil
}
