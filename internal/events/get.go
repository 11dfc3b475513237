package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// stored is a message as a stream holds it.
type stored struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	Data    []byte
}

// request is what both ways of reading single messages ask.
type request struct {
	Seq       uint64   `json:"seq,omitempty"`
	LastFor   string   `json:"last_by_subj,omitempty"`
	NextFor   string   `json:"next_by_subj,omitempty"`
	MultiLast []string `json:"multi_last,omitempty"`
	Batch     int      `json:"batch,omitempty"`
	MaxBytes  int      `json:"max_bytes,omitempty"`
}

const (
	apiGet    = "$JS.API.STREAM.MSG.GET."
	apiDirect = "$JS.API.DIRECT.GET."

	// answerWait is how long the server may take for one answer. While a leader is
	// being elected nobody answers at all.
	answerWait = 2 * time.Second

	codeNoMessage = 10037
	codeNoLeader  = 10008
	codeNoStream  = 10059
)

// leader reads one message from the stream's leader, so that the answer is not
// older than any ack the caller has seen. It asks again until ctx ends.
// ErrNotFound means that there is no such message.
func (l *Log) leader(ctx context.Context, stream string, req request) (stored, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return stored{}, err
	}
	for try := 0; ; try++ {
		s, again, err := l.ask(ctx, apiGet+stream, body)
		if !again {
			return s, err
		}
		if err := backoff(ctx, try+5); err != nil {
			return stored{}, fmt.Errorf("read stream %s: %w", stream, err)
		}
	}
}

func (l *Log) ask(ctx context.Context, subject string, body []byte) (s stored, again bool, err error) {
	once, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	m, err := l.nc.RequestWithContext(once, subject, body)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return s, false, fmt.Errorf("read stream: %w", context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrReconnectBufExceeded):
		return s, true, nil
	default:
		return s, false, fmt.Errorf("read stream: %w", err)
	}
	var r struct {
		Error *struct {
			ErrCode     int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return s, false, fmt.Errorf("read stream: %w", err)
	}
	if r.Error != nil {
		switch r.Error.ErrCode {
		case codeNoMessage:
			return s, false, ErrNotFound
		case codeNoLeader:
			return s, true, nil
		}
		return s, false, fmt.Errorf("read stream: %s (code %d)", r.Error.Description, r.Error.ErrCode)
	}
	s = stored{Subject: r.Message.Subject, Seq: r.Message.Seq, Time: r.Message.Time, Data: r.Message.Data}
	if len(r.Message.Header) > 0 {
		if s.Header, err = nats.DecodeHeadersMsg(r.Message.Header); err != nil {
			return s, false, fmt.Errorf("read stream: message %d: %w", s.Seq, err)
		}
	}
	return s, false, nil
}
