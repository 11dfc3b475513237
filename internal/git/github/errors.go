package github

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	gh "github.com/google/go-github/v88/github"

	"github.com/sandjet/sandjet/internal/git"
)

// trouble is a git.Error in the making, with what GitHub said.
type trouble struct {
	*git.Error
	said []string // the messages, for what GitHub has no code for
}

func (t *trouble) forbidden(message string) {
	t.Kind, t.Message = git.ErrForbidden, message
}

// says reports whether one of GitHub's messages holds a text. Only for what has no
// code and no header.
func (t *trouble) says(text string) bool {
	for _, s := range t.said {
		if strings.Contains(strings.ToLower(s), text) {
			return true
		}
	}
	return false
}

// minWait is how long to wait when GitHub does not say: its own advice for
// secondary limits.
const minWait = time.Minute

// explain turns what go-github returns into an error with a kind, and with what to
// do about it.
func explain(op string, err error) *trouble {
	t := &trouble{Error: &git.Error{Op: op}}
	var already *git.Error
	var primary *gh.RateLimitError
	var secondary *gh.AbuseRateLimitError
	var answer *gh.ErrorResponse
	switch {
	case errors.As(err, &already):
		t.Error = already
	case errors.As(err, &primary):
		t.wait(primary.Response, time.Until(primary.Rate.Reset.Time), "GitHub's hourly limit of the token is used up")
	case errors.As(err, &secondary):
		t.wait(secondary.Response, secondary.GetRetryAfter(), "GitHub asks to slow down")
	case errors.As(err, &answer):
		t.answer(answer)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		t.Err = err
	default:
		t.Kind, t.Message, t.Err = git.ErrUnavailable, "GitHub does not answer", err
	}
	return t
}

func (t *trouble) wait(r *http.Response, d time.Duration, message string) {
	t.Kind, t.Message, t.RetryAfter = git.ErrRateLimited, message, d
	if d <= 0 {
		t.RetryAfter = minWait
	}
	if r != nil {
		t.Code = r.StatusCode
	}
}

var ssoURL = regexp.MustCompile(`url=(https://[^\s;,]+)`)

// answer reads a refusal.
func (t *trouble) answer(e *gh.ErrorResponse) {
	t.said = append(t.said, e.Message)
	for _, f := range e.Errors {
		t.said = append(t.said, strings.TrimSpace(strings.Join([]string{f.Message, f.Field, f.Code}, " ")))
	}
	words := words(t.said)
	h := http.Header{}
	if e.Response != nil {
		t.Code, h = e.Response.StatusCode, e.Response.Header
	}
	switch {
	case t.Code == http.StatusUnauthorized:
		t.Kind, t.Message = git.ErrAuth, "GitHub does not take the token: it is revoked, expired, or not GitHub's ("+words+")"
	case (t.Code == http.StatusForbidden || t.Code == http.StatusTooManyRequests) && h.Get("Retry-After") != "":
		d, err := time.ParseDuration(h.Get("Retry-After") + "s")
		if err != nil {
			d = minWait
		}
		t.wait(e.Response, d, "GitHub asks to slow down")
	case t.Code == http.StatusTooManyRequests:
		t.wait(e.Response, minWait, "GitHub asks to slow down")
	case t.Code == http.StatusForbidden && strings.HasPrefix(h.Get("X-Github-Sso"), "required"):
		t.forbidden("the organisation wants the token authorised for its single sign-on")
		if m := ssoURL.FindStringSubmatch(h.Get("X-Github-Sso")); m != nil {
			t.Message += " at " + m[1]
		}
	case t.Code == http.StatusForbidden:
		t.forbidden("the token may not do this")
		if need := h.Get("X-Accepted-Github-Permissions"); need != "" {
			t.Message += ": it needs " + strings.ReplaceAll(need, ";", " or")
		}
		t.Message += " (" + words + ")"
	case t.Code == http.StatusNotFound || t.Code == http.StatusGone:
		t.Kind, t.Message = git.ErrNotFound, "not there, or hidden from this token ("+words+")"
	case t.Code == http.StatusUnprocessableEntity || t.Code == http.StatusBadRequest:
		t.Kind, t.Message = git.ErrInvalid, "GitHub refuses it ("+words+")"
	case t.Code >= 500:
		t.Kind, t.Message = git.ErrUnavailable, "GitHub fails ("+http.StatusText(t.Code)+")"
	default:
		t.Kind, t.Message = git.ErrForbidden, words
	}
}

const maxWords = 500

// words joins messages, without what a terminal would act on.
func words(said []string) string {
	s := strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) {
			return ' '
		}
		return r
	}, strings.Join(said, "; "))
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + "…"
	}
	return strings.TrimSpace(s)
}
