package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Stream is the stream's name, before the namespace.
const Stream = "AUDIT"

// HeaderHash is the header with the SHA-256 of the record.
const HeaderHash = "Sandjet-Hash"

// The outside systems.
const (
	E2B    = "e2b"
	Git    = "git"
	GitHub = "github"
)

// Outcomes other than a class of error.
const (
	OK     = "ok"
	Closed = "closed" // of the record that ends a chain in good order
)

// Record is one effect. It holds no secret.
type Record struct {
	V     int    `json:"v"`
	Chain string `json:"chain"`          // of one process
	N     uint64 `json:"n"`              // place in the chain, from 1
	Prev  string `json:"prev,omitempty"` // SHA-256 of the record before in the chain; none in the first
	After *Head  `json:"after,omitempty"`
	// Lost counts records that could not be written, right before this one.
	Lost int `json:"lost,omitempty"`

	Time       time.Time `json:"time"`
	Worker     string    `json:"worker"`
	Owner      string    `json:"owner,omitempty"`
	Session    string    `json:"session,omitempty"`
	Job        string    `json:"job,omitempty"`
	Generation int       `json:"generation,omitempty"`
	System     string    `json:"system,omitempty"` // e2b, git or github
	Action     string    `json:"action"`
	Target     string    `json:"target,omitempty"` // the sandbox or file

	// Of git and GitHub.
	Remote string `json:"remote,omitempty"` // address of the repository, without credentials
	Branch string `json:"branch,omitempty"`
	Commit string `json:"commit,omitempty"`
	Number int    `json:"number,omitempty"` // of the pull request

	// Secrets are the names of those that were given for it, never their values.
	Secrets []string `json:"secrets,omitempty"`

	Argv       []string `json:"argv,omitempty"` // with secrets masked, and cut if it is long
	ArgvSHA256 string   `json:"argv_sha256,omitempty"`
	Outcome    string   `json:"outcome"` // ok, or the class of what went wrong
	Detail     string   `json:"detail,omitempty"`
	DurationMS int64    `json:"duration_ms"`
}

// Head is the newest record of the stream when a chain began.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// closing is the action of the record that ends a chain.
const closing = "close"

const (
	maxArgv   = 4 << 10
	maxDetail = 1 << 10
)

// WithArgv returns r with a command: its hash is of all of it, its text is cut.
func (r Record) WithArgv(argv []string) Record {
	if len(argv) == 0 {
		return r
	}
	whole, _ := json.Marshal(argv) // strings alone
	r.ArgvSHA256 = Hash(whole)
	r.Argv = nil
	room := maxArgv
	for _, a := range argv {
		if room <= 0 {
			r.Argv = append(r.Argv, "…")
			break
		}
		if len(a) > room {
			a = a[:room] + "…"
		}
		room -= len(a)
		r.Argv = append(r.Argv, a)
	}
	return r
}

// Hash is what a record's successor and its own header say of it.
func Hash(record []byte) string {
	sum := sha256.Sum256(record)
	return hex.EncodeToString(sum[:])
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
