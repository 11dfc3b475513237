package local

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

//go:embed openapi.json
var openAPI []byte

// description is GitHub's own, cut to what we call.
var description = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(openAPI)
})

// Hub plays GitHub. Each request of ours and each of its answers is held against
// GitHub's description.
//
// Its exported fields are changed before it is asked, or under Do.
type Hub struct {
	doc    *openapi3.T
	router routers.Router
	report func(format string, args ...any) // what is amiss in a request or an answer

	// Branch reports whether a repository has a branch; nil is yes.
	Branch func(owner, repo, branch string) bool
	// Override may say something else than GitHub would; n counts the calls of this
	// method and path.
	Override func(method, path string, n int) *Answer
	Tokens   map[string]time.Time // those it takes, and how long
	Pulls    []map[string]any     // all pull requests, as GitHub would show them
	Minted   int                  // tokens of the App
	Asked    []string             // "METHOD path"
	Bodies   []string             // of the requests

	web string // where people see pull requests

	mu     sync.Mutex
	counts map[string]int
}

// Answer is what the hub says instead of what it would.
type Answer struct {
	Status int
	Header map[string]string
	Body   any
	Drop   bool // do what was asked, and lose the answer
}

// Refusal is an answer in the form of GitHub's errors.
func Refusal(status int, message string, details ...string) *Answer {
	b := map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"}
	if status == http.StatusUnprocessableEntity {
		list := []any{}
		for _, d := range details {
			list = append(list, map[string]any{"resource": "PullRequest", "code": "custom", "message": d})
		}
		b["errors"] = list
	}
	return &Answer{Status: status, Body: b}
}

// prefix is where an Enterprise has its API.
const prefix = "/api/v3"

// NewHub makes a hub. report hears what is amiss in a request of ours or in an answer
// of its own; it may be called concurrently.
func NewHub(report func(format string, args ...any)) (*Hub, error) {
	doc, err := description()
	if err != nil {
		return nil, err
	}
	copied := *doc
	copied.Servers = nil // any host
	router, err := legacy.NewRouter(&copied, openapi3.DisableExamplesValidation(), openapi3.DisableSchemaPatternValidation())
	if err != nil {
		return nil, err
	}
	return &Hub{doc: &copied, router: router, report: report, web: "https://github.com", Tokens: map[string]time.Time{}, counts: map[string]int{}}, nil
}

// Do changes the hub while it is at work.
func (h *Hub) Do(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// Takes reports whether a token is good.
func (h *Hub) Takes(token string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.Tokens[token])
}

// ServeHTTP implements http.Handler.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		h.report("read request: %v", err)
	}
	path, ok := strings.CutPrefix(r.URL.Path, prefix)
	if !ok {
		h.report("request outside the API: %s", r.URL)
	}
	r.URL.Path, r.Body = path, io.NopCloser(bytes.NewReader(body))
	h.Asked, h.Bodies = append(h.Asked, r.Method+" "+path), append(h.Bodies, string(body))
	key := r.Method + " " + path
	h.counts[key]++

	route, params, err := h.router.FindRoute(r)
	if err != nil {
		h.report("%s %s is not in GitHub's description: %v", r.Method, path, err)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
		h.report("our request: %s %s %s: %v", r.Method, path, body, err)
	}
	var a *Answer
	if h.Override != nil {
		a = h.Override(r.Method, path, h.counts[key])
	}
	if a == nil || a.Drop {
		real := h.answer(r.Header.Get("Authorization"), route.Path, r.Method, params, r, body)
		if a != nil && a.Drop {
			panic(http.ErrAbortHandler)
		}
		a = real
	}
	out, err := json.Marshal(a.Body)
	if err != nil {
		h.report("answer: %v", err)
	}
	hd := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	for k, v := range a.Header {
		hd.Set(k, v)
	}
	// What GitHub answers everywhere is not repeated for each operation.
	if route.Operation.Responses.Status(a.Status) != nil {
		resp := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.Status, Header: hd, Options: &openapi3filter.Options{MultiError: true}}
		resp.SetBodyBytes(out)
		if err := openapi3filter.ValidateResponse(context.Background(), resp); err != nil {
			h.report("the hub's answer to %s %s: %v", r.Method, path, err)
		}
	} else if a.Status < 400 {
		h.report("GitHub never answers %d to %s %s", a.Status, r.Method, path)
	}
	for k := range hd {
		w.Header().Set(k, hd.Get(k))
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(out)
}

