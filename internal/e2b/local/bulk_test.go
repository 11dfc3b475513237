package local

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aloneEnv makes this test binary a server and nothing else, of the level it
// names, so that the memory of its process is the server's.
const aloneEnv = "SANDJET_TEST_ALONE"

// TestServerAlone is no test by itself: startAlone starts it as a process.
func TestServerAlone(t *testing.T) {
	level := os.Getenv(aloneEnv)
	if level == "" {
		t.Skip("only as a process of another test")
	}
	srv, err := Start(t.Context(), Config{Isolation: Isolation(level), APIKey: "k", DataDir: os.Getenv("DATA")})
	require.NoError(t, err)
	fmt.Println("\nup", srv.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until whoever started it is gone
	require.NoError(t, srv.Close())
}

// alone is a server in a process of its own.
type alone struct {
	*client
	pid int
	dir string // of the sandboxes
}

// startAlone starts one that ends with the test.
func startAlone(t *testing.T, level Isolation) *alone {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerAlone$", "-test.timeout=30m")
	begins := time.AfterFunc(stuck, func() { _ = cmd.Process.Kill() })
	defer begins.Stop()
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), aloneEnv+"="+string(level), "DATA="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		require.NoError(t, cmd.Wait(), "the server ends in order")
	})
	addr := ""
	for s := bufio.NewScanner(out); addr == "" && s.Scan(); {
		addr, _ = strings.CutPrefix(s.Text(), "up ")
		if addr == s.Text() {
			addr = ""
		}
	}
	require.NotEmpty(t, addr, "the server did not start")
	// Calls go there; all else of this Server is not to be used.
	srv := &Server{cfg: Config{APIKey: "k"}, listener: addrOnly(addr)}
	return &alone{client: newClient(t, srv), pid: cmd.Process.Pid, dir: dir}
}

// addrOnly is the listener of another process.
type addrOnly string

func (a addrOnly) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (a addrOnly) Close() error              { return nil }
func (a addrOnly) Addr() net.Addr            { return a }
func (a addrOnly) Network() string           { return "tcp" }
func (a addrOnly) String() string            { return string(a) }

// watchMemory returns what says how far the server's memory rose since, at its
// highest.
func (a *alone) watchMemory() (rose func() int64) {
	a.Helper()
	proc := fmt.Sprintf("/proc/%d/", a.pid)
	require.NoError(a, os.WriteFile(proc+"clear_refs", []byte("5"), 0), "forget the peak")
	peak := func() int64 {
		_, rest, _ := strings.Cut(readFile(a.T, proc+"status"), "VmHWM:")
		kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		require.NoError(a, err)
		return kib << 10
	}
	before := peak()
	return func() int64 { return peak() - before }
}

// streams is how far the memory of a server may rise that streams: buffers of
// some connections, garbage that waits, and the race detector's shadow of both.
const streams = 96 << 20

// TestStalledReadersCostNoMemory lets commands write a GB each at clients that do
// not read. The commands stand still; the server neither fills up nor stalls.
func TestStalledReadersCostNoMemory(t *testing.T) {
	t.Parallel()
	best := levels(t)
	a := startAlone(t, best[len(best)-1])
	b, neighbour := a.create(""), a.create("")
	rose := a.watchMemory()
	const readers, blocks = 2, 1000
	var leave []func() error
	for i := range readers {
		st, _ := b.begin(sh(fmt.Sprintf(`i=0; while [ $i -lt %d ]; do head -c 1000000 /dev/zero || exit; i=$((i+1)); echo $i >at%d; done`, blocks, i)))
		leave = append(leave, st.Close)
	}
	at := func(i int) int {
		n, _ := strconv.Atoi(strings.TrimSpace(b.content(fmt.Sprint("at", i))))
		return n
	}
	for i := range readers {
		last, same := -1, 0
		require.Eventually(t, func() bool { // it stands where it stood, ten times in a row
			n := at(i)
			if same++; n != last {
				last, same = n, 0
			}
			return same == 10
		}, patience, 20*time.Millisecond)
		require.Less(t, last, blocks, "it goes on although nobody reads")
	}
	unharmed(a.client, neighbour)
	require.Equal(t, "hi\n", b.run("echo hi").stdout.String())
	require.Less(t, rose(), int64(streams))
	for _, l := range leave {
		require.NoError(t, l())
	}
	for i := range readers {
		require.Eventually(t, func() bool { return at(i) == blocks }, 6*patience, 20*time.Millisecond, "who left holds nobody up")
	}
	require.Less(t, rose(), int64(streams), "what nobody hears is not kept")
}

