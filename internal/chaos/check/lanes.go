package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/events"
)

// slack is by how much two readings of one clock may differ on a busy machine.
const slack = 100 * time.Millisecond

// laned is an exclusive job with its place in the lane.
type laned struct {
	*Job
	origin  uint64
	started uint64 // sequence of its first start
	at      time.Time
}

// lanes is promise 5: exclusive jobs of a session start in the order in which they
// were accepted, and no two of their commands run at once.
func lanes(r *Result) {
	bySession := map[string][]laned{}
	exclusive := map[string]bool{}
	for _, j := range r.r.Jobs {
		if !j.Plan.Exclusive {
			continue
		}
		exclusive[j.Key()] = true
		l := laned{Job: j}
		for _, c := range j.claims() {
			l.origin = cmp.Or(l.origin, c.Origin)
		}
		if s := j.of(events.KindStarted); len(s) > 0 {
			l.started, l.at = s[0].Seq, s[0].Time
		}
		if l.origin == 0 || l.started == 0 || j.Plan.Flavour == plan.Delayed {
			continue // it had no place, or gave it up by its own wish
		}
		bySession[j.Plan.Session] = append(bySession[j.Plan.Session], l)
	}
	for _, lane := range bySession {
		slices.SortFunc(lane, func(a, b laned) int { return cmp.Compare(a.origin, b.origin) })
		for i := 1; i < len(lane); i++ {
			a, b := lane[i-1], lane[i]
			r.saw(5, 1, b.Acked, later(a.at, b.at))
			if b.started < a.started {
				r.job(5, b.Job, "started before %s, which was accepted earlier (%d and %d)", a.Plan.ID, b.origin, a.origin)
			}
		}
	}
	r.overlaps(exclusive)
}

// overlaps looks for two exclusive commands of a session that ran at once.
func (r *Result) overlaps(exclusive map[string]bool) {
	bySession := map[string][]Run{}
	for _, u := range r.r.Runs {
		if exclusive[u.Session+"/"+u.Job] {
			bySession[u.Session] = append(bySession[u.Session], u)
		}
	}
	for id, runs := range bySession {
		slices.SortFunc(runs, func(a, b Run) int { return a.Start.Compare(b.Start) })
		for i := 1; i < len(runs); i++ {
			a, b := runs[i-1], runs[i]
			r.saw(5, 1, a.Start, b.Start.Add(time.Millisecond))
			if a.Generation == b.Generation && (a.End.IsZero() || a.End.Sub(b.Start) > slack) {
				r.session(5, id, "%s runs beside %s", b, a)
			}
		}
	}
}
