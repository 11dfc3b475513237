package github_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/git"
	"github.com/sandjet/sandjet/internal/git/github"
)

// description is GitHub's own, cut to what we call.
var description = sync.OnceValues(func() (*openapi3.T, error) {
	b, err := os.ReadFile("testdata/openapi.json")
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(b)
})

// hub plays GitHub. Each request of ours and each of its answers is held against
// GitHub's description.
type hub struct {
	*httptest.Server
	t      *testing.T
	doc    *openapi3.T
	router routers.Router

	mu       sync.Mutex
	prefix   string // "/api/v3" for an Enterprise
	pulls    []map[string]any
	tokens   map[string]time.Time // those it takes
	minted   int
	asked    []string // "METHOD path"
	bodies   []string
	override func(method, path string, n int) *answer // n counts the calls of this kind
	counts   map[string]int
}

// answer is what the hub says instead of what it would.
type answer struct {
	status int
	header map[string]string
	body   any
	drop   bool // do what was asked, and lose the answer
}

func refusal(status int, message string, details ...string) *answer {
	b := map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"}
	if status == http.StatusUnprocessableEntity {
		list := []any{}
		for _, d := range details {
			list = append(list, map[string]any{"resource": "PullRequest", "code": "custom", "message": d})
		}
		b["errors"] = list
	}
	return &answer{status: status, body: b}
}

func newHub(t *testing.T) *hub {
	t.Helper()
	doc, err := description()
	require.NoError(t, err)
	copied := *doc
	copied.Servers = nil // any host
	router, err := legacy.NewRouter(&copied, openapi3.DisableExamplesValidation(), openapi3.DisableSchemaPatternValidation())
	require.NoError(t, err)
	h := &hub{t: t, doc: &copied, router: router, prefix: "/api/v3", tokens: map[string]time.Time{"pat": time.Now().Add(time.Hour)}, counts: map[string]int{}}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.Close)
	return h
}

func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		h.t.Errorf("read request: %v", err)
	}
	path, ok := strings.CutPrefix(r.URL.Path, h.prefix)
	if !ok {
		h.t.Errorf("request outside the API: %s", r.URL)
	}
	r.URL.Path, r.Body = path, io.NopCloser(bytes.NewReader(body))
	h.asked, h.bodies = append(h.asked, r.Method+" "+path), append(h.bodies, string(body))
	key := r.Method + " " + path
	h.counts[key]++

	route, params, err := h.router.FindRoute(r)
	if err != nil {
		h.t.Errorf("%s %s is not in GitHub's description: %v", r.Method, path, err)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
		h.t.Errorf("our request: %s %s %s: %v", r.Method, path, body, err)
	}
	var a *answer
	if h.override != nil {
		a = h.override(r.Method, path, h.counts[key])
	}
	if a == nil || a.drop {
		real := h.answer(r.Header.Get("Authorization"), route.Path, r.Method, params, r, body)
		if a != nil && a.drop {
			panic(http.ErrAbortHandler)
		}
		a = real
	}
	out, err := json.Marshal(a.body)
	if err != nil {
		h.t.Errorf("answer: %v", err)
	}
	hd := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	for k, v := range a.header {
		hd.Set(k, v)
	}
	// What GitHub answers everywhere is not repeated for each operation.
	if route.Operation.Responses.Status(a.status) != nil {
		resp := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: hd, Options: &openapi3filter.Options{MultiError: true}}
		resp.SetBodyBytes(out)
		if err := openapi3filter.ValidateResponse(context.Background(), resp); err != nil {
			h.t.Errorf("the hub's answer to %s %s: %v", r.Method, path, err)
		}
	} else if a.status < 400 {
		h.t.Errorf("GitHub never answers %d to %s %s", a.status, r.Method, path)
	}
	for k := range hd {
		w.Header().Set(k, hd.Get(k))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(out)
}

