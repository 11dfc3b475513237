package natsx

import (
	"errors"
	"fmt"
)

var (
	// ErrStale is a publish that expected another last sequence than the stream
	// has: somebody else wrote since. It never heals by retrying.
	ErrStale = errors.New("wrong last sequence")
	// ErrBusy is a checked publish that came while another one on the same subject
	// was in flight (replicated streams only). Nothing was stored; try again.
	ErrBusy = errors.New("another checked publish is in flight")
	// ErrNoAck is a publish whose answer did not come. Whether the message is
	// stored is unknown.
	ErrNoAck = errors.New("no ack, outcome unknown")
	// ErrUnavailable is a publish that the server cannot take now: no room, no
	// resources. It was not stored.
	ErrUnavailable = errors.New("jetstream unavailable")
	// ErrClosed is a publish on, or cut short by, a closed Publisher.
	ErrClosed = errors.New("publisher closed")
)

// JetStream error codes that the product decides on.
const (
	codeStale        = 10071
	codeBusy         = 10164
	codeNotAvailable = 10008 // no meta leader
	codeNotLeader    = 10009
	codeInProcess    = 10158 // the same message id is being stored right now
	codeNotReady     = 10163 // the sequence check cannot be made yet
	codeOverlap      = 10065
)

// APIError is a publish that JetStream refused.
type APIError struct {
	Code        int    `json:"code"`     // like an HTTP status
	ErrCode     int    `json:"err_code"` // what to decide on
	Description string `json:"description"`
	// Resent is true if an earlier send of the same message was never answered.
	// Then this refusal is of the later send; the earlier one may be stored.
	Resent bool `json:"-"`
}

// Error says what JetStream said.
func (e *APIError) Error() string {
	return fmt.Sprintf("jetstream: %s (code %d)", e.Description, e.ErrCode)
}

// Is matches ErrStale, ErrBusy and ErrUnavailable by their codes.
func (e *APIError) Is(target error) bool {
	switch target {
	case ErrStale:
		return e.ErrCode == codeStale
	case ErrBusy:
		return e.ErrCode == codeBusy
	case ErrUnavailable:
		return e.Code == 503
	}
	return false
}

// passing reports a refusal that heals by itself and says nothing of the
// message: the publisher sends again.
func (e *APIError) passing() bool {
	switch e.ErrCode {
	case codeNotAvailable, codeNotLeader, codeInProcess, codeNotReady:
		return true
	}
	return false
}
