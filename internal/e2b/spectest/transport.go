// Package spectest holds traffic against E2B's published OpenAPI document. It is
// for tests only: no binary links it.
package spectest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

//go:embed openapi.yml
var document []byte

var load = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err == nil {
		doc.Servers = nil
	}
	return doc, err
})

// Document is E2B's OpenAPI document, for what reads it itself.
func Document() []byte { return document }

// Statuses lists the answers that the document knows of an operation, such as
// "POST /sandboxes".
func Statuses(t testing.TB, operation string) (list []int) {
	t.Helper()
	doc, err := load()
	if err != nil {
		t.Fatalf("E2B's OpenAPI document: %v", err)
	}
	method, path, _ := strings.Cut(operation, " ")
	item := doc.Paths.Value(path)
	if item == nil || item.GetOperation(method) == nil {
		t.Fatalf("%s is not in E2B's API", operation)
	}
	for status := range item.GetOperation(method).Responses.Map() {
		n, err := strconv.Atoi(status)
		if err != nil {
			t.Fatalf("%s: status %q", operation, status)
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

var router = sync.OnceValues(func() (routers.Router, error) {
	doc, err := load()
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc, openapi3.DisableExamplesValidation(), openapi3.DisableSchemaDefaultsValidation())
})

// Transport is a transport that holds each request and each answer of the
// control plane against the document. It may be used concurrently.
type Transport struct {
	// Wrong lets requests be wrong, for who looks at the answers to bad input.
	Wrong bool

	t      testing.TB
	router routers.Router
	next   *http.Transport
	mu     sync.Mutex
	seen   map[string]int
}

// New returns a transport that reports to t.
func New(t testing.TB) *Transport {
	t.Helper()
	r, err := router()
	if err != nil {
		t.Fatalf("E2B's OpenAPI document: %v", err)
	}
	return &Transport{t: t, router: r, next: new(http.Transport), seen: make(map[string]int)}
}

// CloseIdleConnections lets a client's Close reach the connections beneath.
func (c *Transport) CloseIdleConnections() { c.next.CloseIdleConnections() }

// Seen says how many exchanges of each operation, "POST /sandboxes", were held
// against the document.
func (c *Transport) Seen() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := make(map[string]int, len(c.seen))
	for k, n := range c.seen {
		seen[k] = n
	}
	return seen
}

// RoundTrip sends r and checks both ways.
func (c *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if isDataPlane(r) {
		return c.next.RoundTrip(r) // the document does not know it
	}
	body, err := drain(&r.Body)
	if err != nil {
		return nil, err
	}
	in := c.request(r, body)
	res, err := c.next.RoundTrip(r)
	if err != nil || in == nil {
		return res, err
	}
	if body, err = drain(&res.Body); err != nil {
		return nil, err
	}
	if err := answered(in, res, body); err != nil {
		c.t.Errorf("answer to %s %s: %v", r.Method, r.URL, err)
	}
	return res, nil
}

// measured are answers of E2B's that its document has otherwise.
var measured = map[string]int{"GET /health": http.StatusOK}

// answered checks an answer. Statuses of success are those of the document; of
// errors it names a part, and the others have the same body.
func answered(in *openapi3filter.RequestValidationInput, res *http.Response, body []byte) error {
	if measured[in.Route.Method+" "+in.Route.Path] == res.StatusCode {
		return nil
	}
	if res.StatusCode >= 400 && in.Route.Operation.Responses.Status(res.StatusCode) == nil {
		var e struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal(body, &e); err != nil || e.Code != res.StatusCode || e.Message == "" {
			return fmt.Errorf("%d is no error of E2B's: %.200q", res.StatusCode, body)
		}
		return nil
	}
	return openapi3filter.ValidateResponse(in.Request.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(body)), Options: in.Options,
	})
}

// request checks a request, or returns nil for one that is in no document. The
// document lacks the v2 POSTs; the paths they replace have the same messages.
func (c *Transport) request(r *http.Request, body []byte) *openapi3filter.RequestValidationInput {
	seen := r.Clone(context.WithoutCancel(r.Context()))
	seen.Body = io.NopCloser(bytes.NewReader(body))
	seen.URL.Scheme, seen.URL.Host = "", ""
	if r.Method == http.MethodPost {
		seen.URL.Path = strings.TrimPrefix(seen.URL.Path, "/v2")
	}
	route, params, err := c.router.FindRoute(seen)
	if err != nil {
		if !c.Wrong {
			c.t.Errorf("%s %s is not in E2B's API: %v", r.Method, r.URL.Path, err)
		}
		return nil
	}
	c.mu.Lock()
	c.seen[route.Method+" "+route.Path]++
	c.mu.Unlock()
	in := &openapi3filter.RequestValidationInput{
		Request: seen, PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: authenticate, IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateRequest(seen.Context(), in); err != nil && !c.Wrong {
		c.t.Errorf("request %s %s: %v", r.Method, r.URL, err)
	}
	return in
}

func authenticate(_ context.Context, a *openapi3filter.AuthenticationInput) error {
	if a.SecuritySchemeName != "ApiKeyAuth" || a.RequestValidationInput.Request.Header.Get("X-API-KEY") == "" {
		return openapi3filter.ErrAuthenticationServiceMissing
	}
	return nil
}

func isDataPlane(r *http.Request) bool {
	return r.Header.Get("E2b-Sandbox-Id") != "" || r.URL.Path == "/files"
}

// drain reads a body and puts it back.
func drain(body *io.ReadCloser) ([]byte, error) {
	if *body == nil || *body == http.NoBody {
		return nil, nil
	}
	b, err := io.ReadAll(*body)
	(*body).Close()
	*body = io.NopCloser(bytes.NewReader(b))
	return b, err
}
