package jobs

import "time"

// Hold is where a job spends a wait.
type Hold int

// The holds, from the shortest wait to the longest.
const (
	Park       Hold = iota // in the worker, without a slot
	GiveBack               // with the server, on the consumer's pending list
	Reschedule             // in SCHEDULES, off the consumer
)

// How long a wait may be for its hold. Beyond MaxHold a job would take one of
// the consumer's MaxAckPending places from jobs that could run.
const (
	MaxPark = 2 * time.Second
	MaxHold = 30 * time.Second
)

// HoldFor says where a job spends a wait of that length.
func HoldFor(wait time.Duration) Hold {
	switch {
	case wait <= MaxPark:
		return Park
	case wait <= MaxHold:
		return GiveBack
	}
	return Reschedule
}

// String names the hold.
func (h Hold) String() string {
	switch h {
	case Park:
		return "park"
	case GiveBack:
		return "give back"
	}
	return "reschedule"
}
