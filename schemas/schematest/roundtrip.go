package schematest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/sandjet/sandjet/schemas"
)

// roundTrip reads each example of the schema into the type, writes it again and
// says what does not survive.
func roundTrip(s *schemas.Schema, typ reflect.Type) []string {
	var faults []string
	examples, _ := load(s.Name() + ".json")["examples"].([]any)
	if len(examples) == 0 {
		return []string{s.Name() + ": no examples"}
	}
	for i, example := range examples {
		at := fmt.Sprintf("%s, example %d", s.Name(), i)
		if err := through(s, typ, example); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", at, err))
		}
	}
	return faults
}

func through(s *schemas.Schema, typ reflect.Type, example any) error {
	doc, err := json.Marshal(example)
	if err != nil {
		return err
	}
	if err := s.Validate(doc); err != nil {
		return err
	}
	v := reflect.New(typ)
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v.Interface()); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	again, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if err := s.Validate(again); err != nil {
		return fmt.Errorf("as Go writes it, %s: %w", again, err)
	}
	var back any
	if err := json.Unmarshal(again, &back); err != nil {
		return err
	}
	return lost("", example, back)
}

// lost says what the second value lacks that the first has. Empty values may be
// left out.
func lost(at string, before, after any) error {
	switch before := before.(type) {
	case map[string]any:
		there, _ := after.(map[string]any)
		for name, v := range before {
			again, ok := there[name]
			if !ok && !empty(v) {
				return fmt.Errorf("%s/%s is lost", at, name)
			}
			if ok {
				if err := lost(at+"/"+name, v, again); err != nil {
					return err
				}
			}
		}
	case []any:
		there, _ := after.([]any)
		if len(there) != len(before) {
			return fmt.Errorf("%s has %d items, then %d", at, len(before), len(there))
		}
		for i := range before {
			if err := lost(fmt.Sprintf("%s/%d", at, i), before[i], there[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case json.Number:
		return v == "0"
	}
	return v == nil || v == "" || v == false
}

// Valid returns why a Go value, as it writes itself, is not of the schema.
func Valid(s *schemas.Schema, v any) error {
	doc, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := s.Validate(doc); err != nil {
		return fmt.Errorf("%s: %w", doc, err)
	}
	return nil
}
