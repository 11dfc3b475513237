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

// refers lists the schemas that s refers to, by $ref or allOf.
func (s schema) refers() []schema {
	var out []schema
	if ref, ok := s.obj["$ref"].(string); ok {
		out = append(out, s.resolve(ref))
	}
	all, _ := s.obj["allOf"].([]any)
	for _, v := range all {
		if obj, ok := v.(map[string]any); ok {
			out = append(out, schema{file: s.file, obj: obj})
		}
	}
	return out
}

func (s schema) resolve(ref string) schema {
	file, pointer, _ := strings.Cut(ref, "#")
	to := s.file
	if file != "" {
		to = path.Join(path.Dir(s.file), file)
	}
	obj := load(to)
	for _, name := range strings.Split(pointer, "/") {
		if name != "" {
			obj, _ = obj[name].(map[string]any)
		}
	}
	return schema{file: to, obj: obj}
}

// keyword returns a keyword of s, or else of a schema it refers to.
func (s schema) keyword(name string) any {
	if v, ok := s.obj[name]; ok {
		return v
	}
	for _, to := range s.refers() {
		if v := to.keyword(name); v != nil {
			return v
		}
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
	for _, to := range s.refers() {
		if sub, ok := to.sub(keyword); ok {
			return sub, true
		}
	}
	return schema{}, false
}

// properties are those of the schemas that s refers to, and its own. Where both
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
	for _, to := range s.refers() {
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
	for _, to := range s.refers() {
		out = append(out, to.required()...)
	}
	return out
}
