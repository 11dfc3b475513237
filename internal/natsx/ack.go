package natsx

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Ack is JetStream's word that a message is stored.
type Ack struct {
	Stream    string
	Seq       uint64
	Duplicate bool // it was stored before, at Seq, with the same Nats-Msg-Id
}

var (
	ackHead = []byte(`{"stream":"`)
	ackSeq  = []byte(`"seq":`)
	ackDup  = []byte(`"duplicate":`)
)

// parseAck reads a publish answer. The server writes acks in one form only, which
// is cut out by hand; all else goes through encoding/json. known is a stream name
// seen before, so that the usual ack allocates nothing.
func parseAck(b []byte, known string) (Ack, *APIError, error) {
	if a, ok := cutAck(b, known); ok {
		return a, nil, nil
	}
	var r struct {
		Stream    string    `json:"stream"`
		Seq       uint64    `json:"seq"`
		Duplicate bool      `json:"duplicate"`
		Error     *APIError `json:"error"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return Ack{}, nil, fmt.Errorf("read ack: %w", err)
	}
	if r.Error != nil {
		return Ack{}, r.Error, nil
	}
	if r.Stream == "" || r.Seq == 0 {
		return Ack{}, nil, fmt.Errorf("read ack: not an ack of JetStream: %.80q", b)
	}
	return Ack{Stream: r.Stream, Seq: r.Seq, Duplicate: r.Duplicate}, nil, nil
}

func cutAck(b []byte, known string) (Ack, bool) {
	rest, ok := bytes.CutPrefix(b, ackHead)
	if !ok {
		return Ack{}, false
	}
	name, rest, ok := bytes.Cut(rest, []byte{'"'})
	if !ok || len(name) == 0 || bytes.IndexByte(name, '\\') >= 0 {
		return Ack{}, false
	}
	_, rest, ok = bytes.Cut(rest, ackSeq)
	if !ok {
		return Ack{}, false
	}
	var a Ack
	i := 0
	for ; i < len(rest) && rest[i] >= '0' && rest[i] <= '9'; i++ {
		a.Seq = a.Seq*10 + uint64(rest[i]-'0')
	}
	if i == 0 || i > 19 || a.Seq == 0 {
		return Ack{}, false
	}
	switch rest = rest[i:]; {
	case len(rest) == 1 && rest[0] == '}':
	case bytes.Contains(rest, ackDup):
		a.Duplicate = bytes.Contains(rest, []byte("true"))
	default:
		return Ack{}, false
	}
	if known != "" && string(name) == known {
		a.Stream = known
	} else {
		a.Stream = string(name)
	}
	return a, true
}
