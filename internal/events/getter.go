package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// getter reads messages from any replica of a stream ("direct get"), many with one
// request. All requests share one reply subscription. A replica may lag behind the
// leader, but what it has is a prefix of what the leader has.
type getter struct {
	nc     *nats.Conn
	sub    *nats.Subscription
	api    string // where to ask; the stream's name follows
	prefix string // of the reply subjects

	mu    sync.Mutex
	last  uint64
	pages map[uint64]*page
}

// page collects the answers to one request.
type page struct {
	batch bool // many were asked for
	msgs  []stored
	// complete is false if answers were lost on the way; what is there has no hole.
	complete bool
	err      error
	done     chan struct{}
}

var errNoAnswer = errors.New("no replica answers")

func newGetter(nc *nats.Conn) (*getter, error) {
	g := &getter{nc: nc, api: apiDirect, prefix: nc.NewInbox() + ".", pages: make(map[uint64]*page)}
	sub, err := nc.Subscribe(g.prefix+"*", g.take)
	if err != nil {
		return nil, fmt.Errorf("subscribe to direct gets: %w", err)
	}
	// Every request bounds its own answers, so dropping some would only cost time.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, errors.Join(err, sub.Unsubscribe())
	}
	g.sub = sub
	return g, nil
}

func (g *getter) close() error {
	err := g.sub.Unsubscribe()
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubscription) {
		return nil
	}
	return err
}

// fetch answers req from stream. It asks again until there is an answer or ctx
// ends. No message is no error.
func (g *getter) fetch(ctx context.Context, stream string, req request) ([]stored, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		p, err := g.once(ctx, g.api+stream, body, req.Batch > 0 || len(req.MultiLast) > 0)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read stream %s: %w", stream, err)
		case p.err == nil && (p.complete || len(p.msgs) > 0 && len(req.MultiLast) == 0):
			return p.msgs, nil
		case p.err != nil && !errors.Is(p.err, errNoAnswer):
			return nil, fmt.Errorf("read stream %s: %w", stream, p.err)
		}
		if err := backoff(ctx, try+5); err != nil {
			return nil, fmt.Errorf("read stream %s: %w", stream, errors.Join(err, p.err))
		}
	}
}

func (g *getter) once(ctx context.Context, subject string, body []byte, batch bool) (*page, error) {
	p := &page{batch: batch, done: make(chan struct{})}
	g.mu.Lock()
	g.last++
	id := g.last
	g.pages[id] = p
	g.mu.Unlock()
	defer g.drop(id)

	err := g.nc.PublishRequest(subject, g.prefix+strconv.FormatUint(id, 36), body)
	if err != nil && !errors.Is(err, nats.ErrReconnectBufExceeded) {
		return nil, err
	}
	t := time.NewTimer(answerWait)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		g.drop(id) // from here on the page is ours
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return p, nil
}

func (g *getter) drop(id uint64) {
	g.mu.Lock()
	delete(g.pages, id)
	g.mu.Unlock()
}

// take reads one answer; it runs on the subscription's goroutine.
func (g *getter) take(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(g.prefix):], 36, 64)
	if err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pages[id]
	if p == nil {
		return
	}
	if p.add(m) {
		delete(g.pages, id)
		close(p.done)
	}
}

// add takes one answer and reports whether it was the last.
func (p *page) add(m *nats.Msg) bool {
	status := m.Header.Get("Status")
	if m.Header.Get("Nats-Stream") != "" {
		status = "" // what is stored may say anything of itself
	}
	switch status {
	case "":
	case "204": // end of batch
		last, _ := strconv.ParseUint(m.Header.Get("Nats-Last-Sequence"), 10, 64)
		p.complete = len(p.msgs) > 0 && p.msgs[len(p.msgs)-1].Seq == last
		return true
	case "404":
		p.complete = true
		return true
	case "503":
		p.err = errNoAnswer
		return true
	default:
		p.err = fmt.Errorf("%s %s", status, m.Header.Get("Description"))
		return true
	}
	s, err := direct(m)
	if err != nil {
		p.err = err
		return true
	}
	if !p.batch {
		p.msgs, p.complete = append(p.msgs, s), true
		return true
	}
	before := said(m, "Nats-Last-Sequence") // of the message before it in this batch
	var have uint64
	if n := len(p.msgs); n > 0 {
		have = p.msgs[n-1].Seq
	}
	if before != strconv.FormatUint(have, 10) {
		return true // an answer was lost on the way
	}
	p.msgs = append(p.msgs, s)
	return false
}

// said is what the server says of a message. It adds its headers to those that are
// stored, which may be of the same names.
func said(m *nats.Msg, name string) string {
	if all := m.Header.Values(name); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// direct reads a message that came as the answer to a direct get.
func direct(m *nats.Msg) (stored, error) {
	seq, err := strconv.ParseUint(said(m, "Nats-Sequence"), 10, 64)
	if err != nil {
		return stored{}, fmt.Errorf("direct get: sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, said(m, "Nats-Time-Stamp"))
	if err != nil {
		return stored{}, fmt.Errorf("direct get: message %d: time: %w", seq, err)
	}
	return stored{Subject: said(m, "Nats-Subject"), Seq: seq, Time: at, Header: m.Header, Data: m.Data}, nil
}
