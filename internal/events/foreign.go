package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/micro"
)

// errForeign is a message on an event's subject that no Log has written: anybody
// who may publish there can. Such a message is no event: it is passed over.
var errForeign = errors.New("not an event of ours")

// event makes an Event of what the stream holds, or returns errForeign.
func (l *Log) event(m stored) (Event, error) {
	e, err := parse(l.ns, m.Seq, m.Subject, m.Time, m.Header, m.Data)
	if err == nil {
		err = l.genuine(e)
	}
	if err != nil {
		return e, fmt.Errorf("%w: %w", errForeign, err)
	}
	return e, nil
}

// genuine returns an error unless e is as a Log writes it: it says what it is, was
// written under a claim if its kind is, and can be read. The wish that a job end is
// anybody's to write, by hand too.
func (l *Log) genuine(e Event) error {
	switch e.Kind {
	case KindCancelRequested:
		return wish(e)
	case SessionState:
		return nil
	}
	is := e.Header.Get(headerType)
	if want, known := types[e.Kind]; known && is != want || !known && !strings.HasPrefix(is, "dev.sandjet.") {
		return fmt.Errorf("event %d (%s of %s): its type is %q", e.Seq, e.Kind, e.Job, is)
	}
	switch e.Kind {
	case KindAccepted, KindClaimed:
	default:
		// A wait may come before the first claim.
		fence := e.Header.Get(headerExpectSubject)
		fenced := fence == l.subject(e.Job, KindClaimed) || e.Kind.Terminal() && fence == l.subject(e.Job, "*")
		if e.Token() == 0 && e.Kind != KindWaiting || !fenced {
			return fmt.Errorf("event %d (%s of %s): it was not written under a claim", e.Seq, e.Kind, e.Job)
		}
	}
	if e.Kind.Output() {
		return nil
	}
	if err := new(History).take(e); err != nil {
		return fmt.Errorf("event %d (%s of %s): %w", e.Seq, e.Kind, e.Job, err)
	}
	return nil
}

// wish returns an error if somebody has asked something, not this, and had the answer
// sent here: the server looks at what one may publish to, not at where answers go. So it
// may be the ack of a job or a service's answer. All else is a wish, also one that was
// written by hand.
func wish(e Event) error {
	if e.Header.Get(micro.ErrorCodeHeader) != "" {
		return fmt.Errorf("event %d (%s of %s): it is a service's refusal", e.Seq, e.Kind, e.Job)
	}
	if e.Header.Get(headerType) != "" {
		return nil // ours, maybe of a newer version
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(e.Data, &fields) != nil {
		return nil
	}
	for name := range fields {
		if name != "reason" && name != "by" {
			return fmt.Errorf("event %d (%s of %s): it is an answer, by its field %q", e.Seq, e.Kind, e.Job, name)
		}
	}
	return nil
}

// before returns the newest event on m's subject that is ours, for an m that is
// not. ok is false if there is none.
func (l *Log) before(ctx context.Context, m stored) (last Event, ok bool, err error) {
	for s, err := range l.scan(ctx, m.Subject, 1, m.Seq) {
		if err != nil {
			return last, false, err
		}
		if e, err := l.event(s); err == nil {
			last, ok = e, true
		}
	}
	return last, ok, nil
}
