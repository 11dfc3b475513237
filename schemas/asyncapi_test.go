package schemas_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/schemas"
)

// understood is what AsyncAPI's parser makes of a document.
type understood struct {
	Diagnostics []struct {
		Error         bool
		Line          int
		Path, Message string
	}
	Channels []struct {
		Address    string
		Operations []string
		Messages   []struct{ ID, Schema string }
	}
}

func (u understood) errors() []string {
	var out []string
	for _, d := range u.Diagnostics {
		if d.Error {
			out = append(out, d.Path+": "+d.Message)
		}
	}
	return out
}

// AsyncAPI's own parser finds no error in the document, and every schema is the
// payload of a message on the channel where it belongs.
func TestAsyncAPI(t *testing.T) {
	t.Parallel()
	doc := describe(t, asyncAPIParser(t), "asyncapi.yaml")[0]
	require.Empty(t, doc.errors())

	found := make(map[string]string) // address and message to the payload's schema
	for _, c := range doc.Channels {
		for _, m := range c.Messages {
			found[c.Address+" "+m.ID] = m.Schema
		}
		if c.Address != "" { // the reply's own
			require.NotEmpty(t, c.Operations, "nothing happens on %s", c.Address)
		}
	}
	for _, name := range schemas.Names() {
		require.Equal(t, "https://sandjet.dev/schemas/v1/"+name+".json", found[place(name)], "%s", place(name))
	}
	for _, other := range []string{
		"event.{session}.{job}.stdout stdout", "event.{session}.{job}.stderr stderr", "dead.{kind}.{job} letter", "audit.> record", " error",
	} {
		require.Contains(t, found, other)
	}
}

// place is the address and the message of a schema.
func place(name string) string {
	dir, kind, _ := strings.Cut(name, "/")
	question, isRequest := strings.CutSuffix(kind, ".request")
	switch {
	case dir == "jobs":
		return "{priority}" + kind + "{owner} " + kind
	case kind == "session.state":
		return "event.{session}.session.state session.state"
	case dir == "events":
		return "event.{session}.{job}." + kind + " " + kind
	case isRequest:
		return "api." + question + "{owner} request"
	}
	return " " + strings.TrimSuffix(kind, ".reply")
}

// The check is worth something only if a broken document does not pass.
func TestAsyncAPIParserSeesFaults(t *testing.T) {
	t.Parallel()
	parser := asyncAPIParser(t)
	whole, err := fs.ReadFile(schemas.Files(), "asyncapi.yaml")
	require.NoError(t, err)
	changes := [][2]string{
		{"./jobs/task.run.json", "./jobs/task.walk.json"},
		{"action: receive", "action: listen"},
		{"'#/components/messages/job.task.run'", "'#/components/messages/nothing'"},
	}
	var files []string
	for _, change := range changes {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, schemas.Files()))
		file := filepath.Join(dir, "asyncapi.yaml")
		broken := strings.Replace(string(whole), change[0], change[1], 1)
		require.NotEqual(t, string(whole), broken)
		require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))
		files = append(files, file)
	}
	for i, doc := range describe(t, parser, files...) {
		require.NotEmpty(t, doc.errors(), "%s goes unseen", changes[i][1])
	}
}

// describe runs the parser over documents.
func describe(t *testing.T, modules string, files ...string) []understood {
	t.Helper()
	args := append([]string{filepath.Join("testdata", "asyncapi", "describe.cjs")}, files...)
	cmd := exec.CommandContext(t.Context(), "node", args...)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var all []understood
	require.NoError(t, json.Unmarshal(out, &all))
	require.Len(t, all, len(files))
	return all
}

// asyncAPIParser returns the folder of node modules that has the parser, in the
// version that the lock file pins. It is installed once, into the user's cache.
func asyncAPIParser(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, "%s is not on PATH", tool)
		}
	}
	pins := filepath.Join("..", ".ci", "asyncapi")
	lock, err := os.ReadFile(filepath.Join(pins, "package-lock.json"))
	require.NoError(t, err)
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "sandjet", "asyncapi-"+hex.EncodeToString(sum[:6]))
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	install(t, pins, dir)
	return modules
}

// install puts the modules into dir. It works beside it and renames, so that
// two tests, or one that was cut off, leave nothing half done.
func install(t *testing.T, pins, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o755))
	work, err := os.MkdirTemp(filepath.Dir(dir), "install-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(work) })
	for _, name := range []string{"package.json", "package-lock.json"} {
		b, err := os.ReadFile(filepath.Join(pins, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(work, name), b, 0o600))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(t, "npm ci: %v: %s", err, out)
	}
	if err := os.Rename(work, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		_, there := os.Stat(dir) // somebody else was quicker
		require.NoError(t, there, err)
	}
}

func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_REAL") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Without node: every schema file is named in the document.
func TestAsyncAPINamesEverySchema(t *testing.T) {
	t.Parallel()
	doc, err := fs.ReadFile(schemas.Files(), "asyncapi.yaml")
	require.NoError(t, err)
	lines := strings.Split(string(doc), "\n")
	for _, name := range schemas.Names() {
		ref := "        $ref: ./" + name + ".json"
		require.True(t, slices.Contains(lines, ref), "no %s", ref)
	}
}
