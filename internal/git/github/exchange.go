package github

import (
	"net/http"
	"regexp"

	"github.com/sandjet/sandjet/internal/point"
)

// exchange is one call to GitHub: what it changes there may be done although its
// answer is lost.
type exchange struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (x exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, at := r.Context(), point.Of("github", callName(r))
	if err := point.Before(ctx, at); err != nil {
		return nil, err
	}
	res, err := x.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := point.After(ctx, at); err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	return res, nil
}

// calls names what we ask of GitHub.
var calls = []struct {
	method string
	path   *regexp.Regexp
	name   string
}{
	{"GET", regexp.MustCompile(`/installation$`), "installation"},
	{"POST", regexp.MustCompile(`/access_tokens$`), "token"},
	{"GET", regexp.MustCompile(`/pulls$`), "list"},
	{"POST", regexp.MustCompile(`/pulls$`), "open"},
	{"PATCH", regexp.MustCompile(`/pulls/[0-9]+$`), "edit"},
	{"POST", regexp.MustCompile(`/labels$`), "label"},
	{"POST", regexp.MustCompile(`/requested_reviewers$`), "review"},
	{"GET", regexp.MustCompile(`/repos/[^/]+/[^/]+$`), "repository"},
}

func callName(r *http.Request) string {
	for _, c := range calls {
		if r.Method == c.method && c.path.MatchString(r.URL.Path) {
			return c.name
		}
	}
	return "other"
}
