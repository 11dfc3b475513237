package schemas

// plan is a schema made ready for one quick pass over a document's bytes. It
// knows only how to be sure that a document is valid: what it cannot tell, or
// has no idea of, goes to the library, which alone finds fault. For the body of
// a run the library needs 237 allocations, more than all else that becomes of a
// short job; the quick look needs one, and a tenth of the time.
type plan struct {
	never bool    // has a keyword that the quick look does not know
	also  []*plan // have to hold as well: what the schema refers to

	types uint8 // typeString | …; 0 for all

	// strings
	minLength, maxLength int // maxLength < 0: none
	match                func(string) bool
	formatted            func(string) error
	oneOf                []string // the enum or const, of strings only
	not                  *plan    // strings only: a const or a pattern it may not be

	// integers
	min *int64
	max *uint64

	// arrays
	minItems, maxItems int
	first              []*plan // the items that have a plan of their own
	items              *plan

	// objects
	fields   map[string]*field
	names    *plan // what names look like
	others   *plan // fields not in fields; nil if there may be none
	maxNames int
	required uint64   // sets of fields, a bit each
	exactly  []uint64 // exactly one of these sets is there in full
	together uint64   // a set that may not be there in full
}

// field is a property of an object and its bit in sets of fields.
type field struct {
	bit  uint64
	plan *plan
}

// The types of JSON.
const (
	typeNull uint8 = 1 << iota
	typeBool
	typeInteger
	typeNumber
	typeString
	typeArray
	typeObject
)

var typeBits = map[string]uint8{
	"null": typeNull, "boolean": typeBool, "integer": typeInteger, "number": typeNumber | typeInteger,
	"string": typeString, "array": typeArray, "object": typeObject,
}

// anything is the plan of a value that may be anything.
var anything = func() *plan {
	p := &plan{maxLength: -1, maxItems: -1, maxNames: -1}
	p.others, p.items = p, p
	return p
}()

// bare reports whether p asks for nothing at all, but for what it refers to.
func (p *plan) bare() bool {
	return !p.never && p.types == 0 && !p.aboutStrings() && p.not == nil &&
		p.min == nil && p.max == nil && p.minItems == 0 && p.maxItems < 0 && p.first == nil && p.items == anything &&
		p.fields == nil && p.names == nil && p.others == anything && p.maxNames < 0 && p.required == 0 &&
		p.exactly == nil && p.together == 0
}

func (p *plan) aboutStrings() bool {
	return p.minLength > 0 || p.maxLength >= 0 || p.match != nil || p.formatted != nil || p.oneOf != nil
}
