package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer bounds a JSON answer of the control plane; a full page of 100
// sandboxes with large metadata is far below it.
const maxAnswer = 8 << 20

// Client speaks to E2B's control plane and opens data planes. It is safe for
// concurrent use and keeps nothing but idle connections.
type Client struct {
	cfg  Config
	api  *http.Client // control plane
	data *http.Client // envd: streams and files
}

// New returns a client. It fails if cfg is malformed; it does not connect.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	return &Client{
		cfg:  cfg,
		api:  newHTTPClient(cfg.HTTPClient, 64),
		data: newHTTPClient(cfg.HTTPClient, 256),
	}, nil
}

// Close drops idle connections. Calls under way go on.
func (c *Client) Close() {
	c.api.CloseIdleConnections()
	c.data.CloseIdleConnections()
}

// call is one request to the control plane.
type call struct {
	op      string
	sandbox string
	method  string
	path    string // "{id}" in it is the sandbox
	query   url.Values
	body    any      // encoded as JSON; nil sends none
	secrets []string // what of it no error may hold
	timeout time.Duration
	ok      []int // statuses that mean success
}

// do sends one request, once, and decodes the answer into out if out is not
// nil. It returns the status and the headers of a success.
func (c *Client) do(ctx context.Context, call call, out any) (status int, header http.Header, err error) {
	began := time.Now()
	defer func() { c.observe(call.op, status, err, began) }()

	// An empty id would make "kill one" a call on the whole collection.
	if strings.Contains(call.path, "{id}") {
		if err := checkID(call.sandbox); err != nil {
			return 0, nil, invalid(call.op, "", err.Error())
		}
		call.path = strings.ReplaceAll(call.path, "{id}", call.sandbox)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, call.timeout, errTimeout{call.timeout})
	defer cancel()
	req, key, err := c.request(ctx, call)
	if err != nil {
		return 0, nil, &Error{Op: call.op, Sandbox: call.sandbox, Err: err}
	}
	x := exchange{op: call.op, sandbox: call.sandbox, secrets: append(call.secrets, key), ok: call.ok, admit: c.cfg.Admit}
	res, err := x.do(c.api, req)
	if err != nil {
		return statusOf(err), nil, err
	}
	defer res.Body.Close()
	if err := x.decode(ctx, res, out); err != nil {
		return res.StatusCode, nil, err
	}
	return res.StatusCode, res.Header, nil
}

func (c *Client) request(ctx context.Context, call call) (req *http.Request, key string, err error) {
	key, err = c.cfg.APIKey()
	if err != nil {
		return nil, "", fmt.Errorf("read API key: %w", err)
	}
	if key = strings.TrimSpace(key); key == "" {
		return nil, "", errors.New("read API key: it is empty")
	}
	u := c.cfg.APIURL + call.path
	if len(call.query) > 0 {
		u += "?" + call.query.Encode()
	}
	var body io.Reader
	if call.body != nil {
		b, err := json.Marshal(call.body)
		if err != nil {
			return nil, "", fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	if req, err = http.NewRequestWithContext(ctx, call.method, u, body); err != nil {
		return nil, "", fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("X-API-KEY", key)
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, key, nil
}

func (c *Client) observe(op string, status int, err error, began time.Time) {
	if c.cfg.Observe == nil {
		return
	}
	switch {
	case err != nil:
		status = statusOf(err)
	case status == 0:
		status = http.StatusOK
	}
	c.cfg.Observe(Call{Op: op, Status: status, Err: err, Duration: time.Since(began)})
}

func statusOf(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}
