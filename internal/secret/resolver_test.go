package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o400))
	require.NoError(t, os.Chmod(path, 0o600))
}

func TestResolve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "db.password"), "from the directory\r\n")
	put(t, filepath.Join(dir, "github-token"), "the environment comes first")
	put(t, filepath.Join(dir, "two-ends"), "two-ends\n\n")
	put(t, filepath.Join(dir, "short"), "12345\n")
	put(t, filepath.Join(dir, "empty"), " \n")
	put(t, filepath.Join(dir, "nul"), "12345678\x00")
	put(t, filepath.Join(dir, "full"), strings.Repeat("x", MaxLength)+"\n")
	put(t, filepath.Join(dir, "large"), strings.Repeat("x", MaxLength+1))
	put(t, filepath.Join(dir, "..hidden"), "not a secret's name")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	put(t, filepath.Join(dir, "one"), "a single file")

	rule := errors.New("rule agents, line 4")
	r := NewResolver(func(owner, ref string) error {
		if owner == "stranger" {
			return rule
		}
		return nil
	},
		Env("SANDJET_SECRET_", []string{"SANDJET_SECRET_GITHUB_TOKEN=" + token, "OTHER=no", "SANDJET_SECRET_=no", "SANDJET_SECRET_UNSET=", "SANDJET_SECRET_PIN=1234"}),
		File("deploy-key", filepath.Join(dir, "one")), Dir(dir))
	tests := []struct {
		owner, ref, want string
		err              error
	}{
		{ref: "github-token", want: token},
		{ref: "db.password", want: "from the directory"},
		{ref: "deploy-key", want: "a single file"},
		{ref: "two-ends", want: "two-ends\n"},
		{ref: "full", want: strings.Repeat("x", MaxLength)},
		{ref: "GITHUB_TOKEN", err: ErrUnknown},
		{ref: "github_token", err: ErrUnknown},
		{ref: "unset", err: ErrUnknown},
		{ref: "nowhere", err: ErrUnknown},
		{ref: "pin", err: ErrTooShort},
		{ref: "short", err: ErrTooShort},
		{ref: "empty", err: ErrEmpty},
		{ref: "nul", err: ErrNUL},
		{ref: "large", err: ErrTooLong},
		{ref: "folder", err: ErrUnreadable},
		{ref: "pipe", err: ErrUnreadable},
		{ref: "..hidden", err: ErrName},
		{ref: "../secret", err: ErrName},
		{ref: "", err: ErrName},
		{ref: token, err: ErrPasted},
		{ref: "x_" + long, err: ErrPasted},
		{owner: "stranger", ref: "github-token", err: ErrNotAllowed},
		{owner: "stranger", ref: "nowhere", err: ErrNotAllowed},
	}
	for _, tt := range tests {
		v, err := r.Resolve(tt.owner, tt.ref)
		require.ErrorIs(t, err, tt.err, tt.ref)
		require.Equal(t, tt.want, v.Reveal(), tt.ref)
		if err == nil {
			continue
		}
		var e *Error
		require.ErrorAs(t, err, &e)
		require.NotContains(t, err.Error(), dir)
		for _, hidden := range []string{token, long, "1234", "\x00"} {
			require.NotContains(t, strings.ReplaceAll(err.Error(), "1 to 128", ""), hidden)
		}
	}
	_, err := r.Resolve("stranger", "github-token")
	require.ErrorIs(t, err, rule)
	require.EqualError(t, err, "secret github-token: the owner may not use this secret: rule agents, line 4")

	all, _, err := r.ResolveAll("", map[string]string{"TOKEN": "github-token", "DB": "db.password"})
	require.NoError(t, err)
	require.Equal(t, token, all["TOKEN"].Reveal())
	_, at, err := r.ResolveAll("", map[string]string{"TOKEN": "github-token", "B": "nowhere", "C": "short"})
	require.ErrorIs(t, err, ErrUnknown)
	require.Equal(t, "B", at)
}

