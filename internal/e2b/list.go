package e2b

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Order is the direction of a list, by start time.
type Order string

// The two orders. E2B's default is the newest first.
const (
	NewestFirst Order = "desc"
	OldestFirst Order = "asc"
)

// ListQuery says which sandboxes to list. The zero value is all of them.
type ListQuery struct {
	States       []SandboxState    // none is all states
	Metadata     map[string]string // all pairs must match exactly
	Template     string            // id or alias, without a tag
	StartedAfter time.Time         // inclusive
	Order        Order
	Limit        int    // entries a page, 1..100; 0 is E2B's default of 100
	NextToken    string // where to go on: Page.Next of an earlier page
}

// Page is one page of a list.
type Page struct {
	Sandboxes []ListedSandbox
	Next      string // token of the next page; empty on the last
	Running   int    // how many run in all; -1 if E2B did not say
}

// List returns all sandboxes that match, page after page, starting at
// q.NextToken. An error ends the sequence, and then the list is not complete:
// never take what is missing from it for gone. A sandbox that changes while
// the pages are read may show twice or not at all. It may be repeated.
func (c *Client) List(ctx context.Context, q ListQuery) iter.Seq2[ListedSandbox, error] {
	return func(yield func(ListedSandbox, error) bool) {
		seen := map[string]bool{}
		for {
			p, err := c.ListPage(ctx, q)
			if err != nil {
				yield(ListedSandbox{}, err)
				return
			}
			for _, sb := range p.Sandboxes {
				if !yield(sb, nil) {
					return
				}
			}
			if p.Next == "" {
				return
			}
			if seen[p.Next] {
				yield(ListedSandbox{}, &Error{Op: "list", Kind: ErrBadAnswer, Message: "the pages go round in a circle"})
				return
			}
			seen[p.Next] = true
			q.NextToken = p.Next
		}
	}
}

// ListPage returns one page. It may be repeated.
func (c *Client) ListPage(ctx context.Context, q ListQuery) (Page, error) {
	query, err := q.values()
	if err != nil {
		return Page{}, invalid("list", "", err.Error())
	}
	var sandboxes page
	_, header, err := c.do(ctx, call{
		op: "list", method: http.MethodGet, path: "/v2/sandboxes", query: query,
		timeout: c.cfg.Timeouts.Read, ok: []int{http.StatusOK},
	}, &sandboxes)
	if err != nil {
		return Page{}, err
	}
	p := Page{Sandboxes: sandboxes, Next: header.Get("X-Next-Token"), Running: -1}
	if n, err := strconv.Atoi(header.Get("X-Total-Running")); err == nil && n >= 0 {
		p.Running = n
	}
	return p, nil
}

func (q ListQuery) values() (url.Values, error) {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Limit < 0 || q.Limit > 100 {
		return nil, fmt.Errorf("limit %d is not in 1..100", q.Limit)
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	states := make([]string, len(q.States))
	for i, s := range q.States {
		states[i] = string(s)
	}
	set("state", strings.Join(states, ","))
	set("metadata", metadataFilter(q.Metadata))
	set("template", q.Template)
	set("order", string(q.Order))
	set("nextToken", q.NextToken)
	if !q.StartedAfter.IsZero() {
		v.Set("startedAfter", q.StartedAfter.UTC().Format(time.RFC3339Nano))
	}
	return v, nil
}

// metadataFilter writes the filter as the query string that E2B wants inside
// the query string, in a settled order. E2B decodes it as a whole and then each
// key and value once more, so these are encoded twice here, and a third time
// with the rest of the query.
func metadataFilter(m map[string]string) string {
	// A space becomes %20, never a plus, which only some decoders take for one.
	escape := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, escape(escape(k))+"="+escape(escape(m[k])))
	}
	return strings.Join(pairs, "&")
}

type page []ListedSandbox

// check refuses what only looks like an empty list: "null" is not one.
func (p *page) check() error {
	if *p == nil {
		return errors.New("no list")
	}
	for _, sb := range *p {
		if err := checkID(sb.SandboxID); err != nil {
			return err
		}
		if sb.State == "" {
			return fmt.Errorf("sandbox %s without a state", sb.SandboxID)
		}
	}
	return nil
}
