package schemas_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/nodetest"
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
// version that the lock file pins.
func asyncAPIParser(t *testing.T) string {
	t.Helper()
	dir := nodetest.Install(t, "asyncapi", os.DirFS(filepath.Join("..", ".ci", "asyncapi")))
	return filepath.Join(dir, "node_modules")
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
