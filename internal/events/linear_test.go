package events_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/natsx"
)

// What several clients did to one subject at a time, each over its own connection, is
// recorded: who began what when, what came of it, when it was known. A history is in
// order if some order of the operations, each at one moment between its beginning and
// its end, explains every answer.

// An operation whose outcome nobody learnt stays under way for ever: it may have taken
// place at any time since, or after everything else, which nobody has seen.
const never = math.MaxInt64

type history struct {
	begin   time.Time
	mu      sync.Mutex
	ops     []porcupine.Operation
	clients int
}

func (h *history) client() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients++
	return h.clients - 1
}

// do runs one operation and records it. out reports whether its outcome is known.
func (h *history) do(p *player, in any, act func() (out any, known bool)) {
	call := time.Since(h.begin).Nanoseconds()
	out, known := act()
	op := porcupine.Operation{ClientId: p.id, Input: in, Output: out, Call: call, Return: never}
	if known {
		op.Return = time.Since(h.begin).Nanoseconds()
	} else {
		p.id = h.client() // the old one is busy for ever
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// check looks for an order that explains the history, and shows it if there is none.
func (h *history) check(t *testing.T, m porcupine.Model) {
	t.Helper()
	res, info := porcupine.CheckOperationsVerbose(m, h.ops, 2*time.Minute)
	if res == porcupine.Ok {
		return
	}
	var b strings.Builder
	for _, op := range h.ops {
		until := "?"
		if op.Return != never {
			until = time.Duration(op.Return).String()
		}
		fmt.Fprintf(&b, "%3d  %v .. %s  %s\n", op.ClientId, time.Duration(op.Call), until, m.DescribeOperation(op.Input, op.Output))
	}
	f, err := os.CreateTemp("", "sandjet-history-*.html")
	require.NoError(t, err)
	require.NoError(t, porcupine.Visualize(m, info, f))
	require.NoError(t, f.Close())
	t.Fatalf("no order explains this history (%s), see %s:\n%s", res, f.Name(), b.String())
}

// player is one client. Its game's moves go through fault, which troubles a write.
type player struct {
	*worker
	id    int
	rng   *rand.Rand
	ops   *history
	proxy *proxy                           // nil: nothing happens to its connection
	fault func() (context.Context, func()) // what befalls the next write, and the end of it
}

// trouble begins what is to befall a write: the context to write under, and what to
// call afterwards. hit reports whether an answer may have been lost.
func (p *player) trouble(t *testing.T) (ctx context.Context, over func(), hit bool) {
	if p.fault == nil {
		return t.Context(), func() {}, false
	}
	ctx, over = p.fault()
	p.fault = nil
	return ctx, over, true
}

const (
	players  = 4  // of sound connections
	rounds   = 12 // moves of the one whose connection is cut
	perRound = 10 // moves of the others meanwhile
)

// play lets players move at once. One of them is behind a proxy, and in every third of
// its moves its write is not answered, or not sent, until the others have moved; then
// its connection is cut, and it gives up or goes on over a new one. At last each
// finishes the game.
func play(t *testing.T, s *site, seed uint64, seat func(*player) (move, finish func())) *history {
	t.Helper()
	ops := &history{begin: time.Now()}
	join := func(w *worker, px *proxy) *player {
		id := ops.client()
		return &player{worker: w, id: id, rng: rand.New(rand.NewPCG(seed, uint64(id))), ops: ops, proxy: px}
	}
	tickets := make(chan *sync.WaitGroup)
	var all sync.WaitGroup
	for range players {
		move, finish := seat(join(s.join(t), nil))
		all.Go(func() {
			for round := range tickets {
				move()
				round.Done()
			}
			finish()
		})
	}
	px := newProxy(t, s.url[len("nats://"):])
	frail := join(joinAt(t, s, px.addr, natsx.AckWait(300*time.Millisecond)), px)
	move, finish := seat(frail)
	for i := range rounds {
		var others sync.WaitGroup
		others.Add(perRound)
		all.Go(func() {
			for range perRound {
				tickets <- &others
			}
		})
		frail.fault = nil
		if i%3 == 2 {
			frail.fault = func() (context.Context, func()) { return frail.isolate(t, &others) }
		}
		move()
		others.Wait()
	}
	close(tickets)
	frail.fault = nil
	finish()
	all.Wait()
	return ops
}

// isolate makes the connection deaf or mute until the others have moved, and cuts it.
func (p *player) isolate(t *testing.T, others *sync.WaitGroup) (context.Context, func()) {
	ctx, cancel := context.WithCancel(t.Context())
	giveUp := p.rng.IntN(2) == 0
	if p.rng.IntN(3) == 0 {
		p.proxy.mute.Store(true)
	} else {
		p.proxy.deaf.Store(true)
	}
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		others.Wait()
		if giveUp {
			cancel()
		}
		p.proxy.cut(false)
	}()
	return ctx, func() { <-cut; cancel() }
}
