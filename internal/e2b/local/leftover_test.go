package local

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"
)

// TestWhatDeadServersLeave: a server takes over what is whole, removes what was
// cut short, and leaves alone what is not its own.
func TestWhatDeadServersLeave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		return path
	}
	left := func(name, text string) { writeFile(t, place(name), text) }
	now := time.Now()
	sandbox := func(rec record) string {
		rec.ID, rec.Template, rec.State, rec.StartedAt, rec.EndAt = newID(), "base", "paused", now, now
		require.NoError(t, os.MkdirAll(filepath.Join(dir, rec.ID), 0o755))
		require.NoError(t, rec.save(filepath.Join(dir, rec.ID)))
		return rec.ID
	}
	snapshot := func(name, text string, at time.Time) string {
		snap := &snapshot{ID: newSnapshotID(), Name: name, CreatedAt: at}
		snap.dir = filepath.Join(dir, snapshotsDir, snap.ID)
		left(filepath.Join(snapshotsDir, snap.ID, "root/home/user/f"), text)
		require.NoError(t, snap.save())
		return snap.ID
	}
	cut, whole, built := newID(), sandbox(record{}), sandbox(record{Building: true})
	left(cut+"/disk.img", "half")
	left("notes/text", "of the user")
	left("isnotasandboxofours/text", "of the user")
	cutSnap := newSnapshotID()
	left(snapshotsDir+"/"+cutSnap+"/root/f", "half")
	left(snapshotsDir+"/old/text", "of the user")
	kept := snapshot("work:default", "new", now)
	replaced := snapshot("work:default", "old", now.Add(-time.Minute))
	unnamed := snapshot("", "unnamed", now)

	c := newClient(t, start(t, Config{Isolation: None, DataDir: dir}))
	require.Len(t, c.srv.Sandboxes(), 1)
	require.Equal(t, whole, c.srv.Sandboxes()[0].SandboxID)
	for _, gone := range []string{cut, built, snapshotsDir + "/" + cutSnap, snapshotsDir + "/" + replaced} {
		require.NoDirExists(t, filepath.Join(dir, gone))
	}
	for _, name := range []string{"notes/text", "isnotasandboxofours/text", snapshotsDir + "/old/text", snapshotsDir + "/" + kept, snapshotsDir + "/" + unnamed} {
		_, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
	}
	require.Equal(t, "new", c.create(`{"templateID":"work"}`).content("f"))
}

// TestRecordsThatCannotBeRead stop the start, with the place, and stay.
func TestRecordsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	id, snap := newID(), newSnapshotID()
	other, err := json.Marshal(record{ID: newID()})
	require.NoError(t, err)
	for name, tc := range map[string]struct{ at, text, want string }{
		"cut":         {id + "/" + recordFile, "{", "unexpected end of JSON input; mend it, or remove "},
		"another's":   {id + "/" + recordFile, string(other), "it is about "},
		"no file":     {id + "/" + recordFile + "/x", "", "is a directory"},
		"no snapshot": {snapshotsDir + "/" + snap + "/" + snapshotFile + "/x", "", "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			at := filepath.Join(dir, tc.at)
			require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
			writeFile(t, at, tc.text)
			_, err := Start(t.Context(), Config{Isolation: None, DataDir: dir})
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, dir)
			require.Equal(t, tc.text, readFile(t, at))
		})
	}
}

// TestRecordGoesFirst: a server that dies in the middle of a kill does not leave
// a sandbox without its files.
func TestRecordGoesFirst(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	dir := filepath.Join(c.srv.dir, b.SandboxID)
	w, err := fsnotify.NewWatcher()
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, w.Add(dir))
	for i := range 20 { // in the directory's own order some of them come first
		more := filepath.Join(dir, fmt.Sprint("more", i))
		require.NoError(t, os.Mkdir(more, 0o755))
		require.NoError(t, w.Add(more))
		writeFile(t, filepath.Join(more, "f"), "x")
	}
	require.Equal(t, 204, c.call("DELETE", b.on(""), "").status)
	for late := time.After(patience); ; {
		select {
		case ev := <-w.Events:
			if ev.Has(fsnotify.Remove) {
				require.Equal(t, filepath.Join(dir, recordFile), ev.Name)
				return
			}
		case err := <-w.Errors:
			t.Fatal(err)
		case <-late:
			t.Fatal("nothing was removed")
		}
	}
}

// TestBuildIsGivenUp: a template that takes too long does not hold up who wants
// to end the server, and leaves no sandbox.
func TestBuildIsGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	from := recipes(t, "app/Dockerfile", "FROM x\nWORKDIR /home/user\nRUN touch begun; sleep 1000\n")
	failed := make(chan error, 1)
	go func() {
		_, err := Start(ctx, Config{Isolation: None, DataDir: dir, Recipes: from})
		failed <- err
	}()
	found := func(file string) []string {
		list, err := filepath.Glob(filepath.Join(dir, "i*", file))
		require.NoError(t, err)
		return list
	}
	require.Eventually(t, func() bool { return len(found("root/home/user/begun")) == 1 }, patience, patience/1000)
	require.Contains(t, readFile(t, found(recordFile)[0]), `"building": true`)
	cancel()
	var err error
	require.NoError(t, atMost(stuck, func() error { err = <-failed; return nil }), "it goes on")
	require.ErrorContains(t, err, "app/Dockerfile:3: RUN: context canceled")
	require.Empty(t, found(recordFile))
}

// TestFailedStartLeavesNothing has a temporary folder of its own to look into.
func TestFailedStartLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, cfg := range []Config{
		{EgressCA: "/nowhere.pem"},
		{Recipes: "/nowhere"},
		{Addr: "127.0.0.1:none"},
	} {
		cfg.Isolation = None
		_, err := Start(t.Context(), cfg)
		require.Error(t, err)
		left, err := os.ReadDir(temp)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}
