package e2b

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem/filesystemconnect"
	"github.com/sandjet/sandjet/internal/e2b/envd/process/processconnect"
)

// Box is a handle on one sandbox's data plane: commands and files. It holds no
// connection of its own and says nothing about whether the sandbox runs. Any
// of its calls fails with ErrSandboxGone if it does not. Safe for concurrent
// use.
type Box struct {
	client *Client
	ref    Ref
	user   string
	base   string
	err    error // what is wrong with ref

	processes processconnect.ProcessClient
	files     filesystemconnect.FilesystemClient
}

// Open returns a handle. It sends nothing; a malformed ref makes each call
// fail with ErrInvalid.
func (c *Client) Open(ref Ref) *Box {
	b := &Box{client: c, ref: ref}
	if err := checkID(ref.ID); err != nil {
		b.err = err
	} else {
		b.base, b.err = c.cfg.boxURL(ref.ID, ref.Domain)
	}
	b.dial()
	return b
}

// As returns a handle on the same sandbox whose commands and files are user's.
// The empty name is envd's default user.
func (b *Box) As(user string) *Box {
	as := *b // RPCs carry the user with each call, so the clients are shared
	as.user = user
	return &as
}

// ID returns the sandbox's id.
func (b *Box) ID() string { return b.ref.ID }

// Healthy reports whether envd answers. false without an error means
// ErrSandboxGone: killed, paused or never there, ask the control plane. Any
// other trouble is an error and says nothing about the sandbox. It may be
// repeated.
func (b *Box) Healthy(ctx context.Context) (ok bool, err error) {
	const op = "health"
	began := time.Now()
	defer func() { b.client.observe(op, 0, err, began) }()

	ctx, cancel := b.limit(ctx)
	defer cancel()
	req, err := b.request(ctx, op, http.MethodGet, "/health", nil)
	if err != nil {
		return false, err
	}
	res, err := b.exchange(op, http.StatusNoContent, http.StatusOK).do(b.client.data, req)
	if err != nil {
		if isKind(err, ErrSandboxGone) {
			return false, nil
		}
		return false, err
	}
	return true, res.Body.Close()
}

// limit bounds one small call.
func (b *Box) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	d := b.client.cfg.Timeouts.Box
	return context.WithTimeoutCause(ctx, d, errTimeout{d})
}

func (b *Box) exchange(op string, ok ...int) exchange {
	return exchange{op: op, sandbox: b.ref.ID, data: true, secrets: []string{b.ref.AccessToken}, ok: ok, admit: b.client.cfg.Admit}
}

// request makes a plain HTTP request to envd.
func (b *Box) request(ctx context.Context, op, method, path string, query url.Values) (*http.Request, error) {
	if b.err != nil {
		return nil, invalid(op, b.ref.ID, b.err.Error())
	}
	u := b.base + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, nil)
	if err != nil {
		return nil, &Error{Op: op, Sandbox: b.ref.ID, Err: bare(err)}
	}
	b.sign(req.Header, "") // of files the user is in the query
	return req, nil
}

// sign sets the headers that route a request and prove the right to send it.
func (b *Box) sign(h http.Header, user string) {
	h.Set("E2b-Sandbox-Id", b.ref.ID)
	h.Set("E2b-Sandbox-Port", EnvdPort)
	h.Set("User-Agent", b.client.cfg.UserAgent)
	if b.ref.AccessToken != "" {
		h.Set("X-Access-Token", b.ref.AccessToken)
	}
	if user != "" {
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":")))
	}
}

// CheckEnvd returns an ErrUnsupported error if the sandbox's template carries
// an envd that is too old for this package: before 0.5.7 it takes no streamed
// upload. An unreadable version passes.
func (r Ref) CheckEnvd() error {
	if older(r.EnvdVersion, [3]int{0, 5, 7}) {
		return &Error{
			Op: "open", Sandbox: r.ID, Kind: ErrUnsupported,
			Message: "envd " + clean(r.EnvdVersion, nil) + " is older than 0.5.7: build the template anew",
		}
	}
	return nil
}

// older compares "0.6.13" with what is needed, number by number.
func older(version string, need [3]int) bool {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	for i, want := range need {
		if i >= len(parts) {
			return false
		}
		n, digits := 0, 0
		for _, r := range parts[i] {
			if r < '0' || r > '9' || digits > 6 {
				break
			}
			n, digits = n*10+int(r-'0'), digits+1
		}
		if digits == 0 {
			return false
		}
		if n != want {
			return n < want
		}
	}
	return false
}
