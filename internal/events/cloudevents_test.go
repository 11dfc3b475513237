package events

import (
	"net/textproto"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHeaderValues(t *testing.T) {
	t.Parallel()
	for plain, encoded := range map[string]string{
		"":                         "",
		"abc/DEF-1_2.3~":           "abc/DEF-1_2.3~",
		"Euro € 😀":                 "Euro%20%E2%82%AC%20%F0%9F%98%80",
		`say "hi" 100%`:            "say%20%22hi%22%20100%25",
		"a\r\nX-Injected: 1\x00\t": "a%0D%0AX-Injected:%201%00%09",
	} {
		require.Equal(t, encoded, encodeHeader(plain))
		back, err := decodeHeader(encoded)
		require.NoError(t, err)
		require.Equal(t, plain, back)
	}
	for given, want := range map[string]string{
		`"quoted \"inside\" 100%25"`: `quoted "inside" 100%`,
		"%e2%82%ac":                  "€", // lower case, as some senders write
		"%41":                        "A", // need not have been encoded
	} {
		got, err := decodeHeader(given)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"%", "%2", "a%2", "%zz", "%ff", "%C0%20"} {
		_, err := decodeHeader(bad)
		require.Error(t, err, bad)
	}
}

func TestAttributesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 40, -1)
		a := Attributes{
			ID: text.Draw(t, "id"), Source: text.Draw(t, "source"), Type: text.Draw(t, "type"),
			Subject: rapid.String().Draw(t, "subject"),
			Time:    time.Unix(0, rapid.Int64Range(0, 4e18).Draw(t, "time")).UTC(),
		}
		h := nats.Header{}
		a.Put(h)
		for k, vs := range h {
			for _, v := range vs {
				if v != textproto.TrimString(v) || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' }) {
					t.Fatalf("header %s: %q may not stand in a header", k, v)
				}
			}
		}
		back, err := AttributesOf(h)
		if err != nil {
			t.Fatal(err)
		}
		if back != a {
			t.Fatalf("got %+v, want %+v", back, a)
		}
	})
}

func TestDecodeHeaderTakesAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "value"))
		got, err := decodeHeader(s)
		if err == nil && strings.Contains(s, "%") && !utf8.ValidString(got) {
			t.Fatalf("%q decodes to %q", s, got)
		}
	})
}

func TestAttributesOfRefuses(t *testing.T) {
	t.Parallel()
	good := func() nats.Header {
		h := nats.Header{}
		Attributes{ID: "1", Source: "/s", Type: "t", Time: time.Unix(1, 0)}.Put(h)
		return h
	}
	_, err := AttributesOf(good())
	require.NoError(t, err)
	for key, value := range map[string]string{headerSpec: "0.3", headerID: "", headerSource: "%", headerType: "", headerTime: "noon"} {
		h := good()
		h.Set(key, value)
		_, err := AttributesOf(h)
		require.ErrorContains(t, err, key)
	}
}
