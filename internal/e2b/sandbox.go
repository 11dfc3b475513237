package e2b

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Create starts a sandbox.
//
// Never repeat it blindly: E2B has no idempotency key. After an error that is
// ErrUnknown, a sandbox may be there; find it with List by something unique in
// the request's metadata. Any other error means that none was made.
func (c *Client) Create(ctx context.Context, r CreateRequest) (*Sandbox, error) {
	const op = "create"
	switch {
	case r.TemplateID == "":
		return nil, invalid(op, "", "no template")
	case r.Timeout < 0 || r.Timeout > math.MaxInt32:
		return nil, invalid(op, "", "timeout is not a number of seconds")
	}
	sb := new(Sandbox)
	_, _, err := c.do(ctx, call{
		op: op, method: http.MethodPost, path: "/v2/sandboxes",
		body: r, timeout: c.cfg.Timeouts.Create, ok: []int{http.StatusCreated},
	}, sb)
	if err != nil {
		return nil, err
	}
	return sb, nil
}

// Get returns what E2B knows of a sandbox, its access token included. One that
// is pausing is shown as paused. ErrNotFound means that there is none, or that
// another team owns it. It may be repeated.
func (c *Client) Get(ctx context.Context, id string) (*SandboxDetail, error) {
	sb := new(SandboxDetail)
	_, _, err := c.do(ctx, call{
		op: "get", sandbox: id, method: http.MethodGet, path: "/sandboxes/{id}",
		timeout: c.cfg.Timeouts.Read, ok: []int{http.StatusOK},
	}, sb)
	if err != nil {
		return nil, err
	}
	return sb, nil
}

// Connect makes sure that a sandbox runs for at least timeout from now: it
// resumes a paused one (resumed is true, and the end is now + timeout), and
// extends a running one, never shortens it. A resume takes one of the team's
// running sandboxes, so ErrQuota is possible. ErrConflict means that the
// sandbox is on its way to another state: read it again. It may be repeated.
func (c *Client) Connect(ctx context.Context, id string, timeout time.Duration) (sb *Sandbox, resumed bool, err error) {
	return c.connect(ctx, id, timeout, nil)
}

// Boot is Connect, but a paused sandbox starts from its disk alone: what its
// memory held, every process included, is gone. A running one stays as it is. It
// may be repeated.
func (c *Client) Boot(ctx context.Context, id string, timeout time.Duration) (sb *Sandbox, resumed bool, err error) {
	return c.connect(ctx, id, timeout, new(bool))
}

func (c *Client) connect(ctx context.Context, id string, timeout time.Duration, memory *bool) (sb *Sandbox, resumed bool, err error) {
	const op = "connect"
	secs, err := seconds(op, id, timeout)
	if err != nil {
		return nil, false, err
	}
	sb = new(Sandbox)
	status, _, err := c.do(ctx, call{
		op: op, sandbox: id, method: http.MethodPost, path: "/v2/sandboxes/{id}/connect",
		body: connectBody{secs, memory}, timeout: c.cfg.Timeouts.Create,
		ok: []int{http.StatusOK, http.StatusCreated},
	}, sb)
	if err != nil {
		return nil, false, err
	}
	return sb, status == http.StatusCreated, nil
}

// Pause stops a sandbox and keeps its disk and memory. All its connections
// drop. It takes seconds, about 4 for each GiB of memory. A sandbox that is
// paused already is no error: a 409 is looked into with one Get, and only what
// is not paused then is ErrConflict. It may be repeated.
func (c *Client) Pause(ctx context.Context, id string) error {
	return c.pause(ctx, id, nil)
}

// PauseDisk is Pause, but keeps the disk alone: a resume starts the sandbox anew
// from it. It may be repeated.
func (c *Client) PauseDisk(ctx context.Context, id string) error {
	return c.pause(ctx, id, memoryBody{})
}

func (c *Client) pause(ctx context.Context, id string, body any) error {
	_, _, err := c.do(ctx, call{
		op: "pause", sandbox: id, method: http.MethodPost, path: "/sandboxes/{id}/pause",
		body: body, timeout: c.cfg.Timeouts.Pause, ok: []int{http.StatusNoContent},
	}, nil)
	if !errors.Is(err, ErrConflict) {
		return err
	}
	now, getErr := c.Get(ctx, id)
	switch {
	case getErr != nil:
		return getErr
	case now.State == StatePaused:
		return nil
	}
	return err
}

