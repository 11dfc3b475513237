package worker

import (
	"fmt"
	"strconv"
	"time"

	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
)

// mark is what the metadata of a sandbox of ours says.
type mark struct {
	session    string
	generation int
	attempt    string
}

// readMark reads a sandbox's metadata. The verdict is empty if it is of ours
// and clear.
func readMark(ns wire.Namespace, meta map[string]string) (m mark, verdict, why string) {
	of, ok := meta[metaNamespace]
	switch {
	case !ok:
		return m, query.VerdictUnmarked, "not made by Sandjet"
	case of != string(ns):
		return m, query.VerdictForeign, fmt.Sprintf("of namespace %q", of)
	}
	m.session, m.attempt = meta[metaSession], meta[metaAttempt]
	generation, err := strconv.Atoi(meta[metaGeneration])
	m.generation = generation
	if err != nil || generation < 1 || m.attempt == "" || !wire.ValidID(m.session) {
		return m, query.VerdictUnclear, "its metadata names no session, generation and attempt"
	}
	return m, "", ""
}

// evidence is what is known of a sandbox of ours.
type evidence struct {
	mark
	sandbox   string
	startedAt time.Time

	record session.Record // of its session; without a state there is none
	unread bool           // the session could not be read
	busy   bool           // a running job says that it works there

	seen  store.Sighting // how long and how often without an owner
	grace time.Duration
	now   time.Time
}

// judge says what a sandbox is. Only an orphan may be killed.
func judge(e evidence) (verdict, why string) {
	r := e.record
	switch {
	case e.unread:
		return query.VerdictUnreadable, fmt.Sprintf("session %s cannot be read", e.session)
	case r.State == session.None:
		return e.unowned("there is no session " + e.session)
	case e.generation > r.Generation:
		return query.VerdictNewer, fmt.Sprintf("generation %d, and session %s is at %d", e.generation, e.session, r.Generation)
	case r.SandboxID == e.sandbox && owns(r.State):
		return query.VerdictOwned, fmt.Sprintf("session %s is %s", e.session, r.State)
	case r.SandboxID == "" && r.Attempt == e.attempt && (r.State == session.Provisioning || r.State == session.Destroying):
		return query.VerdictMaking, fmt.Sprintf("session %s is %s", e.session, r.State)
	case e.generation < r.Generation:
		return e.unowned(fmt.Sprintf("generation %d, and session %s is at %d", e.generation, e.session, r.Generation))
	case r.SandboxID == e.sandbox:
		return e.unowned(fmt.Sprintf("session %s is %s", e.session, r.State))
	}
	return e.unowned(fmt.Sprintf("session %s is %s and has sandbox %q", e.session, r.State, r.SandboxID))
}

// owns reports whether a session in a state has a use for its sandbox. What a
// lost session left behind it does not: its work is not in there.
func owns(st session.State) bool {
	return st.HasSandbox() || st == session.Provisioning || st == session.Destroying || st == session.Error
}

// unowned judges a sandbox that no session knows: an orphan only after the
// grace, by two clocks, and not at first sight.
func (e evidence) unowned(why string) (verdict, _ string) {
	age := e.now.Sub(e.startedAt)
	switch {
	case point.Off(point.Grace):
		return query.VerdictOrphan, why
	case e.busy:
		return query.VerdictBusy, why + ", but a running job works there"
	case e.seen.Times < 2:
		return query.VerdictSuspect, why + "; seen so for the first time"
	case e.seen.For < e.grace || age < e.grace:
		return query.VerdictSuspect, fmt.Sprintf("%s; seen so for %s, started %s ago, and the grace is %s",
			why, e.seen.For.Round(time.Second), age.Round(time.Second), e.grace)
	}
	return query.VerdictOrphan, fmt.Sprintf("%s; seen so %d times in %s", why, e.seen.Times, e.seen.For.Round(time.Second))
}
