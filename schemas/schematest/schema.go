package schematest

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/sandjet/sandjet/schemas"
)

// schema is a schema object of a file, with those that it refers to.
type schema struct {
	file string
	obj  map[string]any
}

func root(t testing.TB, s *schemas.Schema) schema {
	t.Helper()
	return schema{file: s.Name() + ".json", obj: load(s.Name() + ".json")}
}

// load reads a schema file. It panics if it cannot: the files are embedded.
func load(file string) map[string]any {
	b, err := fs.ReadFile(schemas.Files(), file)
	if err != nil {
		panic(err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		panic(err)
	}
	return doc
}

// refer follows $ref. ok is false if there is none.
func (s schema) refer() (to schema, ok bool) {
	ref, ok := s.obj["$ref"].(string)
	if !ok {
		return schema{}, false
	}
	file, pointer, _ := strings.Cut(ref, "#")
	to = schema{file: s.file, obj: load(s.file)}
	if file != "" {
		to.file = path.Join(path.Dir(s.file), file)
		to.obj = load(to.file)
	}
	for _, name := range strings.Split(pointer, "/") {
		if name != "" {
			to.obj, _ = to.obj[name].(map[string]any)
		}
	}
	return to, true
}

// keyword returns a keyword of s, or else of the schema it refers to.
func (s schema) keyword(name string) any {
	if v, ok := s.obj[name]; ok {
		return v
	}
	if to, ok := s.refer(); ok {
		return to.keyword(name)
	}
	return nil
}

func (s schema) number(name string) (float64, bool) {
	n, ok := s.keyword(name).(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// typeName is the type, or that of the words an enum consists of.
func (s schema) typeName() string {
	if name, ok := s.keyword("type").(string); ok {
		return name
	}
	words, _ := s.keyword("enum").([]any)
	for _, w := range words {
		if _, ok := w.(string); !ok {
			return "anything"
		}
	}
	if len(words) > 0 {
		return "string"
	}
	return "anything"
}

// sub returns the schema below a keyword.
func (s schema) sub(keyword string) (schema, bool) {
	if obj, ok := s.obj[keyword].(map[string]any); ok {
		return schema{file: s.file, obj: obj}, true
	}
	if to, ok := s.refer(); ok {
		return to.sub(keyword)
	}
	return schema{}, false
}

// properties are those of the schema that s refers to, and its own. Where both
// have one, s only narrows it.
func (s schema) properties() map[string]schema {
	out := make(map[string]schema)
	if own, ok := s.obj["properties"].(map[string]any); ok {
		for name, v := range own {
			if obj, ok := v.(map[string]any); ok {
				out[name] = schema{file: s.file, obj: obj}
			}
		}
	}
	if to, ok := s.refer(); ok {
		maps.Copy(out, to.properties())
	}
	return out
}

func (s schema) required() []string {
	var out []string
	own, _ := s.obj["required"].([]any)
	for _, v := range own {
		if name, ok := v.(string); ok {
			out = append(out, name)
		}
	}
	if to, ok := s.refer(); ok {
		out = append(out, to.required()...)
	}
	return out
}
