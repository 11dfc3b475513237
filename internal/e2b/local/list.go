package local

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
)

const maxPage = 100

// query is what a list asks for.
type query struct {
	states   []e2b.SandboxState
	metadata map[string]string
	template string
	after    time.Time // started at or after
	asc      bool
	limit    int
	from     cursor
}

// cursor is the place after which the next page begins.
type cursor struct {
	at time.Time
	id string
}

// listRunning is the old list: running ones only, one page.
func (s *Server) listRunning(w http.ResponseWriter, r *http.Request) error {
	meta, err := parseMetadata(r.URL.Query())
	if err != nil {
		return err
	}
	q := query{states: []e2b.SandboxState{e2b.StateRunning}, metadata: meta, limit: 1 << 30}
	page, _ := q.page(s.records(), s.size)
	writeJSON(w, http.StatusOK, page)
	return nil
}

// list is the list with pages, states, filter and order.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		return err
	}
	records := s.records()
	if slices.Contains(q.states, e2b.StateRunning) {
		all := query{states: []e2b.SandboxState{e2b.StateRunning}, metadata: q.metadata, template: q.template, after: q.after}
		w.Header().Set("X-Total-Running", strconv.Itoa(len(all.filter(records))))
	}
	page, next := q.page(records, s.size)
	if next != "" {
		w.Header().Set("X-Next-Token", next)
	}
	writeJSON(w, http.StatusOK, page)
	return nil
}

func (s *Server) records() []record {
	var records []record
	for _, sb := range s.all() {
		records = append(records, sb.snapshot())
	}
	return records
}

func parseQuery(v url.Values) (q query, err error) {
	q = query{states: []e2b.SandboxState{e2b.StateRunning, e2b.StatePaused}, limit: maxPage}
	if states := v["state"]; len(states) > 0 {
		q.states = nil
		for st := range strings.SplitSeq(strings.Join(states, ","), ",") {
			if st != string(e2b.StateRunning) && st != string(e2b.StatePaused) {
				return q, failf(http.StatusBadRequest, "Invalid state: %s", st)
			}
			q.states = append(q.states, e2b.SandboxState(st))
		}
	}
	if q.limit, err = pageLimit(v.Get("limit")); err != nil {
		return q, err
	}
	switch o := v.Get("order"); o {
	case "", "desc":
	case "asc":
		q.asc = true
	default:
		return q, failf(http.StatusBadRequest, "Invalid order: %s", o)
	}
	if a := v.Get("startedAfter"); a != "" {
		if q.after, err = time.Parse(time.RFC3339, a); err != nil {
			return q, failf(http.StatusBadRequest, "Invalid startedAfter: %s", a)
		}
	}
	if q.template = v.Get("template"); strings.Contains(q.template, ":") {
		return q, failf(http.StatusBadRequest, "Invalid template: a tag is not allowed")
	}
	q.template = strings.TrimPrefix(q.template, namespace+"/")
	if q.metadata, err = parseMetadata(v); err != nil {
		return q, err
	}
	// A page goes on in the order that its token was made for.
	if t := v.Get("nextToken"); t != "" {
		if q.from, q.asc, err = parseToken(t); err != nil {
			return q, err
		}
	}
	return q, nil
}

// pageLimit reads how many entries a page may have.
func pageLimit(given string) (int, error) {
	if given == "" {
		return maxPage, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 || n > maxPage {
		return 0, failf(http.StatusBadRequest, "Invalid limit: %s", given)
	}
	return n, nil
}

// parseMetadata reads the filter, a query string within the query. E2B decodes
// it as a whole and then each part, so SDKs encode each part twice.
func parseMetadata(v url.Values) (map[string]string, error) {
	if !v.Has("metadata") {
		return nil, nil //nolint:nilnil // no filter is a filter that all pass
	}
	whole, err := url.QueryUnescape(v.Get("metadata"))
	if err != nil {
		return nil, failf(http.StatusBadRequest, "Error parsing metadata: error when unescaping query: %v", err)
	}
	m := make(map[string]string)
	for pair := range strings.SplitSeq(whole, "&") {
		parts := strings.Split(pair, "=")
		if len(parts) != 2 {
			return nil, failf(http.StatusBadRequest, "Error parsing metadata: invalid key value pair in query")
		}
		key, err := url.QueryUnescape(parts[0])
		if err != nil {
			return nil, failf(http.StatusBadRequest, "Error parsing metadata: error when unescaping key: %v", err)
		}
		if m[key], err = url.QueryUnescape(parts[1]); err != nil {
			return nil, failf(http.StatusBadRequest, "Error parsing metadata: error when unescaping value: %v", err)
		}
	}
	return m, nil
}

// parseToken reads the place after which a page begins, and its order.
func parseToken(token string) (c cursor, asc bool, err error) {
	bad := failf(http.StatusBadRequest, "Invalid next token")
	b, err := base64.URLEncoding.DecodeString(token)
	if err != nil {
		return c, false, bad
	}
	parts := strings.Split(string(b), "__")
	if len(parts) < 2 || len(parts) > 3 || (len(parts) == 3 && parts[2] != "asc") {
		return c, false, bad
	}
	at, err := time.Parse(time.RFC3339Nano, parts[0])
	if err != nil || !idForm.MatchString(parts[1]) {
		return c, false, bad
	}
	return cursor{at: at, id: parts[1]}, len(parts) == 3, nil
}

// token is what parseToken reads.
func (c cursor) token(asc bool) string {
	t := c.at.UTC().Format(time.RFC3339Nano) + "__" + c.id
	if asc {
		t += "__asc"
	}
	return base64.URLEncoding.EncodeToString([]byte(t))
}

// compare orders by time, then by id.
func (c cursor) compare(d cursor) int {
	if n := c.at.Compare(d.at); n != 0 {
		return n
	}
	return strings.Compare(c.id, d.id)
}

func (r record) cursor() cursor { return cursor{at: r.StartedAt, id: r.ID} }

// page is one page and the token of the next, if there is one.
func (q *query) page(records []record, of size) (page []e2b.ListedSandbox, next string) {
	fit := q.filter(records)
	slices.SortFunc(fit, func(a, b record) int { return q.order(a.cursor().compare(b.cursor())) })
	if q.from.id != "" {
		fit = slices.DeleteFunc(fit, func(r record) bool { return q.order(r.cursor().compare(q.from)) <= 0 })
	}
	if len(fit) > q.limit {
		fit = fit[:q.limit]
		next = fit[len(fit)-1].cursor().token(q.asc)
	}
	page = make([]e2b.ListedSandbox, 0, len(fit)) // an empty page is [], not null
	for _, r := range fit {
		page = append(page, of.listed(r))
	}
	return page, next
}

// order turns a comparison into the order asked for.
func (q *query) order(n int) int {
	if q.asc {
		return n
	}
	return -n
}

func (q *query) filter(records []record) []record {
	var fit []record
	for _, r := range records {
		if q.fits(r) {
			fit = append(fit, r)
		}
	}
	return fit
}

func (q *query) fits(r record) bool {
	for k, v := range q.metadata {
		if got, ok := r.Metadata[k]; !ok || got != v {
			return false
		}
	}
	return slices.Contains(q.states, r.State) && !r.StartedAt.Before(q.after) && (q.template == "" || q.template == r.Template)
}