// answer is what GitHub would say.
func (h *hub) answer(auth, route, method string, params map[string]string, r *http.Request, body []byte) *answer {
	var in map[string]any
	_ = json.Unmarshal(body, &in)
	app := strings.HasPrefix(auth, "Bearer ey")
	if token := strings.TrimPrefix(auth, "Bearer "); !app && time.Now().After(h.tokens[token]) {
		return refusal(http.StatusUnauthorized, "Bad credentials")
	}
	switch method + " " + route {
	case "GET /repos/{owner}/{repo}":
		return h.sample(route, method, 200, map[string]any{"default_branch": "main", "name": params["repo"], "full_name": params["owner"] + "/" + params["repo"]})
	case "GET /repos/{owner}/{repo}/installation":
		return h.sample(route, method, 200, map[string]any{"id": 42.0})
	case "POST /app/installations/{installation_id}/access_tokens":
		h.minted++
		token := "ghs_minted" + strconv.Itoa(h.minted)
		h.tokens[token] = time.Now().Add(time.Hour)
		return &answer{status: 201, body: map[string]any{"token": token, "expires_at": h.tokens[token].UTC().Format(time.RFC3339), "permissions": in["permissions"], "repository_selection": "selected"}}
	case "GET /repos/{owner}/{repo}/pulls":
		list := []any{}
		for i := len(h.pulls) - 1; i >= 0; i-- {
			p := h.pulls[i]
			if "acme:"+p["head"].(map[string]any)["ref"].(string) == r.URL.Query().Get("head") && (r.URL.Query().Get("state") == "all" || p["state"] == r.URL.Query().Get("state")) {
				list = append(list, p)
			}
		}
		return &answer{status: 200, body: list}
	case "POST /repos/{owner}/{repo}/pulls":
		for _, p := range h.pulls {
			if p["state"] == "open" && p["head"].(map[string]any)["ref"] == in["head"] && p["base"].(map[string]any)["ref"] == in["base"] {
				return refusal(422, "Validation Failed", "A pull request already exists for acme:"+in["head"].(string)+".")
			}
		}
		a := h.sample(route, method, 201, nil)
		p := a.body.(map[string]any)
		p["number"], p["state"], p["merged_at"] = float64(len(h.pulls)+1), "open", nil
		p["title"], p["body"], p["draft"] = in["title"], in["body"], in["draft"]
		p["html_url"] = fmt.Sprintf("https://github.com/acme/app/pull/%d", len(h.pulls)+1)
		p["user"].(map[string]any)["login"] = "sandjet[bot]"
		p["labels"], p["requested_reviewers"], p["requested_teams"] = []any{}, []any{}, []any{}
		for _, side := range []string{"head", "base"} {
			p[side].(map[string]any)["ref"] = in[side]
			p[side].(map[string]any)["repo"].(map[string]any)["id"] = 7.0
		}
		h.pulls = append(h.pulls, p)
		return a
	case "PATCH /repos/{owner}/{repo}/pulls/{pull_number}":
		p := h.pull(params["pull_number"])
		for k, v := range in {
			p[k] = v
		}
		return &answer{status: 200, body: p}
	case "POST /repos/{owner}/{repo}/issues/{issue_number}/labels":
		p := h.pull(params["issue_number"])
		for _, l := range in["labels"].([]any) {
			p["labels"] = append(p["labels"].([]any), map[string]any{"id": 1, "node_id": "x", "url": "https://x.org", "name": l, "description": "x", "color": "fff", "default": false})
		}
		return &answer{status: 200, body: p["labels"]}
	case "POST /repos/{owner}/{repo}/pulls/{pull_number}/requested_reviewers":
		p := h.pull(params["pull_number"])
		names, _ := in["reviewers"].([]any)
		for _, n := range names {
			if n == "nobody" {
				return refusal(422, "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the acme/app repository.")
			}
		}
		for _, n := range names {
			u := clone(p["user"]).(map[string]any)
			u["login"] = n
			p["requested_reviewers"] = append(p["requested_reviewers"].([]any), u)
		}
		teams, _ := in["team_reviewers"].([]any)
		p["asked_teams"] = teams
		a := h.sample(route, method, 201, nil)
		return a
	}
	h.t.Errorf("the hub does not know %s %s", method, route)
	return refusal(404, "Not Found")
}

func (h *hub) pull(number string) map[string]any {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(h.pulls) {
		h.t.Errorf("there is no pull request %s", number)
		return map[string]any{}
	}
	return h.pulls[n-1]
}

// sample is the least that the description allows for an answer, with some fields
// set.
func (h *hub) sample(route, method string, status int, set map[string]any) *answer {
	schema := h.doc.Paths.Find(route).GetOperation(method).Responses.Status(status).Value.Content.Get("application/json").Schema
	b := least(schema.Value, 0).(map[string]any)
	for k, v := range set {
		b[k] = v
	}
	return &answer{status: status, body: b}
}

func clone(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

// least makes a value that a schema allows.
func least(s *openapi3.Schema, depth int) any {
	switch {
	case s.Nullable && depth > 0 && !s.Type.Is("object"):
		return nil
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AllOf) > 0:
		out := map[string]any{}
		for _, a := range s.AllOf {
			if m, ok := least(a.Value, depth).(map[string]any); ok {
				for k, v := range m {
					out[k] = v
				}
			}
		}
		if len(out) == 0 {
			return least(s.AllOf[0].Value, depth)
		}
		return out
	case len(s.AnyOf) > 0:
		return least(s.AnyOf[0].Value, depth)
	case len(s.OneOf) > 0:
		return least(s.OneOf[0].Value, depth)
	case s.Type.Is("object"):
		out := map[string]any{}
		for _, name := range s.Required {
			if p := s.Properties[name]; p != nil {
				out[name] = least(p.Value, depth+1)
			} else {
				out[name] = "x"
			}
		}
		return out
	case s.Type.Is("array"):
		return []any{}
	case s.Type.Is("boolean"):
		return false
	case s.Type.Is("integer"), s.Type.Is("number"):
		return 1.0
	}
	switch s.Format {
	case "uri":
		return "https://example.com/x"
	case "date-time":
		return "2026-01-02T03:04:05Z"
	}
	return "x"
}

func (h *hub) remote() git.Remote {
	r, err := git.ParseURL(h.URL + "/acme/app.git")
	if err != nil {
		panic(err)
	}
	return r
}

func (h *hub) forge(tokens github.Tokens) *github.Forge {
	h.t.Helper()
	f, err := github.New(github.Config{API: h.URL, Tokens: tokens})
	require.NoError(h.t, err)
	return f
}

func pat(token string) github.Tokens {
	return github.Static(func(context.Context) (string, error) { return token, nil })
}

var appKey = sync.OnceValue(func() []byte {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
})

func (h *hub) calls(pattern string) int {
	re, n := regexp.MustCompile(pattern), 0
	for _, a := range h.asked {
		if re.MatchString(a) {
			n++
		}
	}
	return n
}
