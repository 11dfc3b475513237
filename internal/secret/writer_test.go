package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	odd   = "p@ss \"w/o+d\" \\n 100% +~ü€😀 <&>'x="
	pem   = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\nZg4=\n-----END PRIVATE KEY-----"
)

var long = func() string {
	r := rand.New(rand.NewPCG(1, 2))
	b := []byte("ghs_")
	for len(b) < 520 {
		b = append(b, (alnum + "_-.")[r.IntN(65)])
	}
	return string(b)
}()

func newSet(t testing.TB, values ...string) *Set {
	t.Helper()
	s := new(Set)
	for i, v := range values {
		require.NoError(t, s.Add(fmt.Sprintf("s%d", i), NewValue(v)))
	}
	return s
}

// A form is how a value gets into an output by way of other people's encoders.
type form struct {
	name   string
	encode func(string) string
}

func wrapped(s, end string, width int) string {
	var lines []string
	for ; len(s) > width; s = s[width:] {
		lines = append(lines, s[:width])
	}
	return strings.Join(append(lines, s), end)
}

func percent(s, format string) string {
	var out strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&out, format, s[i])
	}
	return out.String()
}

func asciiJSON(s string) string {
	var out strings.Builder
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			continue
		}
		fmt.Fprintf(&out, `\u%04x`, r)
	}
	return out.String()
}

func inJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b[1 : len(b)-1])
}

var encoders = []form{
	{"as it is", func(s string) string { return s }},
	{"hex", func(s string) string { return hex.EncodeToString([]byte(s)) }},
	{"HEX", func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) }},
	{"hex in lines", func(s string) string { return wrapped(hex.EncodeToString([]byte(s)), "\n", 60) }},
	{"base64", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
	{"base64 raw", func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte(s)) }},
	{"base64 url", func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }},
	{"base64 raw url", func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }},
	{"base64 in lines", func(s string) string { return wrapped(base64.StdEncoding.EncodeToString([]byte(s)), "\n", 76) }},
	{"base64 in lines of MIME", func(s string) string {
		return wrapped(base64.StdEncoding.EncodeToString([]byte(s)), "\r\n", 64)
	}},
	{"base64 in lines in JSON", func(s string) string {
		return inJSON(wrapped(base64.StdEncoding.EncodeToString([]byte(s)), "\n", 60))
	}},
	{"base64 in lines in a query", func(s string) string {
		return url.QueryEscape(wrapped(base64.StdEncoding.EncodeToString([]byte(s)), "\n", 60))
	}},
	{"base64 in a query", func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s))) }},
	{"query", url.QueryEscape},
	{"path", url.PathEscape},
	{"all percent", func(s string) string { return percent(s, "%%%02X") }},
	{"all percent, lower", func(s string) string { return percent(s, "%%%02x") }},
	{"JSON", inJSON},
	{"JSON in ASCII", asciiJSON},
	{"JSON with slashes", func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) }},
	{"bytes of a language", func(s string) string { return percent(s, `\x%02x`) }},
}

// stream masks text written in these pieces.
func stream(t testing.TB, set *Set, pieces ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, set)
	for _, p := range pieces {
		if n, err := w.Write([]byte(p)); err != nil || n != len(p) {
			t.Fatalf("%d of %d bytes written: %v", n, len(p), err)
		}
	}
	require.NoError(t, w.Flush())
	require.Zero(t, w.Held())
	return out.String()
}

// stars is what a masked text looks like.
func stars(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return r
		}
		return '*'
	}, percentBytes(s))
}

// percentBytes has a rune for each byte of s.
func percentBytes(s string) string {
	out := make([]rune, len(s))
	for i := range len(s) {
		out[i] = rune(s[i])
	}
	return string(out)
}

