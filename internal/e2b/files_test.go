package e2b_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
)

func TestOpenRequest(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 2)
	box := cloud(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r
		http.ServeContent(w, r, "f", time.Time{}, strings.NewReader("0123456789"))
	}).Open(ref()).As("bob")

	rc, total, err := box.Open(t.Context(), "/a b&c", 4)
	require.NoError(t, err)
	b, err := io.ReadAll(rc)
	require.NoError(t, err)
	require.NoError(t, rc.Close())
	require.Equal(t, "456789", string(b))
	require.EqualValues(t, 10, total)
	r := <-got
	require.Equal(t, "/files?path=%2Fa+b%26c&username=bob", r.URL.RequestURI())
	require.Equal(t, "bytes=4-", r.Header.Get("Range"))
	require.Equal(t, "identity", r.Header.Get("Accept-Encoding"))
	require.Equal(t, testToken, r.Header.Get("X-Access-Token"))
	require.Equal(t, testID, r.Header.Get("E2b-Sandbox-Id"))
	require.NotContains(t, r.URL.String(), testToken)

	b, err = box.ReadFile(t.Context(), "f")
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(b))
	require.Empty(t, (<-got).Header.Get("Range"))
}

func TestOpenAtAndBeyondTheEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file   string
		offset int64
		kind   error
	}{
		{"0123456789", 9, nil},
		{"0123456789", 10, nil},
		{"0123456789", 11, e2b.ErrRange},
		{"", 0, nil},
		{"", 1, e2b.ErrRange},
	} {
		box := cloud(t, func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "f", time.Time{}, strings.NewReader(tt.file))
		}).Open(ref())
		rc, total, err := box.Open(t.Context(), "f", tt.offset)
		if tt.kind != nil {
			requireKind(t, err, tt.kind, false)
			continue
		}
		require.NoError(t, err)
		b, err := io.ReadAll(rc)
		require.NoError(t, err)
		require.Equal(t, tt.file[tt.offset:], string(b))
		require.EqualValues(t, len(tt.file), total)
		require.NoError(t, rc.Close())
	}
}

// TestOpenAnswersThatDoNotFit: bytes at a wrong offset would be a silently
// wrong file.
func TestOpenAnswersThatDoNotFit(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"range ignored":      always(200, "0123456789", "Content-Length", "10"),
		"other range":        always(206, "56789", "Content-Range", "bytes 5-9/10"),
		"not to the end":     always(206, "45", "Content-Range", "bytes 4-5/10"),
		"unknown length":     always(206, "456789", "Content-Range", "bytes 4-9/*"),
		"no range":           always(206, "456789"),
		"backwards":          always(206, "", "Content-Range", "bytes 10-9/10"),
		"negative":           always(206, "", "Content-Range", "bytes -4-9/10"),
		"compressed":         always(206, "456789", "Content-Range", "bytes 4-9/10", "Content-Encoding", "gzip"),
		"not even a number":  always(206, "456789", "Content-Range", "bytes 4-9/1e1"),
		"too large a number": always(206, "456789", "Content-Range", "bytes 4-9/99999999999999999999"),
	} {
		_, _, err := cloud(t, h).Open(ref()).Open(t.Context(), "f", 4)
		require.ErrorIs(t, err, e2b.ErrBadAnswer, name)
	}
	_, _, err := cloud(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush() // chunked: no length
	}).Open(ref()).Open(t.Context(), "f", 0)
	requireKind(t, err, e2b.ErrBadAnswer, false)
}

func TestDownloadBreaks(t *testing.T) {
	t.Parallel()
	t.Run("cut", func(t *testing.T) {
		t.Parallel()
		box := cloud(t, func(w http.ResponseWriter, r *http.Request) {
			answer(w, 200, "01234", "Content-Length", "10")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}).Open(ref())
		rc, _, err := box.Open(t.Context(), "f", 0)
		require.NoError(t, err)
		b, err := io.ReadAll(rc)
		require.Equal(t, "01234", string(b))
		requireKind(t, err, e2b.ErrCut, false)
		require.NoError(t, rc.Close())
	})
	t.Run("stalled", func(t *testing.T) {
		t.Parallel()
		box := cloud(t, func(w http.ResponseWriter, r *http.Request) {
			answer(w, 200, "01234", "Content-Length", "10")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, timeouts(soon)).Open(ref())
		rc, _, err := box.Open(t.Context(), "f", 0)
		require.NoError(t, err)
		_, err = io.ReadAll(rc)
		requireKind(t, err, e2b.ErrStalled, false)
		require.NoError(t, rc.Close())
	})
	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		_, _, err := cloud(t, hang, timeouts(soon)).Open(ref()).Open(t.Context(), "f", 0)
		requireKind(t, err, e2b.ErrStalled, true)
	})
	t.Run("too long for ReadFile", func(t *testing.T) {
		t.Parallel()
		_, err := cloud(t, always(200, "", "Content-Length", "99999999999")).Open(ref()).ReadFile(t.Context(), "f")
		requireKind(t, err, e2b.ErrInvalid, false)
	})
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		_, err := cloud(t, always(404, `{"code":404,"message":"path '/x' does not exist"}`)).Open(ref()).ReadFile(t.Context(), "/x")
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

func TestWriteRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	box := cloud(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		// envd labels its JSON as text.
		answer(w, 200, `[{"name":"f","path":"/f","type":"file"}]`, "Content-Type", "text/plain; charset=utf-8")
	}).Open(ref())

	require.NoError(t, box.Write(t.Context(), "/f", strings.NewReader("hello"), e2b.WriteOptions{User: "bob"}))
	require.Equal(t, "hello", string(body))
	require.Equal(t, "POST /files?path=%2Ff&username=bob", got.Method+" "+got.URL.RequestURI())
	require.Equal(t, "application/octet-stream", got.Header.Get("Content-Type"))
	require.EqualValues(t, 5, got.ContentLength)

	require.NoError(t, box.Write(t.Context(), "/f", iotest.OneByteReader(strings.NewReader("hello")), e2b.WriteOptions{}))
	require.Equal(t, "hello", string(body))
	require.EqualValues(t, -1, got.ContentLength)

	require.NoError(t, box.Write(t.Context(), "/f", iotest.HalfReader(strings.NewReader("hello")), e2b.WriteOptions{Size: 5}))
	require.EqualValues(t, 5, got.ContentLength)

	require.NoError(t, box.Write(t.Context(), "/f", bytes.NewReader(nil), e2b.WriteOptions{}))
	require.Empty(t, body)
}

func TestWriteBreaks(t *testing.T) {
	t.Parallel()
	sink := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, 200, "[]")
	}
	t.Run("the source fails", func(t *testing.T) {
		t.Parallel()
		broken := errors.New("bucket gone")
		err := cloud(t, sink).Open(ref()).Write(t.Context(), "/f", io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), e2b.WriteOptions{})
		require.ErrorIs(t, err, broken)
		require.NotErrorIs(t, err, e2b.ErrUnavailable)
	})
	t.Run("the source is shorter than announced", func(t *testing.T) {
		t.Parallel()
		err := cloud(t, sink).Open(ref()).Write(t.Context(), "/f", iotest.HalfReader(strings.NewReader("x")), e2b.WriteOptions{Size: 2})
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	t.Run("the source is longer than announced", func(t *testing.T) {
		t.Parallel()
		got := make(chan []byte, 1)
		err := cloud(t, func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			got <- b
		}).Open(ref()).Write(t.Context(), "/f", iotest.HalfReader(strings.NewReader("xyz")), e2b.WriteOptions{Size: 2})
		require.NoError(t, err)
		require.Equal(t, "xy", string(<-got))
	})
	t.Run("no space", func(t *testing.T) {
		t.Parallel()
		err := cloud(t, always(507, `{"code":507,"message":"disk full"}`)).Open(ref()).Write(t.Context(), "/f", strings.NewReader("x"), e2b.WriteOptions{})
		requireKind(t, err, e2b.ErrNoSpace, true)
	})
	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		err := cloud(t, hang, timeouts(soon)).Open(ref()).Write(t.Context(), "/f", strings.NewReader("x"), e2b.WriteOptions{})
		requireKind(t, err, e2b.ErrStalled, true)
	})
	t.Run("a slow source is no dead link", func(t *testing.T) {
		t.Parallel()
		pr, pw := io.Pipe()
		time.AfterFunc(3*soon, func() { _, _ = pw.Write([]byte("x")); pw.Close() })
		err := cloud(t, sink, timeouts(soon)).Open(ref()).Write(t.Context(), "/f", pr, e2b.WriteOptions{})
		require.NoError(t, err)
	})
}
