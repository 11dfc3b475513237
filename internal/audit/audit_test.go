package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/audit"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/stack"
)

const eventually = 60 * time.Second

// site is a server with the stream, as a worker sets it up but for what keeps people
// from tampering with it.
type site struct {
	t   *testing.T
	nc  *nats.Conn
	js  jetstream.JetStream
	pub *natsx.Publisher
}

func newSite(t *testing.T) *site {
	t.Helper()
	srv, err := stack.StartNATS(stack.NATSOptions{StoreDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	s := &site{t: t}
	s.nc, err = nats.Connect(srv.ClientURL())
	require.NoError(t, err)
	t.Cleanup(s.nc.Close)
	s.js, err = jetstream.New(s.nc)
	require.NoError(t, err)
	s.pub, err = natsx.NewPublisher(s.nc)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.pub.Close() })
	return s
}

func (s *site) stream() jetstream.Stream {
	s.t.Helper()
	var st jetstream.Stream
	var err error
	// The server may still be removing the files of the one before.
	require.Eventually(s.t, func() bool {
		st, err = s.js.CreateStream(s.t.Context(), jetstream.StreamConfig{Name: audit.Stream, Subjects: []string{"audit.>"}})
		return err == nil
	}, eventually, 20*time.Millisecond, "stream not made anew")
	return st
}

// writer is a process at work.
type writer struct {
	*audit.Writer
	done chan struct{}
}

func (s *site) writer(name string) *writer {
	w := &writer{audit.NewWriter(s.js, s.pub, "", name, slog.New(slog.DiscardHandler)), make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { defer close(w.done); w.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-w.done })
	return w
}

// end closes the writer, and reports whether it has ended.
func (w *writer) end() bool {
	w.Close()
	select {
	case <-w.done:
		return true
	case <-time.After(eventually):
		return false
	}
}

// flush waits for a session's records, also where that takes longer than an end waits.
func (w *writer) flush(session string) (err error) {
	for deadline := time.Now().Add(eventually); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = w.Flush(context.Background(), session); err == nil {
			return nil
		}
	}
	return err
}

// write writes n records and waits for them.
func (s *site) write(w *writer, n int) {
	s.t.Helper()
	for i := range n {
		w.Add(audit.Record{Owner: "o", Session: "s", Job: fmt.Sprintf("j%d", i), System: audit.E2B, Action: "run", Outcome: audit.OK}.WithArgv([]string{"echo", fmt.Sprint(i)}))
	}
	require.NoError(s.t, w.flush("s"))
}

func (s *site) verify() audit.Report {
	s.t.Helper()
	r, err := audit.Verify(s.t.Context(), s.js, "")
	require.NoError(s.t, err)
	return r
}

