package secret

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What a stream is made of does not change how it is masked: any values, any text
// of their forms and parts of those, cut anywhere.
func TestAnyStreamIsMaskedAsAWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(genValue(), 1, 4).Draw(t, "values")
		set := new(Set)
		for i, v := range values {
			if err := set.Add(fmt.Sprint("s", i), NewValue(v)); err != nil {
				t.Fatal(err)
			}
		}
		if rapid.Bool().Draw(t, "shapes") {
			set.MaskShapes()
		}
		var text strings.Builder
		for range rapid.IntRange(1, 6).Draw(t, "pieces") {
			text.WriteString(genPiece(values).Draw(t, "piece"))
		}
		cuts := rapid.SliceOfN(rapid.IntRange(0, 40), 0, 30).Draw(t, "cuts")
		checkStream(t, set, values, []byte(text.String()), cuts)
	})
}

// genValue draws secrets that begin alike, contain each other and need escapes.
func genValue() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[ab]{6,12}`),
		rapid.StringMatching(`(ghp_|e2b_)[a-c0-1]{6,40}`),
		rapid.StringMatching(`[a%+\\"/ \n<é€]{6,16}`),
		rapid.StringMatching(`[A-Za-z0-9+/]{60,130}`),
		rapid.StringMatching(`[a-b]{9}\n[a-b]{9}(\r\n[0-1]{3,9}){0,2}`),
	)
}

func genPiece(values []string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return rapid.StringMatching(`[ab%u0-9\\+/\n ]{0,30}`).Draw(t, "noise")
		case 1:
			return string(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes"))
		}
		enc := rapid.SampledFrom(encoders).Draw(t, "encoder")
		lead := rapid.StringMatching(`[a-c]{0,3}`).Draw(t, "lead")
		trail := rapid.StringMatching(`[a-c]{0,3}`).Draw(t, "trail")
		s := enc.encode(lead + rapid.SampledFrom(values).Draw(t, "value") + trail)
		if rapid.Bool().Draw(t, "part") {
			from := rapid.IntRange(0, len(s)).Draw(t, "from")
			s = s[from:rapid.IntRange(from, len(s)).Draw(t, "to")]
		}
		return s
	})
}

// checkStream holds a stream against the promises.
func checkStream(t require.TestingT, set *Set, values []string, text []byte, cuts []int) {
	before := bytes.Clone(text)
	whole := set.Bytes(text)
	require.Equal(t, before, text, "the text is not changed")
	require.Len(t, whole, len(text))

	var out bytes.Buffer
	w := NewWriter(&out, set)
	rest, written := text, 0
	for i := 0; len(rest) > 0; i++ {
		n := len(rest)
		if i < len(cuts) {
			n = min(n, cuts[i])
		}
		_, err := w.Write(rest[:n])
		require.NoError(t, err)
		rest, written = rest[n:], written+n
		require.Equal(t, written-out.Len(), w.Held())
	}
	require.NoError(t, w.Flush())
	require.Equal(t, string(whole), out.String())

	for _, v := range values {
		for _, enc := range encoders {
			if form := strings.TrimRight(enc.encode(v), "="); strings.Trim(form, "\r\n*") != "" {
				require.False(t, shows(out.String(), form), "%s: %q in %q", enc.name, form, out.String())
			}
		}
	}
	for i, b := range out.Bytes() {
		require.True(t, b == text[i] || b == '*', "byte %d became %q", i, b)
	}
}

// shows reports whether text has a form of a value in it. An escaped form whose
// first bytes are a part of an escape before it, as in 50%%61 or C:\\x61, reads as
// something else and is none.
func shows(text, form string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], form)
		if i < 0 {
			return false
		}
		if !strings.ContainsAny(form, `\%+`) || !begunEscape.MatchString(text[:from+i]) {
			return true
		}
		from += i + 1
	}
}

var begunEscape = regexp.MustCompile(`(%[0-9a-fA-F]?|(^|[^\\])(\\\\)*\\(u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?)$`)

func FuzzWriter(f *testing.F) {
	f.Add("ghp_16C7e42F292c6912", "abcdef\nghijkl", []byte("ghp_16C7%65 abcdef\\nghijkl"), []byte{3, 1, 7})
	f.Add("a+b c+d", `x\y"zzz`, []byte(`a%2bb+c%2Bd x\\y\"zzz \ud83d\ude00 \u12`), []byte{1, 1, 1, 1, 2})
	f.Add("AAAAAA", "AAAAAAA", []byte("QUFBQUFB QUFBQUFBQQ== 414141414141"), []byte{9})
	f.Fuzz(func(t *testing.T, one, two string, text, cut []byte) {
		set := new(Set)
		var values []string
		for _, v := range []string{one, two} {
			if len(v) < 200 && set.Add("s", NewValue(v)) == nil {
				values = append(values, v)
			}
		}
		if len(cut)%2 == 1 {
			set.MaskShapes()
		}
		cuts := make([]int, len(cut))
		for i, c := range cut {
			cuts[i] = int(c)
		}
		checkStream(t, set, values, text, cuts)
		for _, v := range values {
			if strings.ContainsRune(v, '*') || strings.ContainsAny(v, "\r\n") {
				continue
			}
			for _, enc := range encoders {
				checkStream(t, set, values, []byte("<"+enc.encode(v)+">"), cuts)
			}
		}
	})
}

// How much masking costs, beside a plain copy.
func BenchmarkMask(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	log := bytes.Buffer{}
	for log.Len() < 1<<20 {
		fmt.Fprintf(&log, "2026-01-02T15:04:05Z INFO step %d of build took 12.%03d ms path=/home/user/project/file_%d.go ok=100%%\n", r.IntN(1000), r.IntN(1000), r.IntN(100))
	}
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	many := []string{token, pem, long, odd}
	for i := range 60 {
		many = append(many, fmt.Sprintf("github_pat_%02d%016x%016x", i, r.Uint64(), r.Uint64()))
	}
	texts := map[string][]byte{"log": log.Bytes(), "random": random, "base64": []byte(encoders[8].encode(string(random[:700_000])))}
	for name, text := range texts {
		b.Run("copy/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var out bytes.Buffer
			for b.Loop() {
				out.Reset()
				for p := text; len(p) > 0; p = p[min(piece, len(p)):] {
					out.Write(p[:min(piece, len(p))])
				}
			}
		})
		for _, n := range []int{1, 3, 64} {
			set := newSet(b, many[:n]...)
			set.MaskShapes()
			b.Run(fmt.Sprintf("mask%d/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				var out bytes.Buffer
				w := NewWriter(&out, set)
				for b.Loop() {
					out.Reset()
					for p := text; len(p) > 0; p = p[min(piece, len(p)):] {
						_, _ = w.Write(p[:min(piece, len(p))])
					}
				}
			})
		}
	}
	for _, n := range []int{1, 3, 64} {
		b.Run(fmt.Sprintf("build%d", n), func(b *testing.B) {
			b.ReportAllocs()
			set := newSet(b, many[:n]...)
			for b.Loop() {
				set.built.Store(nil)
				set.automaton()
			}
			b.ReportMetric(float64(len(set.automaton().states)*28+len(set.automaton().wide)*1024), "bytes")
		})
	}
}
