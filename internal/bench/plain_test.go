package bench

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// plain is what S1 and S2 work with: a queue and an event stream like the
// worker's, and a Redis client as it comes.
type plain struct {
	*world
	nc    *nats.Conn
	js    jetstream.JetStream
	queue jetstream.Consumer
	kv    *redis.Client
}

func newPlain(w *world) *plain {
	p := &plain{world: w}
	ctx := w.Context()
	var err error
	p.nc, err = nats.Connect(w.nats.addr)
	require.NoError(w, err)
	w.Cleanup(p.nc.Close)
	p.js, err = jetstream.New(p.nc)
	require.NoError(w, err)
	queue, err := p.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "PLAIN", Subjects: []string{"plain.>"}, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
	})
	require.NoError(w, err)
	p.queue, err = queue.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "plain", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10_000,
	})
	require.NoError(w, err)
	_, err = p.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "PLAINEVENTS", Subjects: []string{"plainevent.>"}, AllowDirect: true,
	})
	require.NoError(w, err)
	p.kv = redis.NewClient(&redis.Options{Addr: w.redis.Addr})
	w.Cleanup(func() { _ = p.kv.Close() })
	return p
}

// s1 consumes and acks.
func (p *plain) s1(n int) cost {
	p.fill("plain.job", n, resumeRest)
	return p.measure("PLAIN", n, func() func() {
		cc, err := p.queue.Consume(func(m jetstream.Msg) { _ = m.Ack() })
		require.NoError(p, err)
		return cc.Stop
	})
}

// s2 is the program that one would write first.
func (p *plain) s2(n int) cost {
	p.fill("plain.job", n, resumeRest)
	return p.measure("PLAIN", n, func() func() {
		work := make(chan jetstream.Msg)
		var hands sync.WaitGroup
		for range slots {
			hands.Go(func() {
				for m := range work {
					p.straight(m)
				}
			})
		}
		cc, err := p.queue.Consume(func(m jetstream.Msg) { work <- m })
		require.NoError(p, err)
		return func() { cc.Stop(); <-cc.Closed(); close(work); hands.Wait() }
	})
}

type plainJob struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Reason  string `json:"reason"`
}

type plainEvent struct {
	Worker  string `json:"worker"`
	Attempt int    `json:"attempt"`
	Class   string `json:"class,omitempty"`
}

func (p *plain) straight(m jetstream.Msg) {
	ctx := context.Background()
	var j plainJob
	p.check(json.Unmarshal(m.Data(), &j))
	p.check(p.kv.HSet(ctx, "plain:"+j.Session, "job", j.ID).Err())
	p.tell(ctx, j, "started", plainEvent{Worker: "w", Attempt: 1})
	p.tell(ctx, j, "succeeded", plainEvent{Worker: "w", Attempt: 1, Class: "ok"})
	p.check(m.Ack())
}

func (p *plain) tell(ctx context.Context, j plainJob, kind string, e plainEvent) {
	body, err := json.Marshal(e)
	p.check(err)
	_, err = p.js.Publish(ctx, "plainevent."+j.Session+"."+j.ID+"."+kind, body)
	p.check(err)
}

func (p *plain) check(err error) {
	if err != nil {
		p.Error(err)
	}
}

// s1Latency publishes n messages, one at a time, and returns the times until
// their handler has them.
func (p *plain) s1Latency(n int) (seen []time.Duration) {
	at := make(chan time.Time, 1)
	cc, err := p.queue.Consume(func(m jetstream.Msg) { at <- time.Now(); _ = m.Ack() })
	require.NoError(p, err)
	defer func() { cc.Stop(); <-cc.Closed() }()
	for range n {
		_, body := p.body(resumeRest)
		begun := time.Now()
		require.NoError(p, p.world.nc.Publish("plain.job", body))
		select {
		case t := <-at:
			seen = append(seen, t.Sub(begun))
		case <-time.After(10 * time.Second):
			p.Fatal("no message")
		}
		time.Sleep(lowLoad)
	}
	return seen
}

// lowLoad is the pause between two jobs whose latency is measured.
const lowLoad = 2 * time.Millisecond
