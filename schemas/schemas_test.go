package schemas_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/wire"
	"github.com/sandjet/sandjet/schemas"
)

func TestLookups(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		find func(string) (*schemas.Schema, bool)
		key  string
		want string // the schema's name; empty if there is none
	}{
		{"job", schemas.Job, "task.run", "jobs/task.run"},
		{"no such job", schemas.Job, "task.walk", ""},
		{"job by path", schemas.Job, "../events/dead", ""},
		{"event", schemas.Event, "claimed", "events/claimed"},
		{"session state by kind", schemas.Event, "state", "events/session.state"},
		{"session state by name", schemas.Event, "session.state", "events/session.state"},
		{"output is not JSON", schemas.Event, "stdout", ""},
		{"request", schemas.Request, "api.job.why", "query/job.why.request"},
		{"reply", schemas.Reply, "api.job.why", "query/job.why.reply"},
		{"no such question", schemas.Request, "api.job.how", ""},
		{"not a question", schemas.Request, "job.why", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, ok := tt.find(tt.key)
			require.Equal(t, tt.want != "", ok)
			if ok {
				require.Equal(t, tt.want, s.Name())
			}
		})
	}
}

// Every file compiles, says what dialect it is in and is called by its name.
func TestFilesNameThemselves(t *testing.T) {
	t.Parallel()
	require.Len(t, schemas.Names(), 9+15+28)
	for _, name := range append(schemas.Names(), "common") {
		doc := load(t, name)
		require.Equal(t, "https://json-schema.org/draft/2020-12/schema", doc["$schema"], name)
		require.Equal(t, "https://sandjet.dev/schemas/v1/"+name+".json", doc["$id"])
		require.NotEmpty(t, doc["title"], name)
		require.NotEmpty(t, doc["description"], name)
	}
}

// Nothing is left open by accident: an object either names its fields or says
// what its values are. The one exception is an event's payload that is passed
// on as it is.
func TestObjectsAreClosed(t *testing.T) {
	t.Parallel()
	for _, name := range append(schemas.Names(), "common") {
		eachSchema(load(t, name), "", func(at string, s map[string]any) {
			if s["type"] != "object" || name == "query/job.why.reply" && strings.HasSuffix(at, "/data") {
				return
			}
			require.NotNil(t, s["additionalProperties"], "%s%s takes unknown fields", name, at)
			require.NotEqual(t, true, s["additionalProperties"], "%s%s takes unknown fields", name, at)
		})
	}
}

// What the Go types and the schemas both say in a pattern is said alike.
func TestPatternsAreThoseOfWire(t *testing.T) {
	t.Parallel()
	defs := load(t, "common")["$defs"].(map[string]any)
	require.Equal(t, wire.IDPattern, defs["id"].(map[string]any)["pattern"])
	require.Equal(t, wire.IDPattern, defs["job_id"].(map[string]any)["pattern"])
	require.Equal(t, wire.ReservedJob, defs["job_id"].(map[string]any)["not"].(map[string]any)["const"])
	require.Equal(t, wire.DurationPattern, defs["duration"].(map[string]any)["pattern"])
}

func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	for _, name := range schemas.Names() {
		examples := load(t, name)["examples"].([]any)
		require.NotEmpty(t, examples, name)
		for i, example := range examples {
			require.NoError(t, byName(t, name).Validate(encode(t, example)), "%s, example %d", name, i)
		}
	}
}

// Together the examples of a schema show each of its fields once.
func TestExamplesShowEveryField(t *testing.T) {
	t.Parallel()
	for _, name := range schemas.Names() {
		doc := load(t, name)
		fields, _ := doc["properties"].(map[string]any)
		for field := range fields {
			shown := false
			for _, example := range doc["examples"].([]any) {
				_, has := example.(map[string]any)[field]
				shown = shown || has
			}
			require.True(t, shown, "%s: no example has %q", name, field)
		}
	}
}

// References lead to embedded files only.
func TestReferencesStayInside(t *testing.T) {
	t.Parallel()
	for _, name := range append(schemas.Names(), "common") {
		eachSchema(load(t, name), "", func(at string, s map[string]any) {
			ref, ok := s["$ref"].(string)
			if !ok {
				return
			}
			file, _, _ := strings.Cut(ref, "#")
			if file == "" {
				return
			}
			_, err := fs.Stat(schemas.Files(), path.Join(path.Dir(name), file))
			require.NoError(t, err, "%s%s refers to %s", name, at, ref)
		})
	}
}

func byName(t testing.TB, name string) *schemas.Schema {
	t.Helper()
	dir, file, _ := strings.Cut(name, "/")
	s, ok := schemas.Job(file)
	switch {
	case dir == "events":
		s, ok = schemas.Event(file)
	case strings.HasSuffix(file, ".request"):
		s, ok = schemas.Request("api." + strings.TrimSuffix(file, ".request"))
	case strings.HasSuffix(file, ".reply"):
		s, ok = schemas.Reply("api." + strings.TrimSuffix(file, ".reply"))
	}
	require.True(t, ok, name)
	require.Equal(t, name, s.Name())
	return s
}

func load(t testing.TB, name string) map[string]any {
	t.Helper()
	b, err := fs.ReadFile(schemas.Files(), name+".json")
	require.NoError(t, err)
	var doc map[string]any
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber() // sequences are longer than floats are exact
	require.NoError(t, dec.Decode(&doc))
	return doc
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

// eachSchema visits the schema objects in v, but not the examples.
func eachSchema(v any, at string, visit func(at string, s map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(at, v)
		for k, item := range v {
			if k != "examples" {
				eachSchema(item, at+"/"+k, visit)
			}
		}
	case []any:
		for _, item := range v {
			eachSchema(item, at, visit)
		}
	}
}
