package schemas

import (
	"math/big"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// newPlan makes the plan of a compiled schema.
func newPlan(s *jsonschema.Schema) *plan {
	return (&planner{done: make(map[*jsonschema.Schema]*plan)}).plan(s)
}

// planner makes one plan of each schema, however often it is referred to.
type planner struct {
	done map[*jsonschema.Schema]*plan
}

func (pl *planner) plan(s *jsonschema.Schema) *plan {
	if p, ok := pl.done[s]; ok {
		return p
	}
	p := &plan{maxLength: -1, maxItems: -1, maxNames: -1}
	pl.done[s] = p
	if s.Bool != nil {
		if *s.Bool {
			pl.done[s] = anything
			return anything
		}
		p.never = true
		return p
	}
	p.never = hasMore(s)
	for _, other := range referred(s) {
		if q := pl.plan(other); q != anything {
			p.also = append(p.also, q)
		}
	}
	if s.Types != nil {
		for _, t := range s.Types.ToStrings() {
			p.types |= typeBits[t]
		}
	}
	pl.forStrings(p, s)
	pl.forNumbers(p, s)
	pl.forArrays(p, s)
	pl.forObjects(p, s)
	if p.bare() {
		// A reference with nothing but words beside it: one look instead of two.
		switch len(p.also) {
		case 0:
			pl.done[s] = anything
		case 1:
			pl.done[s] = p.also[0]
		}
	}
	return pl.done[s]
}

// referred lists the schemas that have to hold beside s.
func referred(s *jsonschema.Schema) []*jsonschema.Schema {
	if s.Ref == nil {
		return s.AllOf
	}
	return append([]*jsonschema.Schema{s.Ref}, s.AllOf...)
}

// hasMore reports whether s has a keyword that plans do not know.
func hasMore(s *jsonschema.Schema) bool {
	return s.RecursiveRef != nil || s.DynamicRef != nil || len(s.AnyOf) > 0 ||
		s.If != nil || s.Then != nil || s.Else != nil ||
		s.MinProperties != nil || len(s.PatternProperties) > 0 || len(s.Dependencies) > 0 ||
		len(s.DependentRequired) > 0 || len(s.DependentSchemas) > 0 || s.UnevaluatedProperties != nil ||
		s.UniqueItems || s.Contains != nil || s.Items != nil || s.AdditionalItems != nil || s.UnevaluatedItems != nil ||
		s.ExclusiveMaximum != nil || s.ExclusiveMinimum != nil || s.MultipleOf != nil || len(s.Extensions) > 0
}

func (pl *planner) forStrings(p *plan, s *jsonschema.Schema) {
	if s.MinLength != nil {
		p.minLength = *s.MinLength
	}
	if s.MaxLength != nil {
		p.maxLength = *s.MaxLength
	}
	if s.Pattern != nil {
		p.match = matcher(s.Pattern)
	}
	if s.Format != nil {
		switch s.Format.Name {
		case "date-time":
			p.formatted = checkTime
		case "go-duration":
			p.formatted = checkDuration
		default:
			p.never = true
		}
	}
	var words []any
	if s.Enum != nil {
		words = s.Enum.Values
		p.never = p.never || len(words) == 0
	}
	if s.Const != nil {
		words = append(slices.Clone(words), *s.Const)
		p.never = p.never || s.Enum != nil
	}
	for _, w := range words {
		switch w := w.(type) {
		case string:
			p.oneOf = append(p.oneOf, w)
		default:
			pl.forNumber(p, s, w)
		}
	}
	p.not = pl.notString(p, s.Not)
}

// notString plans a "not" over a string. That over fields is forObjects'.
func (pl *planner) notString(p *plan, not *jsonschema.Schema) *plan {
	if not == nil || len(not.Required) > 0 {
		return nil
	}
	q := pl.plan(not)
	// Anything but a pattern or a word alone could be true of what is no string.
	if q.never || q.also != nil || q.types != 0 || (q.match == nil) == (q.oneOf == nil) {
		p.never = true
	}
	return q
}

// forNumber plans a const that is a number, as the bounds it amounts to.
func (pl *planner) forNumber(p *plan, s *jsonschema.Schema, w any) {
	n, ok := new(big.Rat).SetString(text(w))
	if !ok || s.Const == nil || p.min != nil || s.Minimum != nil || s.Maximum != nil || p.types != typeInteger {
		p.never = true
		return
	}
	p.bounds(n, n)
}

func (pl *planner) forNumbers(p *plan, s *jsonschema.Schema) {
	if s.Minimum != nil || s.Maximum != nil {
		p.bounds(s.Minimum, s.Maximum)
	}
}

func (p *plan) bounds(low, high *big.Rat) {
	if low != nil {
		if !low.IsInt() || !low.Num().IsInt64() {
			p.never = true
			return
		}
		n := low.Num().Int64()
		p.min = &n
	}
	if high != nil {
		if !high.IsInt() || !high.Num().IsUint64() {
			p.never = true
			return
		}
		n := high.Num().Uint64()
		p.max = &n
	}
}

func (pl *planner) forArrays(p *plan, s *jsonschema.Schema) {
	if s.MinItems != nil {
		p.minItems = *s.MinItems
	}
	if s.MaxItems != nil {
		p.maxItems = *s.MaxItems
	}
	for _, item := range s.PrefixItems {
		p.first = append(p.first, pl.plan(item))
	}
	p.items = anything
	if s.Items2020 != nil {
		p.items = pl.plan(s.Items2020)
	}
}

func (pl *planner) forObjects(p *plan, s *jsonschema.Schema) {
	if s.MaxProperties != nil {
		p.maxNames = *s.MaxProperties
	}
	if s.PropertyNames != nil {
		p.names = pl.plan(s.PropertyNames)
	}
	switch more := s.AdditionalProperties.(type) {
	case *jsonschema.Schema:
		p.others = pl.plan(more)
	case bool:
		if more {
			p.others = anything
		}
	default:
		p.others = anything
	}
	for name, sub := range s.Properties {
		if p.fields == nil {
			p.fields = make(map[string]*field, len(s.Properties))
		}
		p.fields[name] = &field{bit: 1 << len(p.fields), plan: pl.plan(sub)}
	}
	p.never = p.never || len(p.fields) > 64
	p.required = p.set(s.Required)
	for _, branch := range s.OneOf {
		p.exactly = append(p.exactly, p.setOf(branch))
	}
	if s.Not != nil && len(s.Not.Required) > 0 {
		p.together = p.setOf(s.Not)
	}
}

// setOf is the set of a schema that is nothing but "required". With anything
// else in it the quick look cannot tell.
func (p *plan) setOf(s *jsonschema.Schema) uint64 {
	rest := *s
	rest.Required = nil
	if len(s.Required) == 0 || newPlan(&rest) != anything {
		p.never = true
	}
	return p.set(s.Required)
}

// set turns names into bits. A name that is no property of the schema has none:
// then the quick look cannot tell.
func (p *plan) set(names []string) uint64 {
	var bits uint64
	for _, name := range names {
		f, ok := p.fields[name]
		if !ok {
			p.never = true
			continue
		}
		bits |= f.bit
	}
	return bits
}

// matcher returns what decides a pattern: by hand for the three that the hot
// path meets most, else by the regular expression.
func matcher(pattern jsonschema.Regexp) func(string) bool {
	if by, ok := byHand[pattern.String()]; ok {
		return by
	}
	return pattern.MatchString
}
