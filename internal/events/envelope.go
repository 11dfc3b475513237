package events

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	headerMsgID         = nats.MsgIdHdr
	headerExpectSeq     = jetstream.ExpectedLastSubjSeqHeader
	headerExpectSubject = "Nats-Expected-Last-Subject-Sequence-Subject"
	headerTTL           = "Nats-TTL"
)

// slot is a header that an envelope may carry.
type slot int

const (
	slotMsgID slot = iota
	slotExpectSeq
	slotExpectSubject
	slotSpec
	slotID
	slotSource
	slotType
	slotTime
	slotSubject
	slotContent
	slotOffset
	slotTTL
	slots
)

var slotKeys = [slots]string{
	headerMsgID, headerExpectSeq, headerExpectSubject, headerSpec, headerID, headerSource,
	headerType, headerTime, headerSubject, headerContent, HeaderOffset, headerTTL,
}

// envelope is a message with the headers of an event. It is used again and again:
// a header map and a slice for each value are most of what a publish allocates.
type envelope struct {
	msg  nats.Msg
	vals [slots]string
}

var envelopes = sync.Pool{New: func() any {
	return &envelope{msg: nats.Msg{Header: make(nats.Header, slots)}}
}}

// set puts a header; an empty value takes it away.
func (e *envelope) set(s slot, v string) {
	if e.vals[s] = v; v == "" {
		delete(e.msg.Header, slotKeys[s])
		return
	}
	e.msg.Header[slotKeys[s]] = e.vals[s : s+1 : s+1]
}

// free gives e back. Nobody may hold its message any more.
func (e *envelope) free() {
	e.msg.Data, e.msg.Subject, e.msg.Reply = nil, "", ""
	envelopes.Put(e)
}

// types holds the ce-type of every kind.
var types = func() map[Kind]string {
	m := map[Kind]string{SessionState: "dev.sandjet.session.state.v1"}
	for _, k := range Kinds() {
		m[k] = "dev.sandjet.job." + string(k) + ".v1"
	}
	return m
}()

// Kinds lists the kinds of job event, in the order of a job's life.
func Kinds() []Kind {
	return []Kind{
		KindAccepted, KindWaiting, KindClaimed, KindStarted, KindStep, KindProgress, Stdout, Stderr,
		KindReattached, KindRetrying, KindInterrupted, KindCancelRequested, Succeeded, Failed, Cancelled, Dead,
	}
}

// envelope addresses an event. about is its ce-subject.
func (l *Log) envelope(subject string, kind Kind, about, id string) *envelope {
	e := envelopes.Get().(*envelope)
	e.msg.Subject = subject
	e.set(slotMsgID, id)
	e.set(slotExpectSeq, "")
	e.set(slotExpectSubject, "")
	e.set(slotSpec, specVersion)
	e.set(slotID, id)
	e.set(slotSource, l.source)
	e.set(slotType, types[kind])
	e.set(slotTime, time.Now().UTC().Format(time.RFC3339Nano))
	e.set(slotSubject, about)
	e.set(slotContent, contentJSON)
	e.set(slotOffset, "")
	e.set(slotTTL, "")
	return e
}

// payload gives e its JSON body.
func (e *envelope) payload(kind Kind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	e.msg.Data = b
	return nil
}
