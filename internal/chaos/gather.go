package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/chaos/check"
	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

// gather writes down all that happened.
func (c *Campaign) gather(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	c.rec.Jobs = c.board.order
	c.mu.Lock()
	c.rec.Pulses, c.rec.Silences = c.pulses, c.silences
	c.mu.Unlock()
	for _, step := range []func(context.Context) error{
		c.gatherEvents, c.gatherLetters, c.gatherObjects, c.gatherRuns, c.gatherBoxes, c.gatherBounds, c.gatherViews, c.gatherLogs,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reader puts the events of the whole stream in their places.
type reader struct {
	c       *Campaign
	outputs map[events.Job]*pending
}

// pending is a command's output until its end is read.
type pending struct {
	out, err     check.Collected
	outAt, errAt map[int]int64 // where each attempt's part begins
}

func (c *Campaign) gatherEvents(ctx context.Context) error {
	r := &reader{c: c, outputs: map[events.Job]*pending{}}
	if err := c.each(ctx, events.StreamEvents, r.take); err != nil {
		return err
	}
	for id, states := range c.rec.States {
		if last := states[len(states)-1]; last.State != session.Destroyed { // of those the view may forget
			c.rec.Truth[id] = line(last.Seq, last.Record)
		}
	}
	return nil
}

// each reads a whole stream in order.
func (c *Campaign) each(ctx context.Context, stream string, take func(jetstream.Msg, *jetstream.MsgMetadata)) error {
	var last uint64
	if err := until(ctx, time.Minute, func(ctx context.Context) error {
		s, err := c.js.Stream(ctx, stream)
		if err == nil {
			last = s.CachedInfo().State.LastSeq
			if s.CachedInfo().State.Msgs == 0 {
				last = 0
			}
		}
		return err
	}); err != nil || last == 0 {
		return err
	}
	cons, err := c.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	it, err := cons.Messages(jetstream.PullMaxMessages(500))
	if err != nil {
		return err
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read stream %s: %w", stream, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		take(m, meta)
		if meta.Sequence.Stream >= last {
			return nil
		}
	}
}

func (r *reader) take(m jetstream.Msg, meta *jetstream.MsgMetadata) {
	c := r.c
	if bytes.Contains(m.Data(), []byte(c.rig.Boxes.Key)) {
		c.rec.Leaks = append(c.rec.Leaks, "event "+m.Subject())
	}
	t := tokens(m.Subject())
	if len(t) != 4 {
		return
	}
	seq := meta.Sequence.Stream
	if t[2] == wire.ReservedJob {
		var rec session.Record
		if json.Unmarshal(m.Data(), &rec) == nil {
			c.rec.States[t[1]] = append(c.rec.States[t[1]], check.State{Seq: seq, Time: meta.Timestamp, Record: rec})
		}
		return
	}
	key := events.Job{Session: t[1], ID: t[2]}
	j := c.board.jobs[key]
	if j == nil {
		return // one of the workers' own
	}
	e := check.Event{Seq: seq, Time: meta.Timestamp, Kind: events.Kind(t[3])}
	e.Token = events.Event{Header: m.Headers()}.Token()
	if source := m.Headers().Get("ce-source"); strings.Contains(source, "/worker/") {
		e.Writer = source[strings.LastIndexByte(source, '/')+1:]
	}
	if e.Kind.Output() {
		e.Offset, _ = strconv.ParseInt(m.Headers().Get(events.HeaderOffset), 10, 64)
		e.Size = len(m.Data())
	} else {
		e.Data = bytes.Clone(m.Data())
	}
	j.Events = append(j.Events, e)
	if j.Plan.Command() {
		r.output(j, key, e, m.Data())
	}
}

// output follows a command's output up to its end, and compares it there.
func (r *reader) output(j *check.Job, key events.Job, e check.Event, data []byte) {
	p := r.outputs[key]
	if p == nil {
		p = &pending{outAt: map[int]int64{}, errAt: map[int]int64{}}
		r.outputs[key] = p
	}
	switch {
	case e.Kind == events.Stdout:
		p.out.Add(e.Seq, e.Offset, data)
	case e.Kind == events.Stderr:
		p.err.Add(e.Seq, e.Offset, data)
	case e.Kind == events.KindStarted:
		var s events.Started
		if json.Unmarshal(e.Data, &s) == nil {
			p.outAt[s.Attempt], p.errAt[s.Attempt] = s.StdoutOffset, s.StderrOffset
		}
	case e.Kind.Terminal():
		var o events.Outcome
		if json.Unmarshal(e.Data, &o) != nil {
			return
		}
		j.Bytes = int64(len(p.out.Data) + len(p.err.Data))
		j.Output = append(j.Output, check.Output(j.Plan, events.Stdout, p.out, p.outAt, e.Kind, o)...)
		j.Output = append(j.Output, check.Output(j.Plan, events.Stderr, p.err, p.errAt, e.Kind, o)...)
		delete(r.outputs, key)
	}
}

func (c *Campaign) gatherLetters(ctx context.Context) error {
	return c.each(ctx, "DEAD", func(m jetstream.Msg, _ *jetstream.MsgMetadata) {
		h := m.Headers()
		c.rec.Letters = append(c.rec.Letters, check.Letter{
			Session: h.Get("Sandjet-Session"), Job: h.Get("Sandjet-Job"), Class: h.Get("Sandjet-Class"), Reason: h.Get("Sandjet-Reason"),
		})
		if bytes.Contains(m.Data(), []byte(c.rig.Boxes.Key)) {
			c.rec.Leaks = append(c.rec.Leaks, "dead letter "+m.Subject())
		}
	})
}

// gatherObjects compares what downloads brought back with what uploads took.
func (c *Campaign) gatherObjects(ctx context.Context) error {
	store, err := c.js.ObjectStore(ctx, events.BucketArtifact)
	if err != nil {
		return err
	}
	ups := map[string]string{}
	for _, j := range c.rec.Jobs {
		switch {
		case j.Plan.Flavour == plan.Upload:
			ups["out-"+j.Plan.ID] = j.Plan.Object
		case j.Plan.Flavour == plan.Download && succeeded(j):
			got, err := store.GetBytes(ctx, j.Plan.Object)
			if err != nil {
				j.Object = fmt.Sprintf("object %s: %v", j.Plan.Object, err)
			} else if want := plan.ObjectBytes(ups[j.Plan.Object]); !bytes.Equal(got, want) {
				j.Object = fmt.Sprintf("object %s has %d bytes that are not the %d of %s", j.Plan.Object, len(got), len(want), ups[j.Plan.Object])
			}
		}
	}
	return nil
}

func succeeded(j *check.Job) bool {
	for _, e := range j.Events {
		if e.Kind == events.Succeeded {
			return true
		}
	}
	return false
}

func (c *Campaign) gatherRuns(context.Context) error {
	for _, e := range c.rig.Ledger.Entries() {
		run, err := check.ParseRun(e.Run, e.Start, e.End)
		if err != nil {
			return err
		}
		c.rec.Runs = append(c.rec.Runs, run)
	}
	return nil
}

func (c *Campaign) gatherBoxes(ctx context.Context) error {
	boxes, err := c.rig.Boxes.Journal(ctx)
	if err != nil {
		return err
	}
	if c.rec.Calls, err = c.rig.Boxes.Calls(ctx); err != nil {
		return err
	}
	for _, b := range boxes {
		c.rec.Boxes = append(c.rec.Boxes, check.Box{
			ID: b.ID, Session: b.Metadata["sandjet-session"], Attempt: b.Metadata["sandjet-attempt"],
			Born: b.Born, Gone: b.Gone, Killed: c.killed[b.ID],
		})
	}
	return nil
}

// memory is how much a worker may ever have used here.
const memory = 512 << 20

func (c *Campaign) gatherBounds(ctx context.Context) error {
	for name := range c.js.ListStreams(ctx).Info() {
		if limit := name.Config.MaxBytes; limit > 0 {
			c.rec.Bounds = append(c.rec.Bounds, check.Bound{What: "bytes of stream " + name.Config.Name, Have: int64(name.State.Bytes), May: limit})
		}
	}
	for _, w := range c.rig.Workers {
		if n := w.Process().Peak(); n > 0 {
			c.rec.Bounds = append(c.rec.Bounds, check.Bound{What: "peak memory of worker " + w.Life(), Have: n, May: memory})
		}
	}
	return nil
}

// gatherLogs looks for the API key in what the workers said, and for jobs that they
// gave back.
func (c *Campaign) gatherLogs(context.Context) error {
	logs, err := filepath.Glob(filepath.Join(c.dir, "w*.log.*"))
	if err != nil {
		return err
	}
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte(c.rig.Boxes.Key)) {
			c.rec.Leaks = append(c.rec.Leaks, "log "+filepath.Base(path))
		}
		for l := range bytes.Lines(b) {
			var said struct {
				Time    time.Time
				Msg     string
				Worker  string
				Job     string `json:"job_id"`
				Session string `json:"session_id"`
			}
			if bytes.Contains(l, []byte("not let go in order")) && json.Unmarshal(l, &said) == nil {
				c.rec.Returns = append(c.rec.Returns, check.Return{Session: said.Session, Job: said.Job, Worker: said.Worker, At: said.Time})
			}
		}
	}
	return nil
}
