package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem"
)

func (b *testBox) stat(path string) (*filesystem.EntryInfo, error) {
	r, err := b.files().Stat(b.Context(), ask(b, &filesystem.StatRequest{Path: path}))
	if err != nil {
		return nil, err
	}
	return r.Msg.GetEntry(), nil
}

func (b *testBox) ls(path string, depth uint32) (paths []string, err error) {
	r, err := b.files().ListDir(b.Context(), ask(b, &filesystem.ListDirRequest{Path: path, Depth: depth}))
	if err != nil {
		return nil, err
	}
	for _, e := range r.Msg.GetEntries() {
		paths = append(paths, e.GetPath())
	}
	return paths, nil
}

func (b *testBox) mkdir(path string) error {
	_, err := b.files().MakeDir(b.Context(), ask(b, &filesystem.MakeDirRequest{Path: path}))
	return err
}

func (b *testBox) remove(path string) error {
	_, err := b.files().Remove(b.Context(), ask(b, &filesystem.RemoveRequest{Path: path}))
	return err
}

func (b *testBox) put(path, text string) {
	b.Helper()
	r := b.envd("POST", "/files?path="+path, text, "Content-Type", octets)
	require.Equal(b, 200, r.status, "%s", r.body)
}

func TestFilesystem(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		require.NoError(c, b.mkdir("a/b/c"))
		require.Equal(c, connect.CodeAlreadyExists, connect.CodeOf(b.mkdir("a/b")))
		b.put("a/f", "hello")
		require.Equal(c, connect.CodeInvalidArgument, connect.CodeOf(b.mkdir("a/f")))

		e, err := b.stat("a/f")
		require.NoError(c, err)
		require.Equal(c, "/home/user/a/f", e.GetPath())
		require.Equal(c, filesystem.FileType_FILE_TYPE_FILE, e.GetType())
		require.EqualValues(c, 5, e.GetSize())
		require.EqualValues(c, 0o644, e.GetMode())
		require.Equal(c, "-rw-r--r--", e.GetPermissions())
		require.Equal(c, "user", e.GetOwner())
		require.Equal(c, "user", e.GetGroup())
		require.NotZero(c, e.GetModifiedTime().GetSeconds())
		e, err = b.stat("/home/user")
		require.NoError(c, err)
		require.Equal(c, "drwxr-xr-x", e.GetPermissions())
		require.EqualValues(c, 0o755, e.GetMode())

		b.run("ln -s f a/link; ln -s nowhere a/loose; mkfifo a/pipe; chmod 600 a/f")
		e, err = b.stat("a/link")
		require.NoError(c, err)
		require.Equal(c, filesystem.FileType_FILE_TYPE_FILE, e.GetType(), "the target's")
		require.EqualValues(c, 0o600, e.GetMode(), "the target's")
		require.True(c, strings.HasPrefix(e.GetPermissions(), "L"), e.GetPermissions())
		require.EqualValues(c, 1, e.GetSize(), "the link's own")
		require.Equal(c, "/home/user/a/f", e.GetSymlinkTarget())
		e, err = b.stat("a/loose")
		require.NoError(c, err)
		require.Equal(c, filesystem.FileType_FILE_TYPE_UNSPECIFIED, e.GetType())
		require.Equal(c, 400, b.envd("GET", "/files?path=a/pipe", "").status, "a pipe blocks nobody")

		paths, err := b.ls("a", 0)
		require.NoError(c, err)
		require.Equal(c, []string{"/home/user/a/b", "/home/user/a/f", "/home/user/a/link", "/home/user/a/loose", "/home/user/a/pipe"}, paths)
		paths, err = b.ls("/home/user/a/", 2)
		require.NoError(c, err)
		require.Contains(c, paths, "/home/user/a/b/c")
		_, err = b.ls("a/f", 0)
		require.Equal(c, connect.CodeInvalidArgument, connect.CodeOf(err))
		_, err = b.ls("none", 0)
		require.Equal(c, connect.CodeNotFound, connect.CodeOf(err))

		moved, err := b.files().Move(c.Context(), ask(b, &filesystem.MoveRequest{Source: "a/f", Destination: "n/e/w"}))
		require.NoError(c, err)
		require.Equal(c, "/home/user/n/e/w", moved.Msg.GetEntry().GetPath())
		_, err = b.files().Move(c.Context(), ask(b, &filesystem.MoveRequest{Source: "a/f", Destination: "other/x"}))
		require.Equal(c, connect.CodeNotFound, connect.CodeOf(err))
		_, err = b.stat("other")
		require.Equal(c, connect.CodeNotFound, connect.CodeOf(err), "no parents for what does not move")

		b.run("mkdir -p a/b/c/d; touch a/b/c/d/x; chmod 0 a/b/c/d; ln -s ../n a/n")
		require.NoError(c, b.remove("a"))
		require.NoError(c, b.remove("a"), "a missing path is success")
		_, err = b.stat("n/e/w")
		require.NoError(c, err, "a link's target stays")
		require.Equal(c, connect.CodeInvalidArgument, connect.CodeOf(b.remove("/")))
		_, err = b.stat("~eve/x")
		require.Equal(c, connect.CodeInvalidArgument, connect.CodeOf(err))
	})
}

