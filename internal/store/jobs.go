package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// JobView is what a list of jobs shows of one.
type JobView struct {
	Session string `json:"-"`
	Job     string `json:"-"`

	// Seq says what the view stands for: the claim's token, or the sequence of
	// the newest event in it. A view with a lower one does not overwrite it.
	Seq uint64 `json:"-"`
	// Origin is the sequence at which the job was accepted: its place in lists.
	Origin uint64 `json:"-"`

	Kind       string            `json:"k,omitempty"`
	State      string            `json:"s,omitempty"`
	Owner      string            `json:"o,omitempty"`
	Proven     bool              `json:"p,omitempty"` // a subject has proved the owner
	Labels     map[string]string `json:"l,omitempty"`
	Worker     string            `json:"w,omitempty"`
	Attempt    int               `json:"a,omitempty"`
	Waiting    string            `json:"q,omitempty"`
	AcceptedAt time.Time         `json:"t,omitzero"`
	UpdatedAt  time.Time         `json:"u,omitzero"`
	Class      string            `json:"c,omitempty"`
	Outcome    json.RawMessage   `json:"r,omitempty"`
}

// JobFilter picks jobs. Empty fields match all.
type JobFilter struct {
	State, Kind, Session, Owner, Class string

	Proven string // the owner, where a subject has proved him
}

// Match reports whether v passes.
func (f JobFilter) Match(v JobView) bool {
	return (f.State == "" || v.State == f.State) && (f.Kind == "" || v.Kind == f.Kind) &&
		(f.Session == "" || v.Session == f.Session) && (f.Owner == "" || v.Owner == f.Owner) &&
		(f.Class == "" || v.Class == f.Class) && (f.Proven == "" || v.Proven && v.Owner == f.Proven)
}

const (
	jobStep   = 200 // job views read in one call
	trimEvery = 16  // puts, of which one keeps the list at its cap; it takes up to 64 out
)

var jobPutScript = newScript("job_put")

// PutJob stores a job's view unless a newer one is there. The list keeps the
// newest jobs only (WithJobs).
func (s *Store) PutJob(ctx context.Context, v JobView) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("put job %s: %w", v.Job, err)
	}
	now, limit := time.Now(), ""
	if s.puts.Add(1)%trimEvery == 1 {
		limit = strconv.Itoa(s.opts.jobCap)
	}
	// The time is this worker's: it only says which views are a day old.
	return wrap("put job "+v.Job, s.flush.do1(ctx, jobPutScript.eval(ctx, 3,
		s.keys.view(), s.keys.order(), s.keys.jobsOf(v.Session),
		v.Session, v.Job, strconv.FormatUint(v.Seq, 10), strconv.FormatInt(now.UnixMilli(), 10), strconv.FormatUint(v.Origin, 10),
		string(body), limit, strconv.FormatInt(now.Add(-s.opts.jobTTL).UnixMilli(), 10), s.keys.jobsOf(""))))
}

// Job returns a job's view, or ErrNotFound.
func (s *Store) Job(ctx context.Context, session, job string) (JobView, error) {
	cmd := plain(ctx, "hget", s.keys.view(), member(session, job))
	if err := s.flush.do1(ctx, cmd); err != nil {
		return JobView{}, wrap("read job "+job, err)
	}
	v, ok, err := s.decodeJob(member(session, job), text(cmd.Val()))
	if err == nil && !ok {
		err = fmt.Errorf("read job %s: %w", job, ErrNotFound)
	}
	return v, err
}

// FindJob returns the views of all jobs with this id, of whatever session. It
// walks the whole list.
func (s *Store) FindJob(ctx context.Context, job string) ([]JobView, error) {
	var views []JobView
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		found, next, err := s.client.HScan(ctx, s.keys.view(), cursor, "*/"+job, 1000).Result()
		if err != nil {
			return nil, wrap("find job "+job, err)
		}
		for i := 0; i+1 < len(found); i += 2 {
			v, ok, err := s.decodeJob(found[i], found[i+1])
			if err != nil {
				return nil, err
			}
			if ok && !seen[found[i]] {
				seen[found[i]] = true
				views = append(views, v)
			}
		}
		if cursor = next; cursor == 0 {
			return views, nil
		}
	}
}

