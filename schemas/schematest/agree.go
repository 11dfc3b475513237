package schematest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandjet/sandjet/internal/wire"
	"github.com/sandjet/sandjet/schemas"
)

// Written checks a type that Sandjet writes: beside what [Read] asks for,
// exactly the fields that are always written are required, so that readers may
// rely on them.
func Written[T any](t testing.TB, s *schemas.Schema) {
	t.Helper()
	agree[T](t, s, true)
}

// Read checks a type that Sandjet reads: schema and type have the same fields of
// the same types, a field without omitempty is required, and the examples pass
// through the type.
func Read[T any](t testing.TB, s *schemas.Schema) {
	t.Helper()
	agree[T](t, s, false)
}

func agree[T any](t testing.TB, s *schemas.Schema, written bool) {
	t.Helper()
	c := &comparison{written: written}
	c.compare(s.Name(), root(t, s), reflect.TypeFor[T]())
	c.faults = append(c.faults, roundTrip(s, reflect.TypeFor[T]())...)
	for _, f := range c.faults {
		t.Error(f)
	}
}

// comparison collects where a type and a schema differ.
type comparison struct {
	written bool
	faults  []string
}

func (c *comparison) fault(at, says string) { c.faults = append(c.faults, at+": "+says) }

var (
	durationType = reflect.TypeFor[wire.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
	rawType      = reflect.TypeFor[json.RawMessage]()
)

func (c *comparison) compare(at string, s schema, typ reflect.Type) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ == rawType:
		return // passed on as it is
	case typ == durationType:
		c.format(at, s, "go-duration")
		return
	case typ == timeType:
		c.format(at, s, "date-time")
		return
	}
	switch typ.Kind() {
	case reflect.Struct:
		c.isType(at, s, "object")
		c.fields(at, s, typ)
	case reflect.Map:
		c.isType(at, s, "object")
		c.inner(at+"/*", s, "additionalProperties", typ.Elem())
	case reflect.Slice:
		c.isType(at, s, "array")
		c.inner(at+"/0", s, "items", typ.Elem())
	case reflect.String:
		c.isType(at, s, "string")
	case reflect.Bool:
		c.isType(at, s, "boolean")
	case reflect.Float64:
		c.isType(at, s, "number")
	case reflect.Int, reflect.Int64:
		c.isType(at, s, "integer")
	case reflect.Uint64:
		c.isType(at, s, "integer")
		if low, ok := s.number("minimum"); !ok || low < 0 {
			c.fault(at, "Go's uint64 takes no negative number, the schema does")
		}
	default:
		c.fault(at, "schematest knows nothing of Go's "+typ.String())
	}
}

func (c *comparison) isType(at string, s schema, want string) {
	if got := s.typeName(); got != want {
		c.fault(at, "the schema wants "+got+", Go has "+want)
	}
}

func (c *comparison) format(at string, s schema, want string) {
	c.isType(at, s, "string")
	if got, _ := s.keyword("format").(string); got != want {
		c.fault(at, "the schema has format "+got+", Go needs "+want)
	}
}

func (c *comparison) inner(at string, s schema, keyword string, typ reflect.Type) {
	sub, ok := s.sub(keyword)
	if !ok {
		c.fault(at, "the schema says nothing of its "+keyword)
		return
	}
	c.compare(at, sub, typ)
}

func (c *comparison) fields(at string, s schema, typ reflect.Type) {
	props, required := s.properties(), s.required()
	for _, f := range fieldsOf(typ) {
		prop, ok := props[f.name]
		if !ok {
			c.fault(at, "Go has "+f.name+", the schema does not")
			continue
		}
		delete(props, f.name)
		must := slices.Contains(required, f.name)
		switch {
		case !f.omitted && !must:
			c.fault(at, "Go always writes "+f.name+", the schema does not require it")
		case f.omitted && must && c.written:
			c.fault(at, "the schema requires "+f.name+", Go may leave it out")
		}
		c.compare(at+"/"+f.name, prop, f.typ)
	}
	for name := range props {
		c.fault(at, "the schema has "+name+", Go does not")
	}
}

// field is a field of a Go struct as JSON has it.
type field struct {
	name    string
	typ     reflect.Type
	omitted bool // when empty
}

func fieldsOf(typ reflect.Type) []field {
	var out []field
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, fieldsOf(f.Type)...)
		case name != "-" && f.IsExported():
			if name == "" {
				name = f.Name
			}
			omitted := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
			out = append(out, field{name, f.Type, omitted})
		}
	}
	return out
}
