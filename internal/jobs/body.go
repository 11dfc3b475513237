package jobs

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/sandjet/sandjet/schemas"
)

// MaxBody is how long a job's body may be.
const MaxBody = 1 << 20

// readBody reads the body into j.Payload and j.Common and checks all that can be
// said without the headers.
func (j *Job) readBody() error {
	if len(j.Body) > MaxBody {
		return invalid("", "the body has %d bytes, at most %d are taken: put large data into the object bucket", len(j.Body), MaxBody)
	}
	schema, ok := schemas.Job(string(j.Kind))
	p := NewPayload(j.Kind)
	if !ok || p == nil {
		if err := j.newer(); err != nil {
			return err
		}
		return invalid("", "there is no kind %q", clip(string(j.Kind), 80))
	}
	body := j.Body
	if err := schema.Validate(body); err != nil {
		if err := j.newer(); err != nil {
			return err
		}
		var ok bool
		if body, ok = withoutZeroVersion(body); !ok || schema.Validate(body) != nil {
			return fromSchema(err)
		}
	}
	if err := json.Unmarshal(body, p); err != nil {
		return invalid("", "%v", err)
	}
	if p.common().V > Version {
		return &NewerVersion{V: p.common().V}
	}
	if err := check(p, body); err != nil {
		return err
	}
	j.Payload, j.Common = p, *p.common()
	return nil
}

// newer returns a *NewerVersion if the body says that it is for a newer worker,
// whatever else is in it.
func (j *Job) newer() error {
	if v := peekBody(j.Body).V; v > Version {
		return &NewerVersion{V: v}
	}
	return nil
}

func fromSchema(err error) error {
	var e *schemas.Error
	if errors.As(err, &e) {
		return invalid(e.Pointer, "%s", e.Reason)
	}
	return invalid("", "%v", err)
}

// peek is what can be read of a body that is not in order.
type peek struct {
	V                  int
	ID, Session, Owner string
}

// peekBody reads the fields that say whose job it is and for which worker.
// Names must match exactly, as they must for the schema.
func peekBody(body []byte) (p peek) {
	var fields map[string]json.RawMessage
	if len(body) > MaxBody || json.Unmarshal(body, &fields) != nil {
		return p
	}
	p.V, _ = strconv.Atoi(string(fields["v"]))
	for name, to := range map[string]*string{"id": &p.ID, "session": &p.Session, "owner": &p.Owner} {
		if json.Unmarshal(fields[name], to) != nil {
			*to = ""
		}
	}
	return p
}

// withoutZeroVersion takes "v": 0 out of a body: an encoder that does not leave
// out zero values means "not given".
func withoutZeroVersion(body []byte) ([]byte, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || string(fields["v"]) != "0" {
		return nil, false
	}
	delete(fields, "v")
	b, err := json.Marshal(fields)
	return b, err == nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