// answer is what GitHub would say.
func (h *Hub) answer(auth, route, method string, params map[string]string, r *http.Request, body []byte) *Answer {
	var in map[string]any
	_ = json.Unmarshal(body, &in)
	app := strings.HasPrefix(auth, "Bearer ey")
	if token := strings.TrimPrefix(auth, "Bearer "); !app && time.Now().After(h.Tokens[token]) {
		return Refusal(http.StatusUnauthorized, "Bad credentials")
	}
	switch method + " " + route {
	case "GET /repos/{owner}/{repo}":
		return h.sample(route, method, 200, map[string]any{"default_branch": "main", "name": params["repo"], "full_name": params["owner"] + "/" + params["repo"]})
	case "GET /repos/{owner}/{repo}/installation":
		return h.sample(route, method, 200, map[string]any{"id": 42.0})
	case "POST /app/installations/{installation_id}/access_tokens":
		h.Minted++
		token := "ghs_minted" + strconv.Itoa(h.Minted)
		h.Tokens[token] = time.Now().Add(time.Hour)
		return &Answer{Status: 201, Body: map[string]any{"token": token, "expires_at": h.Tokens[token].UTC().Format(time.RFC3339), "permissions": in["permissions"], "repository_selection": "selected"}}
	case "GET /repos/{owner}/{repo}/pulls":
		list := []any{}
		for i := len(h.Pulls) - 1; i >= 0; i-- {
			p := h.Pulls[i]
			if repoOf(p) == params["owner"]+"/"+params["repo"] && params["owner"]+":"+p["head"].(map[string]any)["ref"].(string) == r.URL.Query().Get("head") && (r.URL.Query().Get("state") == "all" || p["state"] == r.URL.Query().Get("state")) {
				list = append(list, p)
			}
		}
		return &Answer{Status: 200, Body: list}
	case "POST /repos/{owner}/{repo}/pulls":
		for _, p := range h.Pulls {
			if repoOf(p) == params["owner"]+"/"+params["repo"] && p["state"] == "open" && p["head"].(map[string]any)["ref"] == in["head"] && p["base"].(map[string]any)["ref"] == in["base"] {
				return Refusal(422, "Validation Failed", "A pull request already exists for "+params["owner"]+":"+in["head"].(string)+".")
			}
		}
		if head, _ := in["head"].(string); h.Branch != nil && !h.Branch(params["owner"], params["repo"], head) {
			return Refusal(http.StatusUnprocessableEntity, "Validation Failed", "Head sha can't be blank")
		}
		a := h.sample(route, method, 201, nil)
		p := a.Body.(map[string]any)
		p["number"], p["state"], p["merged_at"] = float64(len(h.Pulls)+1), "open", nil
		p["title"], p["body"], p["draft"] = in["title"], in["body"], in["draft"]
		p["html_url"] = fmt.Sprintf("%s/%s/%s/pull/%d", h.web, params["owner"], params["repo"], len(h.Pulls)+1)
		p["user"].(map[string]any)["login"] = "sandjet[bot]"
		p["labels"], p["requested_reviewers"], p["requested_teams"] = []any{}, []any{}, []any{}
		for _, side := range []string{"head", "base"} {
			p[side].(map[string]any)["ref"] = in[side]
			p[side].(map[string]any)["repo"].(map[string]any)["id"] = 7.0
			p[side].(map[string]any)["repo"].(map[string]any)["full_name"] = params["owner"] + "/" + params["repo"]
		}
		h.Pulls = append(h.Pulls, p)
		return a
	case "PATCH /repos/{owner}/{repo}/pulls/{pull_number}":
		p := h.pull(params["pull_number"])
		for k, v := range in {
			p[k] = v
		}
		return &Answer{Status: 200, Body: p}
	case "POST /repos/{owner}/{repo}/issues/{issue_number}/labels":
		p := h.pull(params["issue_number"])
		for _, l := range in["labels"].([]any) {
			p["labels"] = append(p["labels"].([]any), map[string]any{"id": 1, "node_id": "x", "url": "https://x.org", "name": l, "description": "x", "color": "fff", "default": false})
		}
		return &Answer{Status: 200, Body: p["labels"]}
	case "POST /repos/{owner}/{repo}/pulls/{pull_number}/requested_reviewers":
		p := h.pull(params["pull_number"])
		names, _ := in["reviewers"].([]any)
		for _, n := range names {
			if n == "nobody" {
				return Refusal(422, "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the repository.")
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
	h.report("the hub does not know %s %s", method, route)
	return Refusal(404, "Not Found")
}

// repoOf is the repository that a pull request is in.
func repoOf(p map[string]any) any {
	return p["base"].(map[string]any)["repo"].(map[string]any)["full_name"]
}

// page shows a pull request to people.
func (h *Hub) page(w http.ResponseWriter, r *http.Request) {
	m := pageRegexp.FindStringSubmatch(r.URL.Path)
	n, err := strconv.Atoi(m[2])
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || n < 1 || n > len(h.Pulls) || repoOf(h.Pulls[n-1]) != m[1] {
		http.NotFound(w, r)
		return
	}
	p := h.Pulls[n-1]
	ref := func(side string) any { return p[side].(map[string]any)["ref"] }
	state := p["state"]
	if p["draft"] == true {
		state = "draft"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "%s #%d (%s)\n%s wants to merge %s into %s\n\n%s\n", p["title"], n, state, p["user"].(map[string]any)["login"], ref("head"), ref("base"), p["body"])
}

func (h *Hub) pull(number string) map[string]any {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(h.Pulls) {
		h.report("there is no pull request %s", number)
		return map[string]any{}
	}
	return h.Pulls[n-1]
}

// sample is the least that the description allows for an answer, with some fields
// set.
func (h *Hub) sample(route, method string, status int, set map[string]any) *Answer {
	schema := h.doc.Paths.Find(route).GetOperation(method).Responses.Status(status).Value.Content.Get("application/json").Schema
	b := least(schema.Value, 0).(map[string]any)
	for k, v := range set {
		b[k] = v
	}
	return &Answer{Status: status, Body: b}
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
