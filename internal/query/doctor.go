package query

// How grave a finding is.
const (
	SeverityOK      = "ok"
	SeverityWarning = "warning" // works, but look at it
	SeverityRefusal = "refusal" // a worker does not start like this
)

// Finding is what one check of a deployment found.
type Finding struct {
	Severity string `json:"severity"`
	Name     string `json:"name"`             // of the check
	What     string `json:"what"`             // is found
	Advice   string `json:"advice,omitempty"` // what to do about it
}

// DoctorReply is what a worker finds of what only workers see.
type DoctorReply struct {
	Worker   string    `json:"worker"`
	Findings []Finding `json:"findings"`
}
