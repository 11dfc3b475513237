package events

import (
	"bytes"
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
	slotClaim
	slotTTL
	slots
)

var slotKeys = [slots]string{
	headerMsgID, headerExpectSeq, headerExpectSubject, headerSpec, headerID, headerSource,
	headerType, headerTime, headerSubject, headerContent, HeaderOffset, HeaderClaim, headerTTL,
}

// envelope is a message with the headers of an event. It is used again and again:
// a header map, a slice for each value and a buffer for the body are most of what a
// publish allocates.
type envelope struct {
	msg  nats.Msg
	vals [slots]string
	text []byte // of which subject, id, ce-subject and time are cut
	body bytes.Buffer
	json *json.Encoder // to body
}

var envelopes = sync.Pool{New: func() any {
	e := &envelope{msg: nats.Msg{Header: make(nats.Header, slots)}}
	e.json = json.NewEncoder(&e.body)
	return e
}}

// maxBody is the capacity up to which an envelope keeps its body's buffer.
const maxBody = 64 << 10

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
	if e.body.Cap() > maxBody {
		e.body = bytes.Buffer{}
	}
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

// envelope addresses an event. Its id begins with the job's and ends with the parts
// of id.
func (l *Log) envelope(j Job, kind Kind, id ...string) *envelope {
	e := envelopes.Get().(*envelope)
	b := l.appendSubject(e.text[:0], j, kind)
	subject := len(b)
	b = append(b, j.Session...)
	b = append(b, '.')
	b = append(b, j.ID...)
	b = append(b, '.')
	for _, s := range id {
		b = append(b, s...)
	}
	msgID := len(b)
	b = append(b, j.Session...)
	if kind != SessionState {
		b = append(b, '/')
		b = append(b, j.ID...)
	}
	about := len(b)
	b = time.Now().UTC().AppendFormat(b, time.RFC3339Nano)
	e.text = b
	s := string(b)

	e.msg.Subject = s[:subject]
	e.set(slotMsgID, s[subject:msgID])
	e.set(slotExpectSeq, "")
	e.set(slotExpectSubject, "")
	e.set(slotSpec, specVersion)
	e.set(slotID, s[subject:msgID])
	e.set(slotSource, l.source)
	e.set(slotType, types[kind])
	e.set(slotSubject, s[msgID:about])
	e.set(slotTime, s[about:])
	e.set(slotContent, contentJSON)
	e.set(slotOffset, "")
	e.set(slotClaim, "")
	e.set(slotTTL, "")
	return e
}

// id is the message id.
func (e *envelope) id() string { return e.vals[slotMsgID] }

// payload gives e its JSON body.
func (e *envelope) payload(kind Kind, v any) error {
	e.body.Reset()
	if err := e.json.Encode(v); err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	e.msg.Data = bytes.TrimSuffix(e.body.Bytes(), []byte{'\n'})
	return nil
}