func TestEveryFormAtEverySplit(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"token": token, "odd": odd, "pem": pem, "long": long} {
		for _, enc := range encoders {
			t.Run(name+" as "+enc.name, func(t *testing.T) {
				t.Parallel()
				set := newSet(t, value)
				body := enc.encode(value)
				text := "one: " + body + " two\n"
				pads := strings.Count(body, "=") + strings.Count(body, "%3D")*3
				if enc.name == "as it is" || enc.name == "JSON" {
					pads = 0
				}
				whole := string(set.Bytes([]byte(text)))
				require.Len(t, whole, len(text))
				require.True(t, strings.HasPrefix(whole, "one: "), whole)
				require.True(t, strings.HasSuffix(whole, " two\n"), whole)
				got, want := whole[5:len(whole)-5], stars(body)
				require.Equal(t, want[:len(want)-pads], got[:len(got)-pads])
				// The long ones are cut at some places only: a cut in them is as any other.
				for i := 0; i <= len(text); i += 1 + len(text)/250 {
					if got := stream(t, set, text[:i], text[i:]); got != whole {
						t.Fatalf("split at %d:\n got %q\nwant %q", i, got, whole)
					}
				}
				require.Equal(t, whole, stream(t, set, strings.Split(text, "")...), "byte by byte")
			})
		}
	}
}

// In a longer base64 text, every letter that holds a bit of the value is masked,
// and no other.
func TestValueInsideBase64(t *testing.T) {
	t.Parallel()
	for _, value := range []string{token, token + "x", token + "xy", "hunter", "hunter2", odd} {
		set := newSet(t, value)
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			for before := range 7 {
				for after := range 4 {
					lead, trail := "user: "[:before%7], "\x00\xff~"[:after]
					text := enc.EncodeToString([]byte(lead + value + trail))
					from, to := len(lead)*8/6, ((len(lead)+len(value))*8+5)/6
					want := text[:from] + strings.Repeat("*", to-from) + text[to:]
					require.Equal(t, want, set.String(text), "%d before, %d after", before, after)
					for i := range len(text) {
						require.Equal(t, want, stream(t, set, text[:i], text[i:]), "split at %d", i)
					}
				}
			}
		}
	}
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, values, text, want string }{
		{"side by side", "abcdef ghijkl", "-abcdefghijkl-", "-************-"},
		{"one into the other", "abcdefgh efghijkl", "-abcdefghijkl-", "-************-"},
		{"one begins the other", "abcdef abcdefghi", "-abcdefgh-abcdefghi-", "-******gh-*********-"},
		{"one ends the other", "abcdefghi defghi", "-xdefghi-abcdefghi-", "-x******-*********-"},
		{"one in the other", "abcdefghijkl defghi", "-abcdefghijk-", "-abc******jk-"},
		{"itself", "aabaab aabaabaab", "-aabaabaabaab-", "-************-"},
		{"begun twice", "ababac-1", "-abababac-1-", "-ab********-"},
		{"half", "abcdefgh", "-abcdefg abcdefgh", "-abcdefg ********"},
		{"lines stay", "abc\ndefgh", "-abc\ndefgh-", "-***\n*****-"},
		{"percent after all", "50%off-100%", "is 50%off-100%.", "is ***********."},
		{"percent of percent", "50%off-100%", "is 50%25off-100%25.", "is ***************."},
		{"plus as itself", "a+b c+d", "a+b%20c+d a%2bb+c%2Bd a+b c+d", "********* *********** *******"},
		{"backslash as itself", `a\nb\\c`, `a\nb\\c a\\nb\\\\c`, `******* **********`},
		{"an escape that ends as what it stands for", "1abcdef", "-%31abcdef-", "-*********-"},
		{"after a broken escape", "zz%top", "%2zz%25top", "%2********"},
		{"two beginnings away", "xabcdefgh-1 abcdefgh-2 cdefgh", "-xabcdefgh-9", "-xab******-9"},
		{"last bits in an escape", "hello-oo", url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("hello-oo\xff\xff\xff"))), "*************%2F%2F%2F8%3D"},
		{"after many escapes", "abcdef", strings.Repeat("%41", 300) + percent("abcdef", "%%%x") + "-", strings.Repeat("%41", 300) + strings.Repeat("*", 18) + "-"},
		{"broken escapes", "%u12-%4-tail", `%u12-%4-tail %25u12-%254-tail`, `************ ****************`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			values := strings.Fields(tt.values)
			if strings.Contains(tt.name, "itself") || tt.name == "lines stay" {
				values = []string{tt.values}
			}
			if tt.name == "itself" {
				values = strings.Fields(tt.values)
			}
			set := newSet(t, values...)
			require.Equal(t, tt.want, set.String(tt.text))
			for i := range len(tt.text) {
				require.Equal(t, tt.want, stream(t, set, tt.text[:i], tt.text[i:]), "split at %d", i)
			}
		})
	}
}

