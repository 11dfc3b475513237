package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

const lifeWait = 30 * time.Second // AckWait of the life below

// life is a job's life as its log tells it, driven through stand and succeed, beside
// what somebody would tell who watched it: how many tries it had, and how many holders
// in a row the job took down.
type life struct {
	log events.History
	seq uint64
	now time.Time

	stream     string // of the newest message of the job, and its place there
	streamSeq  uint64
	deliveries int

	holder  bool // somebody has the job in hand
	let     bool // the last holder said that it let go
	failed  bool // the last try failed: the next is another one
	young   bool // the last holder vanished soon after its claim
	over    bool // the job has its terminal event
	tries   int
	crashes int
}

func newLife() *life {
	return &life{now: time.Unix(1_000_000, 0), stream: "JOBS", streamSeq: 7, deliveries: 1, seq: 1}
}

// job is the message as it is delivered.
func (l *life) job() *jobs.Job {
	return &jobs.Job{Stream: l.stream, StreamSeq: l.streamSeq, Delivered: l.deliveries, Origin: 7, Rescheduled: l.stream != "JOBS"}
}

// note gives the next event its place in the log.
func (l *life) note() uint64 {
	l.seq++
	return l.seq
}

// claim is a delivery that is taken up, or is not.
func (l *life) claim(t *rapid.T) {
	if l.holder {
		t.Skip("in hand")
	}
	was := stand(l.log, l.job())
	switch {
	case l.over:
		require.Equal(t, ended, was)
		return
	case !l.log.Claimed.OK():
		require.Equal(t, free, was)
	default:
		require.Equal(t, heir, was)
	}
	next := succeed(l.log, lifeWait, l.now)
	vanished := l.log.Claimed.OK() && !l.let
	switch {
	case !l.log.Claimed.OK(), l.failed:
		l.tries++
	}
	if vanished && l.young {
		l.crashes++
	} else {
		l.crashes = 0
	}
	require.Equal(t, l.tries, next.Attempt, "attempt")
	require.Equal(t, l.crashes, next.Crashes, "crashes")
	require.Equal(t, vanished, next.Takeover, "takeover")
	require.Equal(t, l.log.Claimed.Seq, next.Previous, "previous")

	j := l.job()
	next.Stream, next.StreamSeq, next.Delivery, next.Origin = j.Stream, j.StreamSeq, j.Delivered, j.Origin
	l.log.Claimed = events.Fact[events.Claimed]{Seq: l.note(), Time: l.now, Value: next}
	l.holder, l.let, l.failed, l.young = true, false, false, false
}

// held skips what only a holder can do.
func (l *life) held(t *rapid.T) {
	if !l.holder {
		t.Skip("not in hand")
	}
}

// work is what a holder writes while it has the job.
func (l *life) work(t *rapid.T) {
	l.held(t)
	seq := l.note()
	switch rapid.IntRange(0, 3).Draw(t, "event") {
	case 0:
		l.log.Started.Seq = seq
	case 1:
		l.log.Reattached.Seq = seq
	case 2:
		l.log.Stdout.Seq = seq
	case 3:
		l.log.Stderr.Seq = seq
	}
}

// crash ends the holder without a word. Its message comes back an AckWait after its
// last beat.
func (l *life) crash(t *rapid.T) {
	l.held(t)
	l.young = rapid.Bool().Draw(t, "young")
	lived := rapid.Int64Range(0, int64(soon(lifeWait))-1)
	if !l.young {
		lived = rapid.Int64Range(int64(soon(lifeWait)), int64(time.Hour))
	}
	l.now = l.now.Add(lifeWait + time.Duration(lived.Draw(t, "lived")))
	l.gone(t, false)
}

// giveBack is a holder that gives its message back, with a word or without.
func (l *life) giveBack(t *rapid.T) {
	l.held(t)
	l.let = rapid.Bool().Draw(t, "said")
	if l.let {
		l.log.Interrupted.Seq = l.note()
	}
	l.now = l.now.Add(time.Duration(rapid.Int64Range(0, int64(lifeWait/2)).Draw(t, "after")))
	l.gone(t, false)
}

// wait puts the job off, in the queue or in the schedules.
func (l *life) wait(t *rapid.T) {
	l.held(t)
	away := rapid.Bool().Draw(t, "away")
	l.let = true
	l.log.Waiting.Seq, l.log.Waiting.Value.Rescheduled = l.note(), away
	l.now = l.now.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "for")))
	l.gone(t, away)
}

// retry is a try that failed.
func (l *life) retry(t *rapid.T) {
	l.held(t)
	l.let, l.failed = true, true
	l.log.Retrying.Seq = l.note()
	l.now = l.now.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "delay")))
	l.gone(t, true)
}

// gone leaves the job to its next delivery, of the same message or of a younger one.
func (l *life) gone(t *rapid.T, away bool) {
	l.holder = false
	if !away || rapid.Bool().Draw(t, "same message") {
		l.deliveries++
		return
	}
	if l.stream == "JOBS" {
		l.stream, l.streamSeq = "SCHEDULES", 0
	}
	l.streamSeq += uint64(rapid.IntRange(1, 100).Draw(t, "further"))
	l.deliveries = 1
}

// cancel is a wish, and by itself changes nothing.
func (l *life) cancel(*rapid.T) { l.log.Cancel.Seq = l.note() }

// end is the terminal event.
func (l *life) end(t *rapid.T) {
	l.held(t)
	l.log.Terminal = rapid.SampledFrom([]events.Kind{events.Succeeded, events.Failed, events.Cancelled, events.Dead}).Draw(t, "kind")
	l.log.Outcome.Seq = l.note()
	l.over, l.holder = true, false
	l.deliveries++
}

// strangers are messages that must not take the job up: an old delivery of the one
// that was claimed, an older message, another publication of the same job.
func (l *life) strangers(t *rapid.T) {
	if !l.log.Claimed.OK() {
		return
	}
	c := l.log.Claimed.Value
	refused := func(want standing, j *jobs.Job) {
		if l.over {
			want = ended
		}
		require.Equal(t, want, stand(l.log, j))
	}
	refused(outrun, &jobs.Job{Stream: c.Stream, StreamSeq: c.StreamSeq, Delivered: c.Delivery - 1, Origin: c.Origin, Rescheduled: c.Stream != "JOBS"})
	refused(duplicate, &jobs.Job{Stream: "JOBS", StreamSeq: 99, Delivered: 1, Origin: 99})
	if c.Stream != "JOBS" {
		refused(stale, &jobs.Job{Stream: "JOBS", StreamSeq: 7, Delivered: 2, Origin: 7})
		refused(stale, &jobs.Job{Stream: c.Stream, StreamSeq: c.StreamSeq - 1, Delivered: 9, Origin: 7, Rescheduled: true})
	}
	if l.holder {
		refused(copied, &jobs.Job{Stream: "SCHEDULES", StreamSeq: c.StreamSeq + 1, Delivered: 1, Origin: 7, Rescheduled: true})
	}
}

// Whatever becomes of a job and its holders: an attempt is a try that followed a failed
// one and nothing else, crashes are holders in a row that vanished soon, what has ended
// stays so, and no stray message takes it up.
func TestAnyLifeCountsWhatHappened(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLife()
		t.Repeat(map[string]func(*rapid.T){
			"claim": l.claim, "work": l.work, "crash": l.crash, "give back": l.giveBack,
			"wait": l.wait, "retry": l.retry, "cancel": l.cancel, "end": l.end,
			"": l.strangers,
		})
	})
}
