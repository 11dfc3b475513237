package secret

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A masked document stays a document, whatever stands beside the value.
func TestJSON(t *testing.T) {
	t.Parallel()
	set := newSet(t, "nabcdef", `quo"te\d`, "123456789")
	tests := []struct{ name, doc, want string }{
		{"nothing", `{"a": [1, true, null, 1e5, "x\n"] }`, `{"a": [1, true, null, 1e5, "x\n"] }`},
		{"string and name", `{"nabcdef":"-nabcdef-"}`, `{"*******":"-*******-"}`},
		{"after an escape", `{"a":"\nabcdef \\nabcdef"}`, `{"a":"\nabcdef \\*******"}`},
		{"escaped", `["quo\"te\\d <b>"]`, `["******** <b>"]`},
		{"escaped twice", `["{\"a\":\"nabcdef\"}"]`, `["{\"a\":\"*******\"}"]`},
		{"number", `{"pin":123456789,"x":-1234567890}`, `{"pin":"*********","x":"-*********0"}`},
		{"no JSON", `{"a":"nabcdef"`, `{"a":"*******"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := set.JSON([]byte(tt.doc))
			require.Equal(t, tt.want, string(got))
			if tt.name != "no JSON" {
				require.True(t, json.Valid(got))
			}
		})
	}
}

type account struct{ Name, key string }

type talker struct{ s string }

func (t talker) LogValue() slog.Value { return slog.StringValue(t.s) }

type broken struct{ p *int }

func (b broken) MarshalJSON() ([]byte, error) { panic(*b.p) }

func TestHandler(t *testing.T) {
	t.Parallel()
	encoded := base64.StdEncoding.EncodeToString([]byte("x" + token))
	for _, kind := range []string{"text", "json"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			below := slog.Handler(slog.NewJSONHandler(&out, nil))
			if kind == "text" {
				below = slog.NewTextHandler(&out, nil)
			}
			set := newSet(t, "123456789")
			log := slog.New(NewHandler(below, set)).With("early", "token "+token, "n", 1).WithGroup("g-"+token).With("in", account{"a", token})
			log.Info("before")
			require.Contains(t, out.String(), token, "nobody knows yet")
			out.Reset()

			require.NoError(t, set.Add("s", NewValue(token)))
			log.Info("token "+token,
				"err", fmt.Errorf("push to https://x:%s@host: %w", token, context.Canceled),
				"key "+token, "x", "pin", 123456789, "bytes", []byte(token), "list", []string{token},
				"struct", account{"a", token}, "fields", map[string]string{"k": token}, "talk", talker{token},
				slog.Group("group", "deep", encoded), "level", slog.LevelWarn, "none", nil, "broken", broken{})
			require.NotContains(t, out.String(), token)
			require.NotContains(t, out.String(), base64.StdEncoding.EncodeToString([]byte(token)))
			require.NotContains(t, out.String(), encoded[4:40])
			require.NotContains(t, out.String(), "123456789")
			require.Contains(t, out.String(), "push to https://x:"+strings.Repeat("*", len(token))+"@host: context canceled")
			for _, plain := range []string{"early", "WARN", "level"} {
				require.Contains(t, out.String(), plain)
			}
		})
	}
}

func TestHandlerChangesNothingElse(t *testing.T) {
	t.Parallel()
	write := func(wrap func(slog.Handler) slog.Handler) string {
		var out bytes.Buffer
		opts := &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}
		log := slog.New(wrap(slog.NewJSONHandler(&out, opts)))
		log.Info("not shown")
		log.With("a", 1, "b", 1.5).WithGroup("g").With().WithGroup("").With("c", true).
			Error("shown", "err", errors.New("x"), "d", []int{1}, "u", uint64(1), slog.Group("h", "i", "j"), "v", struct{ A int }{1})
		return out.String()
	}
	require.Equal(t,
		write(func(h slog.Handler) slog.Handler { return h }),
		write(func(h slog.Handler) slog.Handler { return NewHandler(h, newSet(t, token)) }))
}
