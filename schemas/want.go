package schemas

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// want says the expected form of a value in plain words: the schema's own words
// where it has some, else what its keywords ask for.
func want(schemaURL string, k jsonschema.ErrorKind) string {
	s := rawAt(schemaURL)
	if words, ok := choice(s, k); ok {
		return words
	}
	if words, ok := s["x-want"].(string); ok {
		return "want " + words
	}
	return "want " + form(s, k)
}

// form puts the keyword that failed, and the one that belongs to it, in words.
func form(s map[string]any, k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return typeName(k.Want)
	case *kind.Const:
		return text(k.Want)
	case *kind.Enum:
		words := make([]string, 0, len(k.Want))
		for _, v := range k.Want {
			words = append(words, text(v))
		}
		return "one of " + list(words, "or")
	case *kind.Format:
		return "a " + k.Want
	case *kind.MinItems, *kind.MaxItems:
		return span(s["minItems"], s["maxItems"]) + " items"
	case *kind.MinProperties, *kind.MaxProperties:
		return span(s["minProperties"], s["maxProperties"]) + " entries"
	case *kind.MinLength, *kind.MaxLength:
		return span(s["minLength"], s["maxLength"]) + " characters"
	case *kind.Minimum, *kind.Maximum:
		return span(s["minimum"], s["maximum"])
	case *kind.Pattern:
		return "the form " + k.Want
	}
	return "another value"
}

func span(low, high any) string {
	switch {
	case low == nil:
		return "at most " + text(high)
	case high == nil:
		return "at least " + text(low)
	}
	return text(low) + " to " + text(high)
}

func typeName(types []string) string {
	names := map[string]string{
		"object": "an object", "array": "an array", "string": "a string", "integer": "an integer",
		"number": "a number", "boolean": "true or false", "null": "null",
	}
	words := make([]string, 0, len(types))
	for _, t := range types {
		words = append(words, names[t])
	}
	return strings.Join(words, " or ")
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// choice words a oneOf or a not over bare "required": fields that exclude each
// other. ok is false if the fault is another.
func choice(s map[string]any, k jsonschema.ErrorKind) (words string, ok bool) {
	switch k.(type) {
	case *kind.OneOf:
		var names []string
		branches, _ := s["oneOf"].([]any)
		for _, b := range branches {
			names = append(names, requiredOnly(b)...)
		}
		if len(names) == len(branches) {
			return "give exactly one of " + list(names, "and"), true
		}
	case *kind.Not:
		if names := requiredOnly(s["not"]); len(names) > 1 {
			return "give at most one of " + list(names, "and"), true
		}
	}
	return "", false
}

// requiredOnly returns the names of a schema that is nothing but "required".
func requiredOnly(v any) []string {
	s, _ := v.(map[string]any)
	list, _ := s["required"].([]any)
	if len(s) != 1 {
		return nil
	}
	var names []string
	for _, item := range list {
		if name, ok := item.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func missing(names []string) string {
	quoted := make([]string, 0, len(names))
	for _, n := range names {
		quoted = append(quoted, strconv.Quote(n))
	}
	if len(quoted) == 1 {
		return "missing field " + quoted[0]
	}
	return "missing fields " + list(quoted, "and")
}

func list(words []string, last string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// rawAt returns the schema object that a schema's location names, or nil.
func rawAt(schemaURL string) map[string]any {
	file, fragment, _ := strings.Cut(schemaURL, "#")
	v, err := raw(file)
	if err != nil {
		return nil
	}
	fragment, err = url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	for _, name := range strings.Split(fragment, "/")[1:] {
		name = unescapePointer.Replace(name)
		switch at := v.(type) {
		case map[string]any:
			v = at[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			v = at[i]
		}
	}
	s, _ := v.(map[string]any)
	return s
}
