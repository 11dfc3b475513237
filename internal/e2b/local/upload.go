package local

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// written is what an upload says of each file.
type written struct {
	Metadata map[string]string `json:"metadata,omitempty"`
	Name     string            `json:"name"`
	Path     string            `json:"path"`
	Type     string            `json:"type"`
}

// upload is one POST /files.
type upload struct {
	*sandbox
	user account
	meta map[string]string
	done []written
}

// postFiles writes the files of a request, one after the other as they come
// in; nothing is held in memory.
func postFiles(w http.ResponseWriter, r *http.Request) {
	up := &upload{sandbox: box(r.Context()), done: []written{}}
	if err := up.run(r); err != nil {
		writeError(w, err)
		return
	}
	// envd labels its JSON so, and SDKs parse it all the same.
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = json.NewEncoder(w).Encode(up.done)
}

func (up *upload) run(r *http.Request) (err error) {
	q := r.URL.Query()
	if up.user, err = up.fileUser(q.Get("username")); err != nil {
		return err
	}
	if up.meta, err = uploadMetadata(r.Header); err != nil {
		return err
	}
	body, err := decoded(r)
	if err != nil {
		return err
	}
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/octet-stream":
		if q.Get("path") == "" {
			return failf(http.StatusBadRequest, "path is required for application/octet-stream uploads")
		}
		return up.write(q.Get("path"), body)
	case "multipart/form-data":
		return up.parts(multipart.NewReader(body, params["boundary"]), q.Get("path"))
	}
	return failf(http.StatusBadRequest, "unsupported content type: %s", r.Header.Get("Content-Type"))
}

func decoded(r *http.Request) (io.Reader, error) {
	switch e := r.Header.Get("Content-Encoding"); strings.ToLower(e) {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, failf(http.StatusBadRequest, "error decoding the body: %v", err)
		}
		return z, nil
	default:
		return nil, failf(http.StatusBadRequest, "unsupported content encoding: %s", e)
	}
}

// parts writes every part named file, to the one target or to its own name.
func (up *upload) parts(mr *multipart.Reader, target string) error {
	seen := make(map[string]bool)
	for {
		part, err := mr.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return failf(http.StatusBadRequest, "error parsing multipart form: %v", err)
		}
		if part.FormName() != "file" {
			continue
		}
		name := target
		if name == "" {
			name = partPath(part)
		}
		if name == "" {
			return failf(http.StatusBadRequest, "a part has no filename and the query no path")
		}
		if seen[name] {
			return failf(http.StatusBadRequest, "you cannot upload multiple files to the same path '%s'", name)
		}
		seen[name] = true
		if err := up.write(name, part); err != nil {
			return err
		}
	}
}

// partPath is a part's filename as sent: FileName would strip directories.
func partPath(part *multipart.Part) string {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return params["filename"]
}

// write makes one file of what body holds. A body that breaks leaves the file
// cut short, as with envd.
func (up *upload) write(name string, body io.Reader) error {
	name, err := expand(name, up.user)
	if err != nil {
		return failf(http.StatusBadRequest, "%v", err)
	}
	var f *os.File
	err = up.awake(func(j *jail) (err error) {
		f, err = j.tree.create(name, up.user)
		return err
	})
	if err != nil {
		return transferError(err, name)
	}
	defer f.Close()
	if err := writeMetadata(f, up.meta); err != nil {
		return transferError(err, name)
	}
	if _, err := io.Copy(f, body); err != nil {
		return transferError(err, name)
	}
	if err := f.Close(); err != nil {
		return transferError(err, name)
	}
	up.done = append(up.done, written{Metadata: up.meta, Name: path.Base(name), Path: name, Type: "file"})
	return nil
}

// create opens a file to be written from its start; it belongs to own, and so
// do the directories that are made for it.
func (t *tree) create(name string, own account) (*os.File, error) {
	if n, err := t.look(name); err == nil {
		n.close()
		if n.isDir() {
			return nil, failf(http.StatusBadRequest, "path is a directory: %s", name)
		}
	}
	if _, err := t.mkdirAll(path.Dir(name), own); err != nil {
		return nil, err
	}
	f, err := t.open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666&^fileMask)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = failf(http.StatusBadRequest, "path is not a regular file: %s", name)
	}
	if err == nil && own.uid >= 0 {
		err = unix.Fchown(int(f.Fd()), own.uid, own.gid)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fileMask is envd's umask; ours may be stricter, never looser.
const fileMask = 0o022
