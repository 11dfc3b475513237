package schemas

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// fault is one thing that is wrong with a document.
type fault struct {
	rank   rank
	at     []string
	reason string
}

// rank orders faults by how likely one of them explains the others: a misspelt
// field also makes the right one missing, and a wrong value says more than the
// alternatives it rules out.
type rank int

const (
	unknownField rank = iota
	wrongValue
	missingField
	wrongChoice
)

type faults []fault

// worst returns the fault to report: the first rank, the deepest place, then
// the first pointer, so that the same document always gets the same answer.
func (all faults) worst() *Error {
	f := slices.MinFunc(all, func(a, b fault) int {
		return cmp.Or(
			cmp.Compare(a.rank, b.rank),
			cmp.Compare(len(b.at), len(a.at)),
			slices.Compare(a.at, b.at),
			cmp.Compare(a.reason, b.reason),
		)
	})
	return &Error{Pointer: pointer(f.at), Reason: f.reason}
}

// ofValidator collects the leaves of the validator's tree of causes.
func (all *faults) ofValidator(err error) {
	var ve *jsonschema.ValidationError
	if errors.As(err, &ve) {
		all.ofCause(ve)
	}
}

func (all *faults) ofCause(e *jsonschema.ValidationError) {
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			all.add(unknownField, append(slices.Clip(e.InstanceLocation), name), unknown(e.SchemaURL, name))
		}
	case *kind.Required:
		all.add(missingField, e.InstanceLocation, missing(k.Missing))
	case *kind.OneOf, *kind.Not:
		r := wrongChoice
		if _, ok := choice(rawAt(e.SchemaURL), k); !ok {
			r = wrongValue
		}
		all.add(r, e.InstanceLocation, want(e.SchemaURL, e.ErrorKind))
	case *kind.PropertyNames:
		// The library's location of this one may be another's: it is not copied.
		// ofWalk finds the name itself.
	default:
		if len(e.Causes) == 0 {
			all.add(wrongValue, e.InstanceLocation, want(e.SchemaURL, e.ErrorKind))
		}
		for _, cause := range e.Causes {
			all.ofCause(cause)
		}
	}
}

func (all *faults) add(r rank, at []string, reason string) {
	*all = append(*all, fault{rank: r, at: slices.Clone(at), reason: reason})
}

// ofWalk collects what the validator does not say, or not well: names of an
// object that are not in their form, and 1.0 or 1e2 for an integer, which JSON
// Schema takes and Go's decoder does not.
func (all *faults) ofWalk(s *jsonschema.Schema, v any, at []string) {
	if s == nil {
		return
	}
	for _, other := range referred(s) {
		all.ofWalk(other, v, at)
	}
	switch v := v.(type) {
	case json.Number:
		if wantsInteger(s) && (strings.ContainsAny(string(v), ".eE") || v == "-0") {
			all.add(wrongValue, at, "want an integer without fraction, exponent or empty sign")
		}
	case map[string]any:
		for name, item := range v {
			here := append(slices.Clip(at), name)
			if s.PropertyNames != nil && s.PropertyNames.Validate(name) != nil {
				all.add(wrongValue, here, want(deref(s.PropertyNames).Location, nil))
			}
			all.ofWalk(member(s, name), item, here)
		}
	case []any:
		for i, item := range v {
			all.ofWalk(s.Items2020, item, append(slices.Clip(at), strconv.Itoa(i)))
		}
	}
}

func member(s *jsonschema.Schema, name string) *jsonschema.Schema {
	if p, ok := s.Properties[name]; ok {
		return p
	}
	p, _ := s.AdditionalProperties.(*jsonschema.Schema)
	return p
}

func deref(s *jsonschema.Schema) *jsonschema.Schema {
	for s.Ref != nil {
		s = s.Ref
	}
	return s
}

func wantsInteger(s *jsonschema.Schema) bool {
	return s.Types != nil && slices.Contains(s.Types.ToStrings(), "integer")
}

// pointer renders a place as a JSON pointer of one line: control characters are
// escaped as in a JSON string, and a name of absurd length is cut short.
func pointer(at []string) string {
	var b strings.Builder
	for _, name := range at {
		b.WriteByte('/')
		b.WriteString(tame(escapePointer.Replace(clip(name))))
	}
	return b.String()
}

var (
	escapePointer   = strings.NewReplacer("~", "~0", "/", "~1")
	unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
)

// maxName is how many bytes of a field's name are worth repeating.
const maxName = 100

func clip(name string) string {
	if len(name) <= maxName {
		return name
	}
	n := maxName
	for !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n] + "…"
}

// tame escapes what would break the line or hide in it.
func tame(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}
