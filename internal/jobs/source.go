package jobs

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// source is one durable consumer that jobs are fetched from. The consumer's lock
// guards it.
//
//	       maybe, slots free                      a message
//	idle ───────────────────> fetching <──────┐  ┌──────────> (maybe again)
//	 ^   <─────────────────      │            │  │
//	 │     told: no more         └────────────┘  │
//	 └── not maybe ───────────────────> waiting ─┘
//
// fetching asks for as many messages as there are free slots and is answered at
// once; waiting asks for one and is answered when there is one.
type source struct {
	name   string // the durable's
	stream string
	config jetstream.ConsumerConfig
	next   string // the API subject that pulls go to

	pull *pull
	// maybe is true when the source may have messages: it showed some, or
	// nobody has looked since it was last waited at.
	maybe bool
	// passed counts the jobs that went before this source since it was last
	// looked at.
	passed  int
	blocked bool // after a failure, until its backoff is over
	fails   int
	stalled time.Time // until then it is not fetched from, only waited at
	check   bool      // the next look begins with the consumer itself: it may be gone
}

// isOpen reports whether a request is under way.
func (s *source) isOpen() bool { return s.pull != nil && s.pull.open }

// pull is one request for messages and the subscription that is answered on. A
// pull that is given up is drained, so that what the server has sent is seen.
type pull struct {
	src    *source
	sub    *nats.Subscription
	inbox  string
	open   bool // a request is under way
	nowait bool
	left   int         // messages still to come
	marked int         // left when the timer was set
	until  time.Time   // when the server must have said something
	timer  *time.Timer // fires then
}

// fetchSilence is how long an answer to a fetch may take. A server that has
// reached MaxAckPending does not answer one, and all free slots are promised to
// it meanwhile: then the source is waited at, one message at a time, for a while.
const (
	fetchSilence = time.Second
	stallFor     = 10 * time.Second
)

// pullTerms are how long a waiting pull stays with the server, and how often the
// server then says that it still has it. The pull ends well within AckWait: a
// worker that freezes must not be handed its own jobs again when they time out.
type pullTerms struct {
	expires, heartbeat time.Duration
}

func pullTermsFor(ackWait time.Duration) pullTerms {
	expires := min(ackWait/2, time.Minute)
	return pullTerms{expires: expires, heartbeat: min(max(expires/4, 100*time.Millisecond), 5*time.Second)}
}

// silence is how long the server may say nothing on a waiting pull before we ask
// what became of the consumer.
func (p pullTerms) silence() time.Duration { return max(p.heartbeat*5/2, time.Second) }

type pullRequest struct {
	Batch     int           `json:"batch"`
	NoWait    bool          `json:"no_wait,omitempty"`
	Expires   time.Duration `json:"expires,omitempty"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
}

// waitRequest asks for one message, whenever it comes.
func waitRequest(p pullTerms) []byte {
	r := pullRequest{Batch: 1, Expires: p.expires}
	if p.heartbeat <= p.expires/2 { // the server refuses more
		r.Heartbeat = p.heartbeat
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // a fixed struct
	}
	return b
}

// fetchRequest asks for n messages that are there now.
func fetchRequest(n int) []byte {
	return append(strconv.AppendInt([]byte(`{"no_wait":true,"batch":`), int64(n), 10), '}')
}

// status is the server's word on a pull; zero for a message.
type status int

// The statuses that we tell apart. Any other ends the pull as a failure.
const (
	statusHeartbeat status = 100
	statusEmpty     status = 404
	statusEnded     status = 408 // expired, or others wait for what there is
	statusConflict  status = 409
	statusNobody    status = 503
)

// readStatus reads a message that came to the pull's own inbox; jobs come under
// their own subject.
func readStatus(m *nats.Msg) status {
	n, err := strconv.Atoi(m.Header.Get("Status"))
	if err != nil {
		return statusConflict
	}
	return status(n)
}

func (s status) String() string { return fmt.Sprintf("status %d", int(s)) }
