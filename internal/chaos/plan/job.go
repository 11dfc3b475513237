package plan

import (
	"encoding/json"
	"time"

	"github.com/sandjet/sandjet/internal/jobs"
)

// Flavour is a sort of job.
type Flavour string

// The flavours. All but the last ones of the list are commands.
const (
	Quick     Flavour = "quick"     // some lines
	Steady    Flavour = "steady"    // lines over seconds
	Long      Flavour = "long"      // runs for more than 5 x AckWait
	Loud      Flavour = "loud"      // writes MiBs
	Silent    Flavour = "silent"    // says nothing for seconds
	Failing   Flavour = "failing"   // exit status 3
	Again     Flavour = "again"     // its first attempt fails and it asks for another
	Cancelled Flavour = "cancelled" // somebody wants it ended
	Duplicate Flavour = "duplicate" // published twice
	Delayed   Flavour = "delayed"   // not before some seconds are over
	Alone     Flavour = "alone"     // without a session
	Unique    Flavour = "unique"    // one live job per key

	Poisoned  Flavour = "poisoned" // a body that is no job
	Missing   Flavour = "missing"  // a download of what is not there
	Upload    Flavour = "upload"
	Download  Flavour = "download"
	Provision Flavour = "provision"
	Pause     Flavour = "pause"
	Resume    Flavour = "resume"
	Destroy   Flavour = "destroy"
)

// Job is one job, and what it should come to.
type Job struct {
	N       int // its place in the plan
	Flavour Flavour
	Session string
	ID      string
	Kind    jobs.Kind
	Payload jobs.Payload // nil if Body is not one
	Body    json.RawMessage
	Script  *Script // of a command

	Exclusive   bool
	Twice       int           // published a second time, so many jobs later
	CancelAfter time.Duration // after its publication, if Flavour is Cancelled
	Settled     bool          // published only when the session's jobs before it have ended
	Object      string        // that an upload or download moves
}

// Command reports whether the job runs a command.
func (j *Job) Command() bool { return j.Script != nil }

// MaxAttempts is how often the job may be tried.
func (j *Job) MaxAttempts() int { return jobs.DefaultMaxAttempts }

// Objects are the files that uploads take, with their sizes.
func Objects() map[string]int {
	return map[string]int{"seed-small": 10 << 10, "seed-middle": 300 << 10, "seed-large": 3 << 20}
}

// ObjectBytes is the content of one.
func ObjectBytes(name string) []byte {
	b := make([]byte, Objects()[name])
	x := uint32(len(name)*2654435761 + len(b))
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}