// Processes that write at once: the records of a session stand in one chain of each, in
// the order in which they were added, and all is well.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.stream()
	require.True(t, s.verify().Whole())
	var wg sync.WaitGroup
	for i := range 4 {
		w := s.writer(fmt.Sprintf("w%d", i))
		wg.Go(func() {
			var adders sync.WaitGroup
			for session := range 10 {
				adders.Go(func() {
					for n := range 20 {
						w.Add(audit.Record{Session: fmt.Sprint(session), Job: fmt.Sprint(n), Action: "run", Outcome: audit.OK})
					}
				})
			}
			adders.Wait()
			if i > 0 {
				if !w.end() {
					t.Error("the writer does not end")
				}
				return
			}
			for session := range 10 {
				if err := w.flush(fmt.Sprint(session)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r := s.verify()
	require.Empty(t, r.Faults)
	ends := 0
	for _, c := range r.Chains {
		require.Equal(t, c.Worker != "w0", c.Closed, c.Worker)
		require.Zero(t, c.Lost)
		if c.Closed {
			ends++
		}
	}
	require.Equal(t, 4*200+ends, r.Records)
	require.Greater(t, len(r.Chains), 2*4, "they are not written side by side")
	type story struct{ worker, session string }
	chains, jobs := map[story]string{}, map[story]int{}
	n := 0
	for rec, err := range audit.Read(t.Context(), s.js, "") {
		require.NoError(t, err)
		require.Equal(t, rec.Hash, rec.Says)
		n++
		if rec.Record.Action != "run" {
			continue
		}
		of := story{rec.Record.Worker, rec.Record.Session}
		if jobs[of] > 0 {
			require.Equal(t, chains[of], rec.Record.Chain)
		}
		require.Equal(t, fmt.Sprint(jobs[of]), rec.Record.Job, "%+v", of)
		chains[of] = rec.Record.Chain
		jobs[of]++
	}
	require.Equal(t, r.Records, n)
}

// message is a record on its way into a forged stream.
type message struct {
	subject, hash string
	data          []byte
}

// forge makes the stream anew with other messages.
func (s *site) forge(change func([]message) []message) {
	s.t.Helper()
	var all []message
	for rec, err := range audit.Read(s.t.Context(), s.js, "") {
		require.NoError(s.t, err)
		st, err := s.js.Stream(s.t.Context(), audit.Stream)
		require.NoError(s.t, err)
		m, err := st.GetMsg(s.t.Context(), rec.Seq)
		require.NoError(s.t, err)
		all = append(all, message{m.Subject, rec.Says, m.Data})
	}
	require.NoError(s.t, s.js.DeleteStream(s.t.Context(), audit.Stream))
	s.stream()
	for _, m := range change(all) {
		msg := nats.NewMsg(m.subject)
		msg.Data = m.data
		msg.Header.Set(audit.HeaderHash, m.hash)
		_, err := s.js.PublishMsg(s.t.Context(), msg)
		require.NoError(s.t, err)
	}
}

// Each way to tamper with the records is found, and where. In the stream: five of a, its
// end, then five of b and its end.
func TestVerifyFindsTampering(t *testing.T) {
	t.Parallel()
	reworded := func(m message) message {
		m.data = []byte(strings.Replace(string(m.data), `"owner":"o"`, `"owner":"x"`, 1))
		return m
	}
	rehashed := func(m message) message {
		m = reworded(m)
		m.hash = audit.Hash(m.data)
		return m
	}
	for name, tc := range map[string]struct {
		change func([]message) []message
		seq    uint64
		n      uint64
		says   string
	}{
		"untouched":         {change: func(m []message) []message { return m }},
		"removed":           {func(m []message) []message { return append(m[:2:2], m[3:]...) }, 3, 4, "removed or moved: record 3 of its chain"},
		"several removed":   {func(m []message) []message { return append(m[:1:1], m[3:]...) }, 2, 4, "records 2 to 3 of its chain"},
		"beginning removed": {func(m []message) []message { return m[2:] }, 1, 3, "records 1 to 2 of its chain"},
		"end removed":       {func(m []message) []message { return append(m[:5:5], m[6:]...) }, 6, 1, "it was written after record 6"},
		"chain removed":     {func(m []message) []message { return m[6:] }, 1, 1, "records before it were removed: it was written after record 6"},
		"changed":           {func(m []message) []message { m[2] = reworded(m[2]); return m }, 3, 3, "its header has another hash"},
		"changed with hash": {func(m []message) []message { m[2] = rehashed(m[2]); return m }, 4, 4, "the record before it in its chain, number 3, was changed"},
		"newest changed":    {func(m []message) []message { m[10] = reworded(m[10]); return m }, 11, 5, "its header has another hash"},
		"swapped":           {func(m []message) []message { m[1], m[2] = m[2], m[1]; return m }, 2, 3, "record 2 of its chain, before it"},
		"moved to the end":  {func(m []message) []message { return append(append(m[:1:1], m[2:]...), m[1]) }, 2, 3, "record 2 of its chain, before it"},
		"doubled":           {func(m []message) []message { return append(m[:3:3], m[2:]...) }, 4, 3, "stands after number 3 of its chain"},
		"chains swapped":    {func(m []message) []message { return append(m[6:len(m):len(m)], m[:6]...) }, 1, 1, "records before it were removed: it was written after record 6"},
		"somebody else's":   {func(m []message) []message { return append(m, message{"audit.x.y", "", []byte("hello")}) }, 13, 0, "written by somebody else"},
		"of another chain":  {func(m []message) []message { m[3].subject = m[8].subject; return m }, 4, 0, "stands on audit.b."},
		"after the close":   {func(m []message) []message { return append(m, after(m[5])) }, 13, 7, "its chain was closed before it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.stream()
			for _, who := range []string{"a", "b"} {
				w := s.writer(who)
				s.write(w, 5)
				require.True(t, w.end())
			}
			s.forge(tc.change)
			r := s.verify()
			if tc.says == "" {
				require.Empty(t, r.Faults)
				return
			}
			require.False(t, r.Whole())
			require.Equal(t, tc.seq, r.Faults[0].Seq, "%+v", r.Faults)
			require.Equal(t, tc.n, r.Faults[0].N, "%+v", r.Faults)
			require.Contains(t, r.Faults[0].What, tc.says)
		})
	}
}

// What the records cannot show by themselves is found by heads that were kept elsewhere.
func TestVerifyByKeptHeads(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func([]message) []message
		seq    uint64
		says   string
	}{
		"grown since": {change: func(m []message) []message { return m }},
		"newest changed with hash": {func(m []message) []message {
			m[4].data = []byte(strings.Replace(string(m[4].data), `"owner":"o"`, `"owner":"x"`, 1))
			m[4].hash = audit.Hash(m[4].data)
			return m[:5]
		}, 5, "changed or moved since its hash was kept"},
		"an older copy": {func(m []message) []message { return m[:3] }, 3, "it ends here, and ended at record 5"},
		"another stream": {func(m []message) []message {
			return slices.Collect(func(yield func(message) bool) {
				for i := range 6 { // a chain that is whole in itself
					r := audit.Record{V: 1, Chain: "a.other", N: uint64(i + 1), Action: "run"}
					if i > 0 {
						r.Prev = m[i-1].hash
					}
					data, _ := json.Marshal(r)
					m[i] = message{"audit.a.other", audit.Hash(data), data}
					if !yield(m[i]) {
						return
					}
				}
			})
		}, 5, "changed or moved since its hash was kept"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.stream()
			w := s.writer("a")
			s.write(w, 5)
			kept := s.verify()
			s.write(w, 2)
			s.forge(tc.change)
			require.Empty(t, s.verify().Faults, "it shows without them")
			r, err := audit.Verify(t.Context(), s.js, "", kept)
			require.NoError(t, err)
			if tc.says == "" {
				require.Empty(t, r.Faults)
				return
			}
			require.NotEmpty(t, r.Faults)
			require.Equal(t, tc.seq, r.Faults[0].Seq, "%+v", r.Faults)
			require.Contains(t, r.Faults[0].What, tc.says)
		})
	}
}

// after is a record that follows m by all that its chain says.
func after(m message) message {
	var r audit.Record
	if err := json.Unmarshal(m.data, &r); err != nil {
		panic(err)
	}
	r.N, r.Prev, r.Action = r.N+1, audit.Hash(m.data), "run"
	data, _ := json.Marshal(r)
	return message{m.subject, audit.Hash(data), data}
}

// What is taken out of the stream itself leaves a hole in its sequences, also at its
// end. What its limits let go of at its beginning is no fault.
func TestVerifyFindsHoles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		remove []uint64
		seq    uint64
		says   string
	}{
		"in the middle": {[]uint64{4, 5}, 4, "removed: records 4 to 5"},
		"at the end":    {[]uint64{9, 10}, 9, "removed: records 9 to 10"},
		"by its limits": {remove: []uint64{1, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			st := s.stream()
			s.write(s.writer("a"), 10)
			for _, seq := range tc.remove {
				require.NoError(t, st.DeleteMsg(t.Context(), seq))
			}
			r := s.verify()
			if tc.says == "" {
				require.Empty(t, r.Faults)
				return
			}
			require.NotEmpty(t, r.Faults)
			require.Equal(t, tc.seq, r.Faults[0].Seq)
			require.Equal(t, tc.says, r.Faults[0].What)
		})
	}
}