// A file is read again when it changes, whatever the clock of the file system says.
func TestFileChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	f := &file{path: path}
	expect := func(want string, wantErr error) {
		t.Helper()
		got, err := f.read()
		require.ErrorIs(t, err, wantErr)
		require.Equal(t, want, got.Reveal())
	}
	expect("", ErrUnknown)
	put(t, path, "number one\n")
	expect("number one", nil)
	info, err := os.Stat(path)
	require.NoError(t, err)
	put(t, path, "number two\n") // as long, and within the same tick
	require.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
	expect("number two", nil)

	put(t, path, "") // half way through a rotation
	expect("number two", nil)
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, time.Time{}, old))
	expect("", ErrEmpty)

	put(t, path, "number three")
	require.NoError(t, os.Chtimes(path, time.Time{}, old))
	expect("number three", nil)
	require.False(t, f.fresh)
	put(t, path+".next", "number 3rd 3") // another file in its place, as old and as long
	require.NoError(t, os.Chtimes(path+".next", time.Time{}, old))
	require.NoError(t, os.Rename(path+".next", path))
	expect("number 3rd 3", nil)

	require.NoError(t, os.Remove(path)) // taken away: nobody has it any more
	expect("", ErrUnknown)
}

// A volume as Kubernetes mounts it: the files are links through ..data, which is
// swapped to change all at once.
func TestKubernetesVolume(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	swap := func(version, text string) {
		require.NoError(t, os.Mkdir(filepath.Join(root, version), 0o700))
		put(t, filepath.Join(root, version, "token"), text)
		past := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(root, version, "token"), past, past))
		require.NoError(t, os.Symlink(version, filepath.Join(root, "..tmp")))
		require.NoError(t, os.Rename(filepath.Join(root, "..tmp"), filepath.Join(root, "..data")))
	}
	swap("..2026_01", "the first one")
	require.NoError(t, os.Symlink("..data/token", filepath.Join(root, "token")))
	src := Dir(root)
	for i, want := range []string{"the first one", "the other one"} {
		if i > 0 {
			swap("..2026_02", want)
		}
		v, err := src.Find("token")
		require.NoError(t, err)
		require.Equal(t, want, v.Reveal())
	}
	require.Empty(t, src.Check())
	_, err := src.Find("..data")
	require.ErrorIs(t, err, ErrUnknown)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "good"), "good enough")
	put(t, filepath.Join(dir, "short"), "12345")
	put(t, filepath.Join(dir, "open"), "open to all")
	require.NoError(t, os.Chmod(filepath.Join(dir, "open"), 0o644))
	put(t, filepath.Join(dir, ".ignored"), "")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "ignored"), 0o700))
	errs := NewResolver(nil, Env("X_", []string{"X_PIN=1234"}), Dir(dir), Dir(dir+"/none")).Check()
	text := errors.Join(errs...).Error()
	require.Len(t, errs, 4, text)
	require.Contains(t, text, "secret pin of the environment: has fewer than 6 bytes")
	require.Contains(t, text, "secret open in its file: everybody on this machine may use it (mode 0644): chmod 0400 it")
	require.Contains(t, text, "secret short in its file: has fewer than 6 bytes")
	require.Contains(t, text, "directory of secrets cannot be read: no such file or directory")
	require.NotContains(t, text, "1234")
}

// A Value does not print itself, whatever it is part of.
func TestValuePrintsNothing(t *testing.T) {
	t.Parallel()
	v := NewValue(token)
	type part struct {
		Shown  Value
		hidden Value
		list   []Value
		byName map[string]Value
		ref    *Value
	}
	whole := part{v, v, []Value{v}, map[string]Value{"k": v}, &v}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %[1]v"} {
		for _, x := range []any{v, &v, whole, &whole, []any{v}, fmt.Errorf("wrapped: %v", v)} {
			fmt.Fprintf(&out, verb+"\n", x)
		}
	}
	for _, x := range []any{v, whole, map[string]any{"v": &v}} {
		b, err := json.Marshal(x)
		require.NoError(t, err)
		out.Write(b)
	}
	for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		slog.New(h).With("v", v).Info("said", "v", v, "p", &v, "whole", whole, "any", []any{v})
	}
	require.NotContains(t, out.String(), token)
	require.NotContains(t, out.String(), fmt.Sprintf("%x", token))
	require.Contains(t, out.String(), "[secret]")

	require.True(t, v.Equal(NewValue(token)))
	require.False(t, v.Equal(Value{}))
	require.True(t, Value{}.IsZero())
	require.Empty(t, Value{}.Reveal())
}
