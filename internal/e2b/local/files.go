package local

import (
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
)

// fileUser is the user of a file transfer: the query's, else the default.
func (s *sandbox) fileUser(name string) (account, error) {
	u, ok := s.account(name)
	if !ok {
		return account{}, failf(http.StatusUnauthorized, "error looking up user '%s': user: unknown user %s", name, name)
	}
	return u, nil
}

// getFile serves one file.
func getFile(w http.ResponseWriter, r *http.Request) {
	sb := box(r.Context())
	f, err := sb.openFile(r)
	if err != nil {
		writeError(w, err)
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		writeError(w, err)
		return
	}
	name := path.Base(f.Name())
	h := w.Header()
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": name}))
	encoding, err := chooseEncoding(r)
	if err != nil {
		writeError(w, err)
		return
	}
	if encoding == "gzip" && st.Size() > 0 { // SDKs know an empty file by its Content-Length
		serveGzip(w, f, name, st.ModTime())
		return
	}
	http.ServeContent(w, r, name, st.ModTime(), f)
}

// openFile finds the file a call reads.
func (s *sandbox) openFile(r *http.Request) (f *os.File, err error) {
	q := r.URL.Query()
	u, err := s.fileUser(q.Get("username"))
	if err != nil {
		return nil, err
	}
	name, err := expand(q.Get("path"), u)
	if err != nil {
		return nil, failf(http.StatusBadRequest, "%v", err)
	}
	err = s.awake(func(j *jail) error {
		n, err := j.tree.look(name)
		if err != nil || n.real == nil {
			return failf(http.StatusNotFound, "path '%s' does not exist", name)
		}
		n.close()
		switch n.real.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			return failf(http.StatusBadRequest, "path '%s' is a directory", name)
		case unix.S_IFREG:
		default:
			return failf(http.StatusBadRequest, "path '%s' is not a regular file", name)
		}
		f, err = j.tree.open(name, os.O_RDONLY, 0)
		return err
	})
	return f, transferError(err, name)
}

// transferError gives an error of a file transfer its status.
func transferError(err error, name string) error {
	var api *apiError
	switch {
	case err == nil, errors.As(err, &api):
		return err
	case errors.Is(err, errAsleep):
		return failf(http.StatusBadGateway, "The sandbox was not found")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return failf(http.StatusNotFound, "path '%s' does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return failf(http.StatusForbidden, "permission denied: '%s'", name)
	case errors.Is(err, unix.EISDIR):
		return failf(http.StatusBadRequest, "path '%s' is a directory", name)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return failf(http.StatusInsufficientStorage, "not enough disk space: %v", err)
	}
	if connect.CodeOf(err) == connect.CodeInvalidArgument {
		return failf(http.StatusBadRequest, "%v", err)
	}
	return failf(http.StatusInternalServerError, "error opening file '%s': %v", name, err)
}

// chooseEncoding picks plain bytes or gzip. A range is of the plain bytes, so
// it wins over gzip.
func chooseEncoding(r *http.Request) (string, error) {
	accept := r.Header.Get("Accept-Encoding")
	if accept == "" {
		return "identity", nil
	}
	refused := make(map[string]bool)
	gz := false
	for part := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(strings.ToLower(part)), ";")
		q := strings.ReplaceAll(params, " ", "")
		zero := q == "q=0" || strings.TrimRight(q, "0") == "q=0."
		refused[name] = zero
		gz = gz || (!zero && (name == "gzip" || name == "*"))
	}
	switch {
	case gz && !refused["gzip"] && r.Header.Get("Range") == "":
		return "gzip", nil
	case refused["identity"], refused["*"]:
		return "", failf(http.StatusNotAcceptable, "no acceptable encoding found, supported: [identity gzip]")
	}
	return "identity", nil
}

func serveGzip(w http.ResponseWriter, f *os.File, name string, at time.Time) {
	h := w.Header()
	h.Set("Content-Type", contentType(f, name))
	h.Set("Content-Encoding", "gzip")
	h.Set("Last-Modified", at.UTC().Format(http.TimeFormat))
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a valid one
	if _, err := io.Copy(z, f); err == nil {
		_ = z.Close()
	}
}

// contentType guesses by the name and then by the first bytes.
func contentType(f *os.File, name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	var head [512]byte
	n, _ := io.ReadFull(f, head[:])
	_, _ = f.Seek(0, io.SeekStart)
	return http.DetectContentType(head[:n])
}