// While nobody takes records an end waits once, and no longer; then they are stored.
func TestNoStreamForAWhile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.writer("a")
	w.Add(audit.Record{Session: "s", Action: "run", Outcome: audit.OK})
	require.ErrorContains(t, w.Flush(t.Context(), "s"), "not stored within")
	require.ErrorContains(t, w.Flush(t.Context(), "s"), "takes none at present")
	s.stream()
	require.NoError(t, w.flush("s"))
	require.True(t, w.end())
	r := s.verify()
	require.Empty(t, r.Faults)
	require.Equal(t, 2, r.Records)
}

// What is refused is counted, and the next record says so.
func TestRefusedRecordsAreCounted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	_, err := s.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: audit.Stream, Subjects: []string{"audit.>"}, MaxMsgSize: 1000})
	require.NoError(t, err)
	w := s.writer("a")
	s.write(w, 1)
	w.Add(audit.Record{Session: "s", Action: "run", Outcome: "internal", Detail: strings.Repeat("x", 2000)})
	w.Add(audit.Record{Session: "s", Action: "run", Outcome: audit.OK})
	require.NoError(t, w.flush("s"))
	require.True(t, w.end())
	r := s.verify()
	require.Empty(t, r.Faults)
	require.Equal(t, 3, r.Records)
	require.Equal(t, 1, r.Chains[0].Lost)
}

func TestWithArgv(t *testing.T) {
	t.Parallel()
	long := []string{"sh", strings.Repeat("x", 10_000), "more", "and more"}
	r := audit.Record{}.WithArgv(long)
	require.Less(t, len(strings.Join(r.Argv, "")), 5000)
	require.NotEqual(t, r.ArgvSHA256, audit.Record{}.WithArgv(long[:3]).ArgvSHA256, "the hash is of the cut text")
	require.Equal(t, []string{"a", "b"}, audit.Record{}.WithArgv([]string{"a", "b"}).Argv)
}
