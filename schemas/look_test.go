package schemas

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The quick look must never take what the library refuses, and should take what
// is sent every day.

func TestQuickLookTakesExamples(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		for i, example := range examples(t, name) {
			// Fractions and the longest sequences are left to the library.
			if s := string(example); strings.Contains(s, "12.5") || strings.Contains(s, "18446744073709551615") {
				continue
			}
			require.True(t, lookFor(t, name).compiled().plan.accepts(example), "%s, example %d: %s", name, i, example)
		}
	}
}

// Every example is changed in each of its places in each of a number of ways;
// what the quick look takes the library takes too.
func TestQuickLookAgreesWithTheLibrary(t *testing.T) {
	t.Parallel()
	taken, all := 0, 0
	for _, name := range Names() {
		c := lookFor(t, name).compiled()
		for _, example := range examples(t, name) {
			var v any
			require.NoError(t, json.Unmarshal(example, &v))
			for _, doc := range mutants(v) {
				all++
				if !c.plan.accepts(doc) {
					continue
				}
				taken++
				if err := c.explain(doc); err != nil {
					t.Fatalf("%s: the quick look takes %s, but: %v", name, doc, err)
				}
			}
		}
	}
	require.Greater(t, taken, 1000)
	require.Greater(t, all-taken, 10_000)
}

// mutants returns v as JSON with one thing changed, for every thing.
func mutants(v any) [][]byte {
	var out [][]byte
	root := v
	var walk func(at any, put func(any))
	walk = func(at any, put func(any)) {
		for _, other := range others {
			put(json.RawMessage(other))
			if b, err := json.Marshal(root); err == nil {
				out = append(out, b)
			}
		}
		put(at)
		switch at := at.(type) {
		case map[string]any:
			for k, item := range at {
				delete(at, k)
				b, _ := json.Marshal(root)
				out = append(out, b)
				at[k] = item
				walk(item, func(x any) { at[k] = x })
				twice, _ := json.Marshal(root)
				out = append(out, []byte(strings.Replace(string(twice), fmt.Sprintf("%q:", k), fmt.Sprintf("%q:null,%[1]q:", k), 1)))
			}
			for _, k := range []string{"nonsense", "id", "delay", "run_after", "shell", "1A", "A b", "é", "session", strings.Repeat("k", 300)} {
				if _, has := at[k]; has {
					continue
				}
				for _, x := range []string{`"1s"`, `""`, `1`, `{}`} {
					at[k] = json.RawMessage(x)
					b, _ := json.Marshal(root)
					out = append(out, b)
				}
				delete(at, k)
			}
		case []any:
			for i, item := range at {
				walk(item, func(x any) { at[i] = x })
			}
		}
	}
	walk(v, func(x any) { root = x })
	return out
}

// others are values to put in place of another: of each type, and at the edges
// of what the schemas ask for.
var others = []string{
	`null`, `true`, `false`, `{}`, `[]`, `[""]`, `["a"]`, `["a",1]`, `[256]`, `{"a":"b"}`, `{"A":"b","1":"c"}`, `{"a":1}`,
	`0`, `-0`, `1`, `-1`, `2`, `100`, `101`, `255`, `256`, `1000`, `1001`, `1.0`, `1.5`, `1e2`, `9223372036854775807`,
	`9223372036854775808`, `18446744073709551615`, `18446744073709551616`, `-9223372036854775808`, `1e400`,
	`""`, `"a"`, `"A"`, `"1"`, `"a b"`, `"a\n"`, `"\u0000"`, `"é"`, `"\ud800"`, `"session"`, `"SESSION"`, `"-x"`, `"ok"`,
	`"1s"`, `"-1s"`, `"1"`, `"1.5h"`, `"99999999h"`, `"1µs"`, `"1μs"`, `"2026-01-02T15:04:05Z"`, `"2026-02-30T15:04:05Z"`,
	`"2026-01-02t15:04:05z"`, `"2026-06-30T23:59:60Z"`, `"644"`, `"0644"`, `"06444"`, `"00644"`, `"999"`,
	`"https://a/b"`, `"https://a@b/c"`, `"ssh://a@b/c"`, `"ssh://a:b@c/d"`, `"active"`, `"lane"`, `"done"`, `"requested"`,
	`"` + strings.Repeat("x", 64) + `"`, `"` + strings.Repeat("x", 65) + `"`, `"` + strings.Repeat("é", 128) + `"`,
	`"` + strings.Repeat("x", 256) + `"`, `"` + strings.Repeat("é", 257) + `"`,
}

// FuzzValidate feeds any bytes to any schema: no panic, no disagreement with
// the library, and a fault is one line.
func FuzzValidate(f *testing.F) {
	names := Names()
	for i, name := range names {
		for _, example := range examples(f, name) {
			f.Add(i, []byte(example))
		}
	}
	for _, doc := range []string{"", "{", "[[[[", `{"a":1e999}`, `{"a":-0}`, "\xff", `{"\u0000":"\ud800"}`, `{"argv":["a"],"argv":1}`} {
		f.Add(0, []byte(doc))
	}
	f.Fuzz(func(t *testing.T, i int, doc []byte) {
		s := lookFor(t, names[(i%len(names)+len(names))%len(names)])
		err := s.Validate(doc)
		if slow := s.compiled().explain(doc); (err == nil) != (slow == nil) {
			t.Fatalf("%s: %q: the quick look says %v, the library %v", s.Name(), doc, err, slow)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\r\n\x00") {
			t.Fatalf("%s: %q: %q is not one line", s.Name(), doc, err)
		}
		if err == nil && !json.Valid(doc) {
			t.Fatalf("%s: %q is no JSON", s.Name(), doc)
		}
	})
}

func lookFor(t testing.TB, name string) *Schema {
	t.Helper()
	s, ok := lookup(name)
	require.True(t, ok, name)
	return s
}

func examples(t testing.TB, name string) []json.RawMessage {
	t.Helper()
	b, err := files.ReadFile(name + ".json")
	require.NoError(t, err)
	var doc struct{ Examples []json.RawMessage }
	require.NoError(t, json.Unmarshal(b, &doc))
	return doc.Examples
}