// Jobs returns one page of jobs that pass f, at most limit, newest first. An
// empty cursor begins; next is the cursor of the next page, or empty after the
// last. A page may be short while next is not empty. Jobs that come while the
// pages are read do not move the others. A cursor names no job that was not shown:
// it goes to who may not know of it.
func (s *Store) Jobs(ctx context.Context, f JobFilter, cursor string, limit int) (page []JobView, next string, err error) {
	limit = max(limit, 1)
	at, err := parseBelow(cursor)
	if err != nil {
		return nil, "", err
	}
	for walked := 0; ; walked += jobStep {
		list, end, err := s.jobsBelow(ctx, f.Session, at, jobStep)
		if err != nil {
			return nil, "", wrap("list jobs", err)
		}
		for _, e := range list {
			if walked >= s.opts.jobBudget && e.origin < at.origin {
				return page, below{e.origin, lastMember}.String(), nil
			}
			at = below{e.origin, e.member}
			if e.ok && f.Match(e.view) {
				if page = append(page, e.view); len(page) == limit {
					return page, at.String(), nil
				}
			}
		}
		if end {
			return page, "", nil
		}
	}
}

// listed is one member of the order, with its view if there is one.
type listed struct {
	origin uint64
	member string
	view   JobView
	ok     bool
}

// jobsBelow reads at most n jobs that stand below at, of one session or of all.
// end is true if there are no more.
func (s *Store) jobsBelow(ctx context.Context, session string, at below, n int) (list []listed, end bool, err error) {
	key, prefix := s.keys.order(), ""
	if session != "" {
		key, prefix = s.keys.jobsOf(session), session+"/"
	}
	// Redis has no "after this member": those of the same origin that were given
	// already are skipped. They are few, as origins are stream sequences.
	for count := n; ; count *= 2 {
		found, err := s.client.ZRevRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{
			Max: at.max(), Min: "-inf", Count: int64(count),
		}).Result()
		if err != nil {
			return nil, false, err
		}
		for _, z := range found {
			e := listed{origin: uint64(z.Score), member: prefix + z.Member.(string)}
			if at.passes(e) {
				list = append(list, e)
			}
		}
		if end = len(found) < count; end || len(list) > 0 {
			return list, end, s.fill(ctx, list)
		}
	}
}

// fill reads the views of list.
func (s *Store) fill(ctx context.Context, list []listed) error {
	if len(list) == 0 {
		return nil
	}
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.member
	}
	values, err := s.client.HMGet(ctx, s.keys.view(), names...).Result()
	if err != nil {
		return err
	}
	for i, v := range values {
		if list[i].view, list[i].ok, err = s.decodeJob(list[i].member, text(v)); err != nil {
			return err
		}
	}
	return nil
}

// decodeJob reads "<seq> <ms of put> <origin> <json>". ok is false for nothing,
// and for what has not been touched for the time to live.
func (s *Store) decodeJob(name, value string) (v JobView, ok bool, err error) {
	if value == "" {
		return v, false, nil
	}
	parts := strings.SplitN(value, " ", 4)
	if len(parts) != 4 {
		return v, false, fmt.Errorf("job %s: view is not ours", name)
	}
	put, _ := strconv.ParseInt(parts[1], 10, 64)
	if time.Since(time.UnixMilli(put)) > s.opts.jobTTL {
		return v, false, nil
	}
	if err := json.Unmarshal([]byte(parts[3]), &v); err != nil {
		return v, false, fmt.Errorf("job %s: %w", name, err)
	}
	v.Session, v.Job = split(name)
	v.Seq, _ = strconv.ParseUint(parts[0], 10, 64)
	v.Origin, _ = strconv.ParseUint(parts[2], 10, 64)
	return v, true, nil
}

// lastMember comes after the name of any job: of its origin it leaves nothing out.
const lastMember = "~"

// below is a place in the list: what comes after it.
type below struct {
	origin uint64
	member string
}

func parseBelow(cursor string) (below, error) {
	if cursor == "" {
		return below{}, nil
	}
	head, member, ok := strings.Cut(cursor, ".")
	origin, err := strconv.ParseUint(head, 10, 64)
	if !ok || err != nil || member == "" {
		return below{}, ErrCursor
	}
	return below{origin, member}, nil
}

// String is the cursor.
func (b below) String() string { return strconv.FormatUint(b.origin, 10) + "." + b.member }

func (b below) max() string {
	if b.member == "" {
		return "+inf"
	}
	return strconv.FormatUint(b.origin, 10)
}

// passes reports whether e stands below b; of the same origin the greater names
// come first, as Redis orders them.
func (b below) passes(e listed) bool {
	return b.member == "" || e.origin < b.origin || e.member < b.member
}
