package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sandjet/sandjet/internal/point"
	"github.com/sandjet/sandjet/internal/wire"
)

// HeaderOffset is the header of an output event with the offset of its first byte
// in that output.
const HeaderOffset = "Sandjet-Offset"

// HeaderClaim is the header of a terminal event with the sequence of the claim that it
// was written under. Of other events Nats-Expected-Last-Subject-Sequence tells that.
const HeaderClaim = "Sandjet-Claim"

// Job is the key of a job: ids are unique within their session.
type Job struct {
	Session, ID string
}

// String returns "<session>/<job>", which is also the ce-subject.
func (j Job) String() string { return j.Session + "/" + j.ID }

// check returns an error unless both parts are ids and the job is not the token
// that session facts use.
func (j Job) check() error {
	if err := wire.CheckID("session", j.Session); err != nil {
		return err
	}
	if j.ID == wire.ReservedJob {
		return fmt.Errorf("job %q is a reserved name", j.ID)
	}
	return wire.CheckID("job", j.ID)
}

// at names the boundary around the publish of an event.
func at(k Kind) point.At { return point.Of("events", string(k)) }

// Output reports whether k is a kind of raw bytes.
func (k Kind) Output() bool { return k == Stdout || k == Stderr }

// Event is one stored event.
type Event struct {
	Seq    uint64 // in EVENTS
	Time   time.Time
	Job    Job
	Kind   Kind
	Header nats.Header
	Data   []byte
	Offset int64 // of Data's first byte, output only
}

// Decode reads the payload of a JSON event.
func (e Event) Decode(v any) error {
	if err := json.Unmarshal(e.Data, v); err != nil {
		return fmt.Errorf("event %d (%s of %s): %w", e.Seq, e.Kind, e.Job, err)
	}
	return nil
}

// End is the offset after Data's last byte, output only.
func (e Event) End() int64 { return e.Offset + int64(len(e.Data)) }

// Token is the claim that the event was written under, 0 if none.
func (e Event) Token() uint64 {
	n, _ := strconv.ParseUint(cmp.Or(e.Header.Get(HeaderClaim), e.Header.Get(headerExpectSeq)), 10, 64)
	return n
}

// parse makes an Event of what the stream holds.
func parse(ns wire.Namespace, seq uint64, subject string, at time.Time, h nats.Header, data []byte) (Event, error) {
	e := Event{Seq: seq, Time: at, Header: h, Data: data}
	rest, ok := ns.Trim(subject)
	t := strings.Split(rest, ".")
	if !ok || len(t) != 4 || t[0] != "event" {
		return e, fmt.Errorf("event %d: subject %s is not an event's", seq, subject)
	}
	e.Job, e.Kind = Job{t[1], t[2]}, Kind(t[3])
	if e.Kind.Output() {
		off, err := strconv.ParseInt(h.Get(HeaderOffset), 10, 64)
		if err != nil || off < 0 {
			return e, fmt.Errorf("event %d: header %s is %q, not an offset", seq, HeaderOffset, h.Get(HeaderOffset))
		}
		e.Offset = off
	}
	return e, nil
}
