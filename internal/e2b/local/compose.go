package local

import (
	"io"
	"net/http"
	"os"
)

// composeFiles joins files into one and removes them.
func composeFiles(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Sources     []string `json:"source_paths"`
		Destination string   `json:"destination"`
		User        string   `json:"username"`
	}
	err := decode(r, &q)
	if err == nil && (len(q.Sources) == 0 || q.Destination == "") {
		err = failf(http.StatusBadRequest, "source_paths and destination are required")
	}
	up := &upload{sandbox: box(r.Context())}
	if err == nil {
		up.user, err = up.fileUser(q.User)
	}
	if err == nil {
		err = up.compose(q.Sources, q.Destination)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, up.done[0])
}

func (up *upload) compose(sources []string, to string) error {
	files := make([]io.Reader, 0, len(sources))
	names := make([]string, 0, len(sources))
	for _, src := range sources {
		name, err := expand(src, up.user)
		if err != nil {
			return failf(http.StatusBadRequest, "%v", err)
		}
		var f *os.File
		err = up.awake(func(j *jail) (err error) {
			f, err = j.tree.open(name, os.O_RDONLY, 0)
			return err
		})
		if err != nil {
			return transferError(err, name)
		}
		defer f.Close()
		files, names = append(files, f), append(names, name)
	}
	if err := up.write(to, io.MultiReader(files...)); err != nil {
		return err
	}
	return up.awake(func(j *jail) error {
		for _, name := range names {
			if name != up.done[0].Path {
				if err := j.tree.removeAll(name); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
