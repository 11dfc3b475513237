package events

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// listed are the kinds that tell of a job's state.
var listed = []Kind{
	KindAccepted, KindWaiting, KindClaimed, KindStarted, KindReattached, KindRetrying, KindInterrupted, KindCancelRequested,
	Succeeded, Failed, Cancelled, Dead,
}

// Jobs reads the jobs that were accepted since a time, as far as their state goes:
// without output, steps and progress. One that has ended comes when its end is
// read, the others at last, of whose the newest most. Jobs that are accepted
// while it reads may be among them or not.
func (l *Log) Jobs(ctx context.Context, since time.Time, most int) iter.Seq2[History, error] {
	return func(yield func(History, error) bool) {
		open := newOpen(most)
		on := true
		give := func(s stored) bool {
			e, err := l.event(s)
			if err != nil {
				return true // none of ours
			}
			if h, over := open.take(e); over {
				on = yield(h, nil)
			}
			return on
		}
		cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since}
		for _, k := range listed {
			cfg.FilterSubjects = append(cfg.FilterSubjects, l.subject(Job{Session: "*", ID: "*"}, k))
		}
		if err := l.readAll(ctx, l.stream, cfg, give); err != nil {
			if on {
				yield(History{}, fmt.Errorf("jobs: %w", err))
			}
			return
		}
		for _, key := range open.order {
			if h := open.jobs[key]; on && h != nil {
				on = yield(*h, nil)
			}
		}
	}
}

// open are jobs whose end was not read yet, in the order of their acceptance.
type open struct {
	most  int
	jobs  map[Job]*History
	order []Job // those that have ended, too, until there are many of them
}

func newOpen(most int) *open { return &open{most: most, jobs: map[Job]*History{}} }

// take adds an event to its job's history. over reports that it is the end.
func (o *open) take(e Event) (h History, over bool) {
	j := o.jobs[e.Job]
	switch {
	case e.Kind == KindAccepted && j == nil:
		j = &History{Job: e.Job}
		o.jobs[e.Job] = j
		o.order = append(o.order, e.Job)
		o.trim()
	case j == nil:
		return h, false // accepted before, or over
	}
	if j.take(e) != nil || !j.Ended() {
		return h, false
	}
	delete(o.jobs, e.Job)
	return *j, true
}

// trim forgets the oldest when there are too many.
func (o *open) trim() {
	for n := len(o.jobs); n > o.most; n = len(o.jobs) {
		delete(o.jobs, o.order[0])
		o.order = o.order[1:]
	}
	if len(o.order) <= 2*len(o.jobs)+1000 {
		return
	}
	live := o.order[:0:0]
	for _, key := range o.order {
		if o.jobs[key] != nil {
			live = append(live, key)
		}
	}
	o.order = live
}