// Only what may be the beginning of a value is held back, and only so long.
func TestHeld(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewWriter(&out, newSet(t, token))
	write := func(s string) { _, err := w.Write([]byte(s)); require.NoError(t, err) }
	write("a line, all of it\n")
	require.Zero(t, w.Held())
	write("and then: ghp_16C7")
	require.Equal(t, "a line, all of it\nand then: ", out.String())
	require.Equal(t, 8, w.Held())
	write("!\n")
	require.Equal(t, "a line, all of it\nand then: ghp_16C7!\n", out.String())
	require.Zero(t, w.Held())

	write("in base")
	require.Equal(t, 1, w.Held(), "a letter of base64 may have bits of what comes")
	write("!\n")
	out.Reset()
	for i := range len(token) {
		write(token[i : i+1])
		require.LessOrEqual(t, w.Held(), i+1)
	}
	write(" ")
	require.Equal(t, stars(token)+" ", out.String())
	require.Equal(t, map[string]int{"s0": 1}, w.Masked())
}

// A flush in the middle of a value gives its first half away and no more.
func TestFlushInTheMiddle(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewWriter(&out, newSet(t, token))
	for _, part := range []string{token[:10], token[10:]} {
		_, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.NoError(t, w.Flush())
	}
	require.Equal(t, token[:10]+stars(token[10:]), out.String())
}

func TestPrime(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewWriter(&out, newSet(t, token))
	w.Prime([]byte("what was there before: " + token[:10]))
	require.Zero(t, w.Held())
	_, err := w.Write([]byte(token[10:] + " end"))
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	require.Equal(t, stars(token[10:])+" end", out.String())
}

// Values come and go while a stream runs.
func TestSetChangesUnderWay(t *testing.T) {
	t.Parallel()
	const other = "another-secret"
	tests := []struct {
		name   string
		change func(*Set)
		text   string
		at     int
		want   string
	}{
		{
			"one more in the middle of a value", func(s *Set) { _ = s.Add("other", NewValue(other)) },
			token + " " + other, 10, stars(token) + " " + stars(other),
		},
		{
			"one that begins in what is held", func(s *Set) { _ = s.Add("other", NewValue(token[20:30]+"-more")) },
			token[:30] + "-more", 25, token[:20] + strings.Repeat("*", 15),
		},
		{
			"gone in the middle of a value", func(s *Set) { s.Remove("s0", NewValue(token)) },
			token + " " + token, 10, stars(token) + " " + token,
		},
		{
			"half of an escape", func(s *Set) { _ = s.Add("other", NewValue(other)) },
			percent(token, "%%%02x"), 31, stars(percent(token, "%%%02x")),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := newSet(t, token)
			var out bytes.Buffer
			w := NewWriter(&out, set)
			_, err := w.Write([]byte(tt.text[:tt.at]))
			require.NoError(t, err)
			tt.change(set)
			for _, part := range strings.SplitAfter(tt.text[tt.at:], " ") {
				_, err = w.Write([]byte(part))
				require.NoError(t, err)
			}
			require.NoError(t, w.Flush())
			require.Equal(t, tt.want, out.String())
			for range 2 {
				_, err = w.Write([]byte("-"))
				require.NoError(t, err)
			}
			require.LessOrEqual(t, len(w.scans), 1, "what looked for the Set as it was is let go")
		})
	}
}

func TestSetCountsAdds(t *testing.T) {
	t.Parallel()
	set := newSet(t, token)
	require.NoError(t, set.Add("s0", NewValue(token)))
	set.Remove("s0", NewValue(token))
	set.Remove("nobody", NewValue(token))
	require.True(t, set.Has(token))
	set.Remove("s0", NewValue(token))
	require.False(t, set.Has(token))
	require.Zero(t, set.Len())
	require.ErrorIs(t, set.Add("x", NewValue("short")), ErrTooShort)
	require.Equal(t, "short", set.String("short"))
}

