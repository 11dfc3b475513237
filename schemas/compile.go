package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// baseURL is what the $id of every file begins with. It names the files; nobody
// fetches it.
const baseURL = "https://sandjet.dev/schemas/v1/"

// compiler is shared so that common.json is compiled once. It is not safe for
// concurrent use.
var (
	compilerMu sync.Mutex
	compiler   = sync.OnceValue(newCompiler)
)

func newCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.RegisterFormat(&jsonschema.Format{Name: "date-time", Validate: ifString(checkTime)})
	c.RegisterFormat(&jsonschema.Format{Name: "go-duration", Validate: ifString(checkDuration)})
	c.UseLoader(embedded{})
	return c
}

// compile panics on a schema that does not compile: the files are embedded, so
// that is a fault of the build which every test finds.
func compile(name string) *jsonschema.Schema {
	compilerMu.Lock()
	defer compilerMu.Unlock()
	return compiler().MustCompile(baseURL + name + ".json")
}

// embedded loads schemas from the embedded files and from nowhere else.
type embedded struct{}

func (embedded) Load(url string) (any, error) {
	doc, err := raw(url)
	if err != nil {
		return nil, err
	}
	return doc, nil
}

// raw returns a schema file as parsed JSON. Callers must not change it.
func raw(url string) (any, error) {
	name, ok := strings.CutPrefix(url, baseURL)
	if !ok {
		return nil, fmt.Errorf("schema %s is not one of ours", url)
	}
	if doc, ok := rawDocs.Load(name); ok {
		return doc, nil
	}
	b, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", url, err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", url, err)
	}
	rawDocs.Store(name, doc)
	return doc, nil
}

var rawDocs sync.Map // file name -> parsed JSON

func ifString(check func(string) error) func(any) error {
	return func(v any) error {
		if s, ok := v.(string); ok {
			return check(s)
		}
		return nil
	}
}

// checkTime accepts what time.Time reads from JSON, so that a document that
// passes here can be decoded.
func checkTime(s string) error {
	var t time.Time
	return t.UnmarshalText([]byte(s))
}

var errNegative = errors.New("negative duration")

func checkDuration(s string) error {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		return errNegative
	}
	return err
}
