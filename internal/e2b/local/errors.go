package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// apiError is an answer of the control plane, or of envd's file calls, that
// is not a success. SDKs decide on the code in the body, not on the status.
type apiError struct {
	status     int
	message    string
	semantic   string        // error_code; mostly empty
	retryAfter time.Duration // only with the rate limit's 429
	limit      int           // calls that it lets through at once
}

func (e *apiError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.message) }

func failf(status int, format string, args ...any) *apiError {
	return &apiError{status: status, message: fmt.Sprintf(format, args...)}
}

func errNoSandbox(id string) *apiError {
	return failf(http.StatusNotFound, "sandbox %q not found", id)
}

func errQuota(limit int) *apiError {
	return failf(http.StatusTooManyRequests, "you have reached the maximum number of concurrent E2B sandboxes (%d). "+
		"If you need more, please pause or kill a running sandbox", limit)
}

func errRate(limit int, wait time.Duration) *apiError {
	return &apiError{status: http.StatusTooManyRequests, message: "Rate limit exceeded", retryAfter: wait, limit: limit}
}

// errClosing answers calls that meet a server on its way out.
var errClosing = failf(http.StatusServiceUnavailable, "the server is closing")

// writeError answers with err; what is no apiError is a 500.
func writeError(w http.ResponseWriter, err error) {
	e := asAPIError(err)
	if e.retryAfter > 0 {
		setRetryAfter(w.Header(), e.retryAfter, e.limit)
	}
	writeJSON(w, e.status, errorBody(e))
}

// errorBody is an error as every answer of the API tells it.
func errorBody(e *apiError) any {
	return struct {
		Code     int    `json:"code"`
		Message  string `json:"message"`
		Semantic string `json:"error_code,omitempty"`
	}{e.status, e.message, e.semantic}
}

// asAPIError makes any error one that a client can be told.
func asAPIError(err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	return &apiError{status: http.StatusInternalServerError, message: err.Error(), semantic: "internal_server_error"}
}

// setRetryAfter says when to come again, in whole seconds and at least one.
func setRetryAfter(h http.Header, wait time.Duration, limit int) {
	s := strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second)))
	h.Set("Retry-After", s)
	h.Set("RateLimit-Limit", strconv.Itoa(max(1, limit)))
	h.Set("RateLimit-Remaining", "0")
	h.Set("RateLimit-Reset", s)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"code":500,"message":"encode the answer"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may be gone; nothing to do about it
}
