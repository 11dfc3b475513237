package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// snapshot is a template that was taken from a sandbox: its files, not its
// memory. A sandbox made from it starts without processes, but for the start
// command of the template that the origin was made from.
type snapshot struct {
	ID        string    `json:"id"`
	Name      string    `json:"name,omitempty"` // alias and tag, "work:default"; empty when none was given
	Sandbox   string    `json:"sandbox"`        // where it was taken
	CreatedAt time.Time `json:"created_at"`
	Defaults  defaults  `json:"defaults,omitzero"` // of the template that the sandbox was made from

	dir     string
	files   sync.RWMutex // held while the files are copied, and alone to remove them
	removed bool         // guarded by files
}

// snapshotInfo is a snapshot as the API tells of it.
type snapshotInfo struct {
	ID    string   `json:"snapshotID"`
	Names []string `json:"names"`
}

const (
	namespace     = "local" // of every name; the cloud puts the team here
	defaultTag    = "default"
	snapshotsDir  = "snapshots"
	snapshotFile  = "snapshot.json"
	snapshotLabel = "snap" // how a snapshot's id begins, so that a lost one is no template of any name
)

var (
	snapshotForm = regexp.MustCompile(`^` + snapshotLabel + `[a-z0-9]{16}$`)
	nameForm     = regexp.MustCompile(`^(?:` + namespace + `/)?([a-z0-9_-]{1,128})(?::([A-Za-z0-9_.-]{1,128}))?$`)
)

func newSnapshotID() string { return snapshotLabel + newID()[1:17] }

func (s *snapshot) info() snapshotInfo {
	if s.Name == "" {
		return snapshotInfo{ID: s.ID + ":" + defaultTag, Names: []string{}}
	}
	full := namespace + "/" + s.Name
	return snapshotInfo{ID: full, Names: []string{full}}
}

// answersTo says whether a template's name, in any of its forms, is this
// snapshot.
func (s *snapshot) answersTo(name string) bool {
	alias, tag, ok := parseName(name)
	if !ok {
		return false
	}
	return (alias == s.ID && tag == defaultTag) || (s.Name != "" && alias+":"+tag == s.Name)
}

// parseName takes a name apart: "[local/]alias[:tag]".
func parseName(name string) (alias, tag string, ok bool) {
	m := nameForm.FindStringSubmatch(name)
	if m == nil {
		return "", "", false
	}
	if m[2] == "" {
		m[2] = defaultTag
	}
	return m[1], m[2], true
}

// copyTo makes root a copy of the snapshot's files.
func (s *snapshot) copyTo(ctx context.Context, root string) error {
	s.files.RLock()
	defer s.files.RUnlock()
	if s.removed {
		return errNoTemplate(s.ID)
	}
	return copyTree(ctx, filepath.Join(s.dir, "root"), root)
}

func (s *snapshot) remove() error {
	s.files.Lock()
	defer s.files.Unlock()
	s.removed = true
	return discard(s.dir, snapshotFile)
}

func (s *snapshot) save() error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, snapshotFile), b, 0o600)
}

// copyTree copies what is below from to to, which exists: links as links,
// owners, modes, times and attributes kept, blocks shared where the file system
// can.
func copyTree(ctx context.Context, from, to string) error {
	cmd := exec.CommandContext(ctx, "cp", "-a", from+"/.", to+"/.")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copy the sandbox's files: %w: %.300s", err, out)
	}
	return nil
}

// shelf keeps the snapshots, each in a directory of its own.
type shelf struct {
	dir string

	mu  sync.Mutex
	all map[string]*snapshot
}

// openShelf reads the snapshots below dir. What a server that died left
// unfinished is removed; what cannot be read is an error, not unfinished.
func openShelf(dir string) (*shelf, error) {
	sh := &shelf{dir: filepath.Join(dir, snapshotsDir), all: make(map[string]*snapshot)}
	entries, err := os.ReadDir(sh.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return sh, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the snapshots: %w", err)
	}
	var found []*snapshot
	for _, e := range entries {
		if !e.IsDir() || !snapshotForm.MatchString(e.Name()) {
			continue // not ours
		}
		snap := &snapshot{dir: filepath.Join(sh.dir, e.Name())}
		b, err := os.ReadFile(filepath.Join(snap.dir, snapshotFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the snapshots: %w", err)
		}
		if err != nil || json.Unmarshal(b, snap) != nil || snap.ID != e.Name() {
			_ = removeTree(snap.dir)
			continue
		}
		found = append(found, snap)
	}
	slices.SortFunc(found, func(a, b *snapshot) int { return a.cursor().compare(b.cursor()) })
	for _, snap := range found {
		if old := sh.show(snap); old != nil {
			_ = old.remove()
		}
	}
	return sh, nil
}

// find returns the snapshot of that name, or nil.
func (sh *shelf) find(name string) *snapshot {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, s := range sh.all {
		if s.answersTo(name) {
			return s
		}
	}
	return nil
}

// begin makes the place for a snapshot to be filled; put shows it, drop gives
// it up.
func (sh *shelf) begin(name string, of record) (*snapshot, error) {
	snap := &snapshot{ID: newSnapshotID(), Name: name, Sandbox: of.ID, CreatedAt: time.Now(), Defaults: of.defaults()}
	snap.dir = filepath.Join(sh.dir, snap.ID)
	return snap, os.MkdirAll(filepath.Join(snap.dir, "root"), 0o755)
}

// put keeps a snapshot and shows it. One of the same name gives way to it.
func (sh *shelf) put(snap *snapshot) error {
	if err := snap.save(); err != nil {
		return err
	}
	if old := sh.show(snap); old != nil {
		return old.remove()
	}
	return nil
}

// show lets a snapshot be found, and returns the one whose name it takes.
func (sh *shelf) show(snap *snapshot) (old *snapshot) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for id, s := range sh.all {
		if snap.Name != "" && s.Name == snap.Name {
			old = s
			delete(sh.all, id)
		}
	}
	sh.all[snap.ID] = snap
	return old
}