// TestSlowReaderMissesNothing reads byte by byte; the command waits for it.
func TestSlowReaderMissesNothing(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	body := strings.NewReader(whole(0, `{"process":{"cmd":"seq","args":["100000"]},"stdin":false}`))
	req, err := http.NewRequestWithContext(t.Context(), "POST", c.srv.URL()+"/process.Process/Start", body)
	require.NoError(t, err)
	b.sign(req, "Content-Type", "application/connect+json", "Connect-Protocol-Version", "1")
	res, err := c.http.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	var got bytes.Buffer
	for in := iotest.OneByteReader(res.Body); ; {
		var head [5]byte
		_, err := io.ReadFull(in, head[:])
		require.NoError(t, err)
		payload := make([]byte, binary.BigEndian.Uint32(head[1:]))
		_, err = io.ReadFull(in, payload)
		require.NoError(t, err)
		if head[0] == 2 {
			require.Equal(t, "{}", string(payload))
			break
		}
		var msg struct {
			Event struct{ Data struct{ Stdout []byte } }
		}
		require.NoError(t, json.Unmarshal(payload, &msg))
		got.Write(msg.Event.Data.Stdout)
	}
	require.True(t, lines(100_000) == got.String(), "%d bytes", got.Len())
}

// sign puts the headers that lead into the sandbox on a request.
func (b *testBox) sign(req *http.Request, more ...string) {
	h := append(b.headers(), more...)
	for i := 0; i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
}

// lines is what seq prints.
func lines(n int) string {
	var b []byte
	for i := 1; i <= n; i++ {
		b = append(strconv.AppendInt(b, int64(i), 10), '\n')
	}
	return string(b)
}

// TestStormOfLines has commands write 100,000 lines each to both outputs, a
// system call a line, several at once. Each line arrives, once and in order.
func TestStormOfLines(t *testing.T) {
	t.Parallel()
	best := levels(t)
	a := startAlone(t, best[len(best)-1])
	b, neighbour := a.create(""), a.create("")
	rose := a.watchMemory()
	want := lines(100_000)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			r := b.run("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo $i; echo $i >&2; done; exit 3")
			assert.NoError(t, r.err) //nolint:testifylint // not the test's goroutine
			assert.EqualValues(t, 3, r.end.GetExitCode())
			assert.True(t, want == r.stdout.String(), "%d bytes of stdout", r.stdout.Len())
			assert.True(t, want == r.stderr.String(), "%d bytes of stderr", r.stderr.Len())
		})
	}
	unharmed(a.client, neighbour)
	all.Wait()
	require.Less(t, rose(), int64(streams))
}

// noise is a body of n bytes that are nowhere in memory, and their sum.
type noise struct {
	left int64
	rand *rand.ChaCha8
	sum  hash.Hash
}

func newNoise(n int64) *noise {
	return &noise{left: n, rand: rand.NewChaCha8([32]byte{7}), sum: sha256.New()}
}

func (n *noise) Read(b []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), n.left)]
	_, _ = n.rand.Read(b)
	n.sum.Write(b)
	n.left -= int64(len(b))
	return len(b), nil
}

// TestHugeFilesAreStreamed sends a file of SANDJET_TEST_UPLOAD MiB (160), as it is
// and as a form, and reads it back. Neither way does the server hold it.
func TestHugeFilesAreStreamed(t *testing.T) {
	t.Parallel()
	size := int64(160)
	if s := os.Getenv("SANDJET_TEST_UPLOAD"); s != "" {
		var err error
		size, err = strconv.ParseInt(s, 10, 64)
		require.NoError(t, err, "SANDJET_TEST_UPLOAD is in MiB")
	}
	size <<= 20
	best := levels(t)
	a := startAlone(t, best[len(best)-1])
	b, neighbour := a.create(""), a.create("")
	rose := a.watchMemory()
	for _, form := range []bool{false, true} {
		body := newNoise(size)
		in, kind := io.Reader(body), octets
		if form {
			kind = "multipart/form-data; boundary=x"
			in = io.MultiReader(strings.NewReader("--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"n\"\r\n\r\n"),
				body, strings.NewReader("\r\n--x--\r\n"))
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", a.srv.URL()+"/files?path=huge", in)
		require.NoError(t, err)
		b.sign(req, "Content-Type", kind)
		r, err := a.do(req)
		require.NoError(t, err)
		require.Equal(t, 200, r.status, "%s", r.body)
		sum := hex.EncodeToString(body.sum.Sum(nil))
		require.Equal(t, sum, strings.Fields(b.run("sha256sum huge").stdout.String())[0])

		req, err = http.NewRequestWithContext(t.Context(), "GET", a.srv.URL()+"/files?path=huge", nil)
		require.NoError(t, err)
		b.sign(req)
		res, err := a.http.Do(req)
		require.NoError(t, err)
		back := sha256.New()
		n, err := io.Copy(back, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, size, n)
		require.Equal(t, sum, hex.EncodeToString(back.Sum(nil)))
		t.Logf("%d MiB, form %v: the server's memory rose by %d MiB at most", size>>20, form, rose()>>20)
		require.Less(t, rose(), int64(streams))
	}
	unharmed(a.client, neighbour)
}
