package schemas

import (
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema judges the documents of one kind. It is compiled on first use and may
// be used concurrently.
type Schema struct {
	name     string
	compiled func() *compiled
}

// compiled is a schema in its two forms: the library's, which is the judge, and
// the plan of the quick look that most documents pass.
type compiled struct {
	judge *jsonschema.Schema
	plan  *plan
}

func newSchema(name string) *Schema {
	return &Schema{name: name, compiled: sync.OnceValue(func() *compiled {
		judge := compile(name)
		return &compiled{judge: judge, plan: newPlan(judge)}
	})}
}

// Name returns the schema's file name without the extension, as
// "jobs/task.run".
func (s *Schema) Name() string { return s.name }

// ID returns the schema's $id.
func (s *Schema) ID() string { return baseURL + s.name + ".json" }

// Validate reports whether doc is one JSON value of this schema. The error is
// an [*Error]. A valid document costs a single pass over its bytes; only one
// that does not pass is parsed and explained.
func (s *Schema) Validate(doc []byte) error {
	c := s.compiled()
	if c.plan.accepts(doc) {
		return nil
	}
	return c.explain(doc)
}

// explain is the judgement by the library. It returns nil for a document that
// the quick look was merely not sure of.
func (c *compiled) explain(doc []byte) error {
	v, err := parse(doc)
	if err != nil {
		return err
	}
	var all faults
	all.ofValidator(c.judge.Validate(v))
	all.ofWalk(c.judge, v, nil)
	if len(all) == 0 {
		return nil
	}
	return all.worst()
}

// Error says what is wrong with a document, in one line.
type Error struct {
	// Pointer is the JSON pointer of the fault: of the value that is wrong, of
	// the field that is unknown, or of the object that misses a field. It is
	// empty when the whole document is at fault.
	Pointer string
	// Reason says what is wrong, or the expected form in plain words. It quotes
	// no value of the document.
	Reason string
	// Malformed is true when the document is not JSON at all.
	Malformed bool
}

// Error returns the pointer and the reason.
func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Reason
	}
	return fmt.Sprintf("%s: %s", e.Pointer, e.Reason)
}