// TestNoWayOut tries to leave the sandbox's tree through the file calls, which
// the server runs with its own rights.
func TestNoWayOut(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		secret := c.TempDir() + "/secret"
		writeFile(c.T, secret, "outside")
		b.run("ln -s " + secret + " direct; ln -s ../../../../../../../.." + secret + " climb; ln -s / top; ln -s /proc/1/root proc; ln -s /proc/self/root self")
		for _, path := range []string{
			"direct", "climb", "top" + secret, "proc" + secret, "self" + secret, secret, "../../../../.." + secret,
			"/home/user/../../../.." + secret, "/proc/self/root" + secret, "/proc/1/root" + secret, "/proc/self/cwd" + secret,
		} {
			r := b.envd("GET", "/files?path="+path, "")
			require.NotContains(c, r.body, "outside", path)
			require.Contains(c, []int{400, 404, 500}, r.status, path)
			b.envd("POST", "/files?path="+path, "changed", "Content-Type", octets)
			_ = b.remove(path)
			_, _ = b.files().Move(c.Context(), ask(b, &filesystem.MoveRequest{Source: path, Destination: "/tmp/got"}))
		}
		require.Equal(c, "outside", readFile(c.T, secret))
		// A link inside that is absolute means the sandbox's own root.
		if c.srv.Isolation() == "strong" {
			b.put("/tmp/inner", "inside")
			b.run("ln -s /tmp/inner abs")
			require.Equal(c, "inside", b.envd("GET", "/files?path=abs", "").body)
		}
	})
}

func TestWatchers(t *testing.T) {
	eachLevel(t, func(c *client) {
		b := c.create("")
		require.NoError(c, b.mkdir("w/sub"))
		made, err := b.files().CreateWatcher(c.Context(), ask(b, &filesystem.CreateWatcherRequest{Path: "w", Recursive: true, IncludeEntry: true}))
		require.NoError(c, err)
		id := made.Msg.GetWatcherId()
		var seen []string
		sawAll := func(want ...string) {
			c.Helper()
			require.Eventually(c, func() bool {
				r, err := b.files().GetWatcherEvents(c.Context(), ask(b, &filesystem.GetWatcherEventsRequest{WatcherId: id}))
				require.NoError(c, err)
				for _, ev := range r.Msg.GetEvents() {
					seen = append(seen, ev.GetName()+" "+ev.GetType().String()[len("EVENT_TYPE_"):])
					if ev.GetType() == filesystem.EventType_EVENT_TYPE_CREATE && ev.GetEntry() != nil {
						seen = append(seen, "entry "+ev.GetEntry().GetPath())
					}
				}
				for _, w := range want {
					if !strings.Contains("\n"+strings.Join(seen, "\n")+"\n", "\n"+w+"\n") {
						return false
					}
				}
				return true
			}, patience, patience/2000, "%v of %v", want, &seen)
		}
		b.run("echo x > w/f; chmod 600 w/f; echo y > w/sub/g; mv w/f w/h; rm w/h; mkdir w/new")
		sawAll("f CREATE", "f WRITE", "f CHMOD", "sub/g CREATE", "f RENAME", "h CREATE", "h REMOVE", "new CREATE", "entry /home/user/w/new")
		b.run("touch w/new/deep")
		sawAll("new/deep CREATE")
		_, err = b.files().RemoveWatcher(c.Context(), ask(b, &filesystem.RemoveWatcherRequest{WatcherId: id}))
		require.NoError(c, err)
		_, err = b.files().GetWatcherEvents(c.Context(), ask(b, &filesystem.GetWatcherEventsRequest{WatcherId: id}))
		require.Equal(c, connect.CodeNotFound, connect.CodeOf(err))
		_, err = b.files().CreateWatcher(c.Context(), ask(b, &filesystem.CreateWatcherRequest{Path: "none"}))
		require.Equal(c, connect.CodeNotFound, connect.CodeOf(err))
		b.put("file", "")
		st, err := b.files().WatchDir(c.Context(), ask(b, &filesystem.WatchDirRequest{Path: "file"}))
		require.NoError(c, err)
		require.False(c, st.Receive())
		require.Equal(c, connect.CodeInvalidArgument, connect.CodeOf(st.Err()))
		_ = st.Close()
	})
}

// TestWatchedDirectoriesMove: what happens below one is told under the name that
// it has now, and one that went is let go.
func TestWatchedDirectoriesMove(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	require.NoError(t, b.mkdir("w/a/deep"))
	made, err := b.files().CreateWatcher(t.Context(), ask(b, &filesystem.CreateWatcherRequest{Path: "w", Recursive: true}))
	require.NoError(t, err)
	var seen []string
	until := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			r, err := b.files().GetWatcherEvents(t.Context(), ask(b, &filesystem.GetWatcherEventsRequest{WatcherId: made.Msg.GetWatcherId()}))
			require.NoError(t, err)
			for _, ev := range r.Msg.GetEvents() {
				seen = append(seen, ev.GetName()+" "+ev.GetType().String()[len("EVENT_TYPE_"):])
			}
			return slices.Contains(seen, want)
		}, patience, patience/2000, "%s, not %v", want, &seen)
	}
	require.NoError(t, b.run("mv w/a w/b").err)
	until("b CREATE")
	require.NoError(t, b.run("touch w/b/deep/f").err)
	until("b/deep/f CREATE")
	require.NoError(t, b.run("for i in 1 2 3 4 5; do mkdir w/gone$i; done").err)
	until("gone5 CREATE")
	require.NoError(t, b.run("rmdir w/gone*; rm -r w/b; mkdir w/b; touch w/last").err)
	until("last CREATE")
	require.NoError(t, b.run("touch w/b/again").err)
	until("b/again CREATE")
	require.Empty(t, openBelow(t, b.outside("/home/user/w"), " (deleted)"), "directories that went are not held open")
}

// openBelow lists the files that this process has open below a directory, of
// those whose names end so.
func openBelow(t *testing.T, dir, suffix string) (names []string) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, fd := range fds {
		if name, err := os.Readlink(fd); err == nil && strings.HasPrefix(name, dir) && strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	return names
}