// SetTimeout moves the end of a running sandbox to now + d, earlier or later.
// ErrNotFound is also the answer for a paused one, ErrConflict for one in
// transition, ErrInvalid for more than the plan allows. A d of zero or less is
// refused here, since E2B would end the sandbox at once. It may be repeated.
func (c *Client) SetTimeout(ctx context.Context, id string, d time.Duration) error {
	const op = "timeout"
	secs, err := seconds(op, id, d)
	if err != nil {
		return err
	}
	_, _, err = c.do(ctx, call{
		op: op, sandbox: id, method: http.MethodPost, path: "/sandboxes/{id}/timeout",
		body: timeoutBody{secs}, timeout: c.cfg.Timeouts.Change, ok: []int{http.StatusNoContent},
	}, nil)
	return err
}

// SetNetwork replaces a running sandbox's rules for what goes out. Header values are
// taken out of errors, should the server send them back. It may be repeated.
func (c *Client) SetNetwork(ctx context.Context, id string, n NetworkUpdate) error {
	if n.Rules == nil {
		n.Rules = map[string][]NetworkRule{}
	}
	var secrets []string
	for _, rules := range n.Rules {
		for _, r := range rules {
			secrets = slices.AppendSeq(secrets, maps.Values(r.Transform.Headers))
		}
	}
	_, _, err := c.do(ctx, call{
		op: "network", sandbox: id, method: http.MethodPut, path: "/sandboxes/{id}/network",
		body: n, secrets: secrets, timeout: c.cfg.Timeouts.Change, ok: []int{http.StatusNoContent},
	}, nil)
	return err
}

// Kill destroys a sandbox, running or paused, and its snapshot. existed is
// false if E2B knew none. It may be repeated.
func (c *Client) Kill(ctx context.Context, id string) (existed bool, err error) {
	_, _, err = c.do(ctx, call{
		op: "kill", sandbox: id, method: http.MethodDelete, path: "/sandboxes/{id}",
		timeout: c.cfg.Timeouts.Change, ok: []int{http.StatusNoContent},
	}, nil)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Metrics returns the samples between start and end; a zero time leaves that
// side open. It may be repeated.
func (c *Client) Metrics(ctx context.Context, id string, start, end time.Time) ([]Metric, error) {
	query := url.Values{}
	for name, at := range map[string]time.Time{"start": start, "end": end} {
		if !at.IsZero() {
			query.Set(name, strconv.FormatInt(at.Unix(), 10))
		}
	}
	var ms metricList
	_, _, err := c.do(ctx, call{
		op: "metrics", sandbox: id, method: http.MethodGet, path: "/sandboxes/{id}/metrics",
		query: query, timeout: c.cfg.Timeouts.Read, ok: []int{http.StatusOK},
	}, &ms)
	return ms, err
}

// Ping proves that the control plane answers and takes the key, by a read that
// costs nothing. It may be repeated.
func (c *Client) Ping(ctx context.Context) error {
	_, _, err := c.do(ctx, call{
		op: "ping", method: http.MethodGet, path: "/v2/sandboxes",
		query:   url.Values{"limit": {"1"}, "state": {string(StateRunning)}},
		timeout: c.cfg.Timeouts.Read, ok: []int{http.StatusOK},
	}, new(page))
	return err
}

type timeoutBody struct {
	Timeout int `json:"timeout"`
}

type connectBody struct {
	Timeout int   `json:"timeout"`
	Memory  *bool `json:"memory,omitempty"`
}

type memoryBody struct {
	Memory bool `json:"memory"`
}

type metricList []Metric

func (m *metricList) check() error {
	if *m == nil {
		return errors.New("no list")
	}
	return nil
}

// seconds rounds d up to whole seconds, as the wire wants them.
func seconds(op, id string, d time.Duration) (int, error) {
	secs := (d + time.Second - 1) / time.Second
	if d <= 0 || d > math.MaxInt32*time.Second {
		return 0, invalid(op, id, "timeout "+d.String()+" is out of range")
	}
	return int(secs), nil
}

// invalid is a request that this side refuses to send.
func invalid(op, id, message string) *Error {
	return &Error{Op: op, Sandbox: id, Kind: ErrInvalid, Message: message}
}
