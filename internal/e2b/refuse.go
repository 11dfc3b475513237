package e2b

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	maxErrorBody  = 64 << 10
	maxMessage    = 512
	maxRetryAfter = time.Hour
)

// refusal is the error body of both planes: {"code":404,"message":"..."} from
// the API, envd's files and the proxy, {"code":"not_found",...} from an RPC.
type refusal struct {
	Code      any             `json:"code"`
	Message   string          `json:"message"`
	ErrorCode string          `json:"error_code"`
	Port      json.RawMessage `json:"port"`
}

// refused turns an answer that is not a success into an *Error.
func (x exchange) refused(res *http.Response, body []byte) *Error {
	e := &Error{
		Op: x.op, Sandbox: x.sandbox,
		Status:     res.StatusCode,
		RequestID:  requestID(res.Header),
		RetryAfter: retryAfter(res.Header),
	}
	var r refusal
	parsed := json.Unmarshal(body, &r) == nil
	e.Code = clean(r.ErrorCode, nil)
	e.Message = clean(r.Message, x.secrets)
	rpc, isRPC := r.Code.(string)
	number, _ := r.Code.(float64)
	agrees := parsed && int(number) == res.StatusCode

	switch {
	case x.data && res.StatusCode == http.StatusBadGateway:
		e.Kind = ErrSandboxGone
		if len(r.Port) > 0 { // it runs, but envd is not up yet
			e.Kind = ErrUnavailable
		}
	case res.StatusCode == http.StatusTooManyRequests:
		e.Kind = ErrQuota
		if limited(res.Header) {
			e.Kind = ErrRateLimited
		}
	case parsed && isRPC:
		e.Code = clean(rpc, nil)
		e.Kind = kindOfCode(rpc)
		e.Unknown = res.StatusCode >= 500 && rpc != "unimplemented"
	default:
		e.Kind = kindOfStatus(res.StatusCode, agrees)
		// 503 changes nothing if it is the API's own; any other 5xx may have.
		e.Unknown = res.StatusCode >= 500 && (res.StatusCode != http.StatusServiceUnavailable || !agrees)
	}
	return e
}

// kindOfStatus maps an HTTP status. agrees tells that the body is the API's own
// and repeats the status: a 404 of some proxy on the way must not pass for the
// word that a sandbox is gone.
func kindOfStatus(status int, agrees bool) error {
	switch {
	case status == http.StatusUnauthorized:
		return ErrUnauthorized
	case status == http.StatusForbidden:
		return ErrForbidden
	case status == http.StatusRequestedRangeNotSatisfiable:
		return ErrRange
	case status == http.StatusInsufficientStorage:
		return ErrNoSpace
	case status == http.StatusNotImplemented, status == http.StatusUnsupportedMediaType:
		return ErrUnsupported
	case status == http.StatusRequestTimeout, status >= 500:
		return ErrUnavailable
	case status < 400 || !agrees:
		return ErrBadAnswer
	case status == http.StatusNotFound:
		return ErrNotFound
	case status == http.StatusConflict:
		return ErrConflict
	}
	return ErrInvalid
}

// kindOfCode maps an RPC code.
func kindOfCode(code string) error {
	switch code {
	case "invalid_argument", "out_of_range":
		return ErrInvalid
	case "not_found":
		return ErrNotFound
	case "already_exists":
		return ErrExists
	case "permission_denied":
		return ErrForbidden
	case "unauthenticated":
		return ErrUnauthorized
	case "resource_exhausted":
		return ErrQuota
	case "failed_precondition", "aborted":
		return ErrConflict
	case "unimplemented":
		return ErrUnsupported
	case "canceled", "unknown", "deadline_exceeded", "internal", "unavailable", "data_loss":
		return ErrUnavailable
	}
	return ErrBadAnswer
}

// limited tells a rate limit from a quota: only the former names a time.
func limited(h http.Header) bool {
	return h.Get("Retry-After") != "" || h.Get("RateLimit-Limit") != "" || h.Get("RateLimit-Reset") != ""
}

// retryAfter reads whole seconds, or a date as some proxies send it. A header
// that says nothing readable counts as one second.
func retryAfter(h http.Header) time.Duration {
	s := strings.TrimSpace(h.Get("Retry-After"))
	if s == "" {
		s = strings.TrimSpace(h.Get("RateLimit-Reset"))
	}
	if s == "" {
		return 0
	}
	wait := time.Second
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		wait = time.Duration(min(n, uint64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(s); err == nil {
		wait = time.Until(at).Round(time.Second)
	}
	return min(max(wait, time.Second), maxRetryAfter)
}

func requestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "X-Trace-Id", "X-Cloud-Trace-Context", "Cf-Ray"} {
		if id := h.Get(name); id != "" {
			return clip(clean(id, nil), 80)
		}
	}
	return ""
}

// clean makes a server's words fit for one line of a log: no secret, no control
// characters, no great length.
func clean(s string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[redacted]")
		}
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, s)
	return clip(strings.TrimSpace(s), maxMessage)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