func TestMaskedCounts(t *testing.T) {
	t.Parallel()
	set := newSet(t, token, pem, "another-secret")
	require.NoError(t, set.Add("alias", NewValue(token)))
	w := NewWriter(new(bytes.Buffer), set)
	for _, s := range []string{token, " ", token, " ", base64.StdEncoding.EncodeToString([]byte(token)), pem} {
		_, err := w.Write([]byte(s))
		require.NoError(t, err)
	}
	got := w.Masked()
	require.Equal(t, 3, got["s0"])
	require.Equal(t, 3, got["alias"])
	require.Equal(t, 3, got["s1"], "three lines, then the whole with the last of them")
	require.NotContains(t, got, "s2")
}

// A token of a known shape is masked although nobody told of it.
func TestShapes(t *testing.T) {
	t.Parallel()
	set := new(Set)
	set.MaskShapes()
	key := strings.Replace(pem, "Zg4=", strings.Repeat("A", 40), 1)
	tests := []struct{ name, text, want string }{
		{"github", "t=" + token + ";", "t=ghp_" + stars(token[4:]) + ";"},
		{"github, 520 bytes", "t=" + long + ";", "t=ghs_" + stars(long[4:]) + ";"},
		{"github, only talked of", "tokens begin with ghp_ or ghs_\n", "tokens begin with ghp_ or ghs_\n"},
		{"e2b", "e2b_" + strings.Repeat("0a", 20) + "\n", "e2b_" + strings.Repeat("*", 40) + "\n"},
		{"aws", "AKIAIOSFODNN7EXAMPLE", "AKIA****************"},
		{"key", key + "\nend", "-----BEGIN PRIVATE KEY-----" + stars(key[27:len(key)-25]) + "-----END PRIVATE KEY-----\nend"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, set.String(tt.text))
			for i := range len(tt.text) {
				require.Equal(t, tt.want, stream(t, set, tt.text[:i], tt.text[i:]), "split at %d", i)
			}
		})
	}
	both := newSet(t, pem)
	both.MaskShapes()
	require.Equal(t, stars(pem), both.String(pem), "a value that begins as a shape does")
}

// failing fails once it was given some bytes.
type failing struct{ room int }

func (f *failing) Write(p []byte) (int, error) {
	n := min(len(p), f.room)
	f.room -= n
	if n < len(p) {
		return n, errors.New("full")
	}
	return n, nil
}

func TestWriterSaysWhatWasPassedOn(t *testing.T) {
	t.Parallel()
	w := NewWriter(&failing{room: 40_000}, newSet(t, token))
	n, err := w.Write([]byte("ghp_"))
	require.NoError(t, err)
	require.Equal(t, 4, n)
	n, err = w.Write(bytes.Repeat([]byte("-"), 100_000))
	require.EqualError(t, err, "full")
	require.Equal(t, 40_000-4, n)
	n, err = w.Write([]byte("more"))
	require.EqualError(t, err, "full")
	require.Zero(t, n)
	require.EqualError(t, w.Flush(), "full")
}

// Streams, texts, logs and changes of one Set at once; the race detector looks on.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	set := newSet(t, token)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 20 {
				v := NewValue(fmt.Sprintf("value-%d-%d", i, j))
				_ = set.Add("other", v)
				var out bytes.Buffer
				w := NewWriter(&out, set)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = w.Flush()
					_ = w.Held()
				}()
				_, _ = w.Write([]byte(v.Reveal() + " " + token))
				<-done
				_ = w.Flush()
				if strings.Contains(out.String(), v.Reveal()) && strings.Contains(out.String(), token) {
					t.Errorf("not masked: %q", out.String())
				}
				if s := set.String(v.Reveal() + token); strings.Contains(s, v.Reveal()) || strings.Contains(s, token) {
					t.Errorf("not masked: %q", s)
				}
				set.Remove("other", v)
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, set.Len())
}