// drop removes a snapshot by name. It reports whether there was one.
func (sh *shelf) drop(name string) (bool, error) {
	snap := sh.find(name)
	if snap == nil {
		return false, nil
	}
	sh.mu.Lock()
	delete(sh.all, snap.ID)
	sh.mu.Unlock()
	return true, snap.remove()
}

func (sh *shelf) list() []*snapshot {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	list := make([]*snapshot, 0, len(sh.all))
	for _, s := range sh.all {
		list = append(list, s)
	}
	return list
}

// checkpoint stands a running sandbox still while take reads its files. Its
// id, end and processes stay, its connections drop, as when a machine is
// stopped for a moment. Calls in between wait.
func (s *sandbox) checkpoint(ctx context.Context, verb string, take func(root string) error) error {
	s.launch.Lock()
	defer s.launch.Unlock()
	s.mu.Lock()
	st := s.state
	s.mu.Unlock()
	switch st {
	case gone:
		return errNoSandbox(s.id())
	case running:
	default:
		return failf(http.StatusConflict, "Sandbox '%s' cannot be %s while in '%s' state", s.id(), verb, st)
	}
	// What was begun is finished: a frozen sandbox that nobody thaws is worse.
	ctx = context.WithoutCancel(ctx)
	if s.jail != nil {
		if err := s.jail.freeze(ctx); err != nil {
			return err
		}
	}
	s.calls.cut()
	err := s.openDisk()
	if err == nil {
		err = take(s.disk.root)
	}
	if s.jail != nil {
		err = errors.Join(err, s.jail.thaw(ctx))
	}
	return err
}

// takeSnapshot answers POST /sandboxes/{id}/snapshots.
func (s *Server) takeSnapshot(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	var q struct {
		Name *string `json:"name"`
	}
	if err := decode(r, &q); err != nil {
		return err
	}
	name := ""
	if q.Name != nil {
		alias, tag, ok := parseName(*q.Name)
		if !ok {
			return failf(http.StatusBadRequest, "Invalid name: %.200s", *q.Name)
		}
		name = alias + ":" + tag
	}
	snap, err := s.snapshotOf(r.Context(), sb, name, "snapshotted")
	if err == nil {
		err = s.shelf.put(snap)
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, snap.info())
	return nil
}

// snapshotOf copies a sandbox as it stands; nobody finds the copy yet.
func (s *Server) snapshotOf(ctx context.Context, sb *sandbox, name, verb string) (*snapshot, error) {
	snap, err := s.shelf.begin(name, sb.snapshot())
	if err == nil {
		err = sb.checkpoint(ctx, verb, func(root string) error { return copyTree(ctx, root, filepath.Join(snap.dir, "root")) })
	}
	if err != nil {
		_ = removeTree(snap.dir)
		return nil, err
	}
	return snap, nil
}

// listSnapshots answers GET /snapshots: newest first, in pages.
func (s *Server) listSnapshots(w http.ResponseWriter, r *http.Request) error {
	v := r.URL.Query()
	limit, err := pageLimit(v.Get("limit"))
	if err != nil {
		return err
	}
	var from cursor
	if t := v.Get("nextToken"); t != "" {
		if from, _, err = parseToken(t); err != nil {
			return err
		}
	}
	sandbox, _, _ := strings.Cut(v.Get("sandboxID"), "-")
	fit := slices.DeleteFunc(s.shelf.list(), func(snap *snapshot) bool {
		return (sandbox != "" && snap.Sandbox != sandbox) || (v.Get("name") != "" && !snap.answersTo(v.Get("name"))) ||
			(from.id != "" && snap.cursor().compare(from) >= 0)
	})
	slices.SortFunc(fit, func(a, b *snapshot) int { return b.cursor().compare(a.cursor()) })
	page := make([]snapshotInfo, 0, len(fit))
	for i, snap := range fit {
		if i == limit {
			w.Header().Set("X-Next-Token", fit[i-1].cursor().token(false))
			break
		}
		page = append(page, snap.info())
	}
	writeJSON(w, http.StatusOK, page)
	return nil
}

func (s *snapshot) cursor() cursor { return cursor{at: s.CreatedAt, id: s.ID} }

// dropTemplate answers DELETE /templates/{id}. Snapshots are the only templates
// that come and go here.
func (s *Server) dropTemplate(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("id")
	found, err := s.shelf.drop(name)
	if err != nil {
		return err
	}
	if !found {
		return errNoTemplate(name)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func errNoTemplate(name string) *apiError {
	return failf(http.StatusNotFound, "template '%.200s' not found", name)
}
