package check

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	stdbytes "bytes"

	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// Collected is an output as its messages made it up.
type Collected struct {
	Data   []byte
	Faults []string
}

// Add takes the next message of the output.
func (c *Collected) Add(seq uint64, offset int64, data []byte) {
	switch have := int64(len(c.Data)); {
	case offset > have:
		c.Faults = append(c.Faults, fmt.Sprintf("a gap of %d bytes before %d", offset-have, seq))
	case offset < have:
		c.Faults = append(c.Faults, fmt.Sprintf("%d bytes twice at %d", min(have-offset, int64(len(data))), seq))
	}
	c.Data = append(c.Data, data...)
}

// Output compares what a command's subscribers got with what it wrote: begins are
// where each attempt's part begins, in order of the attempts.
func Output(j *plan.Job, kind events.Kind, got Collected, begins map[int]int64, end events.Kind, out events.Outcome) []string {
	faults := got.Faults
	complain := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: ", kind)+fmt.Sprintf(format, args...))
	}
	bytes, sum, dropped := out.StdoutBytes, out.StdoutSHA256, out.StdoutDropped
	write := j.Script.Stdout
	if kind == events.Stderr {
		bytes, sum, dropped = out.StderrBytes, out.StderrSHA256, out.StderrDropped
		write = j.Script.Stderr
	}
	if bytes != int64(len(got.Data)) {
		complain("the end tells of %d bytes, subscribers got %d", bytes, len(got.Data))
	}
	whole := sha256.Sum256(got.Data)
	if want := hex.EncodeToString(whole[:]); sum != want && (sum != "" || len(got.Data) > 0) {
		complain("the end tells of hash %.12s, subscribers got %.12s", sum, want)
	}
	if dropped != 0 {
		complain("%d bytes dropped below the cap", dropped)
	}
	ran := slices.Sorted(maps.Keys(begins)) // one that failed before its command is not among them
	for i, attempt := range ran {
		from, to := begins[attempt], int64(len(got.Data))
		last := i == len(ran)-1
		if !last {
			to = begins[ran[i+1]]
		}
		if from > to || to > int64(len(got.Data)) {
			complain("attempt %d has bytes %d to %d of %d", attempt, from, to, len(got.Data))
			continue
		}
		piece, want := got.Data[from:to], write(j.ID, attempt)
		switch n := common(piece, want); {
		case n < len(piece):
			complain("attempt %d: from its byte %d on subscribers got %.40q, want %.40q", attempt, n, piece[n:], want[n:])
		case last && complete(end, out) && len(piece) != len(want):
			complain("attempt %d wrote %d bytes, subscribers got %d", attempt, len(want), len(piece))
		}
	}
	return faults
}

// complete reports whether the last attempt's command came to its own end.
func complete(end events.Kind, out events.Outcome) bool {
	return end == events.Succeeded || end == events.Failed && jobs.Class(out.Class) == jobs.ClassCommandFailed && out.ExitCode != nil && out.Signal == ""
}

// common is how many bytes two slices begin with alike.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	if stdbytes.Equal(a[:n], b[:n]) {
		return n
	}
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// bytes is promise 3, which was looked at while the events were read: the bytes
// themselves are not kept.
func bytes(r *Result) {
	for _, j := range r.r.Jobs {
		from, to := j.span()
		if j.Plan.Command() && len(j.claims()) > 0 {
			r.saw(3, 1, from, to)
		}
		for _, what := range j.Output {
			r.job(3, j, "%s", what)
		}
		if j.Object != "" {
			r.job(3, j, "%s", j.Object)
		}
	}
}

// fence is promise 4: after a claim nothing is written under an older one, nor by
// anybody but its holder.
func fence(r *Result) {
	for _, j := range r.r.Jobs {
		var holder claim
		n := 0
		for _, e := range j.Events {
			switch e.Kind {
			case events.KindAccepted, events.KindCancelRequested:
				continue
			case events.KindClaimed:
				holder = claim{e, decode[events.Claimed](e)}
				continue
			}
			if holder.Seq == 0 {
				continue // written by the queue's own side, before anybody claimed it
			}
			n++
			switch {
			case e.Writer != "" && e.Writer != holder.Worker:
				r.job(4, j, "%s at %d is worker %s's, and %s had claimed the job at %d", e.Kind, e.Seq, e.Writer, holder.Worker, holder.Seq)
			case e.Token != 0 && e.Token != holder.Seq:
				r.job(4, j, "%s at %d was written under %d, and the claim was %d", e.Kind, e.Seq, e.Token, holder.Seq)
			}
		}
		from, to := j.span()
		r.saw(4, n, from, to)
	}
}
