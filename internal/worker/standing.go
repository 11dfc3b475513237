package worker

import (
	"time"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/point"
)

// standing is how a delivered message stands to what its job's log says.
type standing int

const (
	free      standing = iota // nobody has claimed the job
	ended                     // the job has its terminal event
	heir                      // the last holder let go, or vanished: take over
	duplicate                 // another publication of the same job came first
	stale                     // the job has moved on to a younger message
	outrun                    // the server has delivered this message again since, and that delivery was taken up
	copied                    // an older message of the job is still being worked on
)

// stand compares a message with its job's history.
func stand(h events.History, j *jobs.Job) standing {
	switch {
	case point.Off(point.History):
		return heir
	case h.Ended():
		return ended
	}
	if !h.Claimed.OK() {
		return free
	}
	c := h.Claimed.Value
	switch {
	case c.Stream == j.Stream && c.StreamSeq == j.StreamSeq:
		// A worker that was frozen finds old deliveries when it wakes.
		if c.Delivery > j.Delivered {
			return outrun
		}
		return heir
	case c.Origin != j.Origin:
		return duplicate
	case younger(c.Stream, c.StreamSeq, j):
		return stale
	case handedOn(h):
		return heir
	}
	return copied
}

// younger reports whether the claim stands on a message that came after j's.
// A job moves from JOBS to the schedules and stays there.
func younger(stream string, seq uint64, j *jobs.Job) bool {
	if stream == j.Stream {
		return seq > j.StreamSeq
	}
	return !j.Rescheduled
}

// After so many holders in a row that vanished soon after their claim, the job is
// not tried again.
const maxCrashes = 2

// soon is how early a holder must vanish to have been taken down by the job:
// before its second beat. Later it was the machine, a deploy or the network.
func soon(ackWait time.Duration) time.Duration { return beatOf(ackWait) }

// beatOf is how often a job says that it is alive: three times within AckWait,
// and no less often than every 10 s.
func beatOf(ackWait time.Duration) time.Duration { return min(10*time.Second, ackWait/3) }

// succeed makes the claim of whoever takes a job up: its attempt, and how many
// holders in a row vanished on it.
func succeed(h events.History, ackWait time.Duration, now time.Time) events.Claimed {
	if !h.Claimed.OK() {
		return events.Claimed{Attempt: 1}
	}
	next := events.Claimed{Attempt: h.Claimed.Value.Attempt, Previous: h.Claimed.Seq}
	switch {
	case h.Retrying.Seq > h.Claimed.Seq:
		next.Attempt++
	case released(h):
	default:
		next.Takeover = true
		// The message came back AckWait after the holder's last beat. One that
		// came back sooner was given back, by a holder that could not say so.
		if lived := now.Sub(h.Claimed.Time) - ackWait; -ackWait/2 < lived && lived < soon(ackWait) {
			next.Crashes = h.Claimed.Value.Crashes + 1
		}
	}
	return next
}

// released reports whether the last holder let go of the job in good order.
func released(h events.History) bool {
	did := max(h.Claimed.Seq, h.Started.Seq, h.Reattached.Seq, h.Stdout.Seq, h.Stderr.Seq)
	return max(h.Waiting.Seq, h.Retrying.Seq, h.Interrupted.Seq) > did
}

// handedOn reports whether the last holder let go of the job so that another
// message of it could take its place.
func handedOn(h events.History) bool {
	if !released(h) {
		return false
	}
	waitedLast := h.Waiting.Seq > max(h.Retrying.Seq, h.Interrupted.Seq)
	return !waitedLast || h.Waiting.Value.Rescheduled
}
