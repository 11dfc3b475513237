package secret

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
)

// Handler masks the values of a Set in log records: in messages, names and
// attributes of every kind, also in those that a logger carries since before a
// value was known. It is used as the handlers of log/slog are.
type Handler struct {
	set  *Set
	bare slog.Handler // without what With added
	with []withStep

	ready atomic.Pointer[dressed]
}

// withStep is one call of WithGroup or WithAttrs.
type withStep struct {
	group string
	attrs []slog.Attr
}

// dressed is a handler with attributes masked by one state of the Set.
type dressed struct {
	by *automaton
	h  slog.Handler
}

// NewHandler returns a Handler that hands masked records to h.
func NewHandler(h slog.Handler, set *Set) *Handler { return &Handler{set: set, bare: h} }

// Enabled asks the handler below.
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.bare.Enabled(ctx, l) }

// Handle hands a masked record on.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if h.set.automaton().longest == 0 {
		return h.dressed().Handle(ctx, r)
	}
	out := slog.NewRecord(r.Time, r.Level, h.set.String(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.dressed().Handle(ctx, out)
}

// WithAttrs returns a Handler with attributes added.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	return h.step(withStep{attrs: attrs})
}

// WithGroup returns a Handler whose further attributes are in a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.step(withStep{group: name})
}

func (h *Handler) step(s withStep) *Handler {
	return &Handler{set: h.set, bare: h.bare, with: append(slices.Clip(h.with), s)}
}

// dressed returns the handler below with what With added, masked by the Set of now.
func (h *Handler) dressed() slog.Handler {
	if len(h.with) == 0 {
		return h.bare
	}
	now := h.set.automaton()
	if d := h.ready.Load(); d != nil && d.by == now {
		return d.h
	}
	below := h.bare
	for _, s := range h.with {
		if s.attrs == nil {
			below = below.WithGroup(h.set.String(s.group))
			continue
		}
		below = below.WithAttrs(h.attrs(s.attrs))
	}
	h.ready.Store(&dressed{by: now, h: below})
	return below
}

func (h *Handler) attrs(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = h.attr(a)
	}
	return out
}

// attr masks one attribute. What is not text is left as it is unless its text holds
// a value.
func (h *Handler) attr(a slog.Attr) slog.Attr {
	a.Key = h.set.String(a.Key)
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindGroup:
		a.Value = slog.GroupValue(h.attrs(a.Value.Group())...)
	case slog.KindBool, slog.KindTime, slog.KindDuration:
	case slog.KindAny:
		a.Value = h.any(a.Value)
	default:
		text := a.Value.String()
		if masked := h.set.String(text); masked != text {
			a.Value = slog.StringValue(masked)
		}
	}
	return a
}

// any masks a value of any type. Handlers print those in different ways, as text or
// as JSON: it is looked for in each.
func (h *Handler) any(v slog.Value) slog.Value {
	x := v.Any()
	texts := []string{fmt.Sprint(x), v.String(), asJSON(x)}
	if b, ok := x.([]byte); ok {
		texts = []string{string(b)}
	}
	for _, text := range texts {
		if masked := h.set.String(text); masked != text {
			return slog.StringValue(masked)
		}
	}
	return v
}

// asJSON is x as a handler may write it; nothing if it cannot.
func asJSON(x any) (text string) {
	defer func() { _ = recover() }() // a marshaler of x may not take what x is
	b, err := json.Marshal(x)
	if err != nil {
		return ""
	}
	return string(b)
}
