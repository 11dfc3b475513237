package e2b

import (
	"errors"
	"fmt"
	"time"
)

// CreateRequest is the body of POST /v2/sandboxes.
type CreateRequest struct {
	TemplateID      string            `json:"templateID"`
	Timeout         int               `json:"timeout,omitempty"` // seconds; 0 leaves E2B's default of 300
	AutoPause       bool              `json:"autoPause,omitempty"`
	AutoPauseMemory *bool             `json:"autoPauseMemory,omitempty"`
	AutoResume      *AutoResume       `json:"autoResume,omitempty"`
	Metadata        map[string]string `json:"metadata,omitempty"`
	EnvVars         map[string]string `json:"envVars,omitempty"`
	AllowInternet   *bool             `json:"allow_internet_access,omitempty"`
	Network         *Network          `json:"network,omitempty"`
}

// AutoResume says whether traffic wakes a paused sandbox.
type AutoResume struct {
	Enabled bool `json:"enabled"`
}

// Network is a sandbox's egress and ingress rules.
type Network struct {
	AllowOut           []string `json:"allowOut,omitempty"`
	DenyOut            []string `json:"denyOut,omitempty"`
	AllowPublicTraffic *bool    `json:"allowPublicTraffic,omitempty"`
	MaskRequestHost    string   `json:"maskRequestHost,omitempty"`
}

// NetworkUpdate is the body of PUT /sandboxes/{id}/network. It replaces what was
// there: a field left out is cleared.
type NetworkUpdate struct {
	AllowOut      []string `json:"allowOut,omitempty"`
	DenyOut       []string `json:"denyOut,omitempty"`
	AllowInternet *bool    `json:"allow_internet_access,omitempty"`
	// Rules are by domain. They are always sent, nil as an empty object: servers that
	// keep what is left out clear them too.
	Rules map[string][]NetworkRule `json:"rules"`
}

// NetworkRule changes requests on their way out of the sandbox.
type NetworkRule struct {
	Transform NetworkTransform `json:"transform"`
}

// NetworkTransform is what a rule does.
type NetworkTransform struct {
	// Headers are added, or replace what the sandbox sent under the same name. What is
	// in them the sandbox never sees.
	Headers map[string]string `json:"headers,omitempty"`
}

// Sandbox is the answer to create, connect and resume.
type Sandbox struct {
	SandboxID          string  `json:"sandboxID"`
	TemplateID         string  `json:"templateID"`
	ClientID           string  `json:"clientID"`
	EnvdVersion        string  `json:"envdVersion"`
	Alias              string  `json:"alias,omitempty"`
	EnvdAccessToken    string  `json:"envdAccessToken,omitempty"`
	TrafficAccessToken *string `json:"trafficAccessToken,omitempty"`
	Domain             *string `json:"domain,omitempty"`
}

// Ref returns what it takes to reach the sandbox's data plane. Keep it: only
// get and connect tell the token again.
func (s *Sandbox) Ref() Ref {
	return Ref{ID: s.SandboxID, AccessToken: s.EnvdAccessToken, Domain: deref(s.Domain), EnvdVersion: s.EnvdVersion}
}

func (s *Sandbox) check() error { return checkID(s.SandboxID) }

// SandboxState is E2B's word for where a sandbox is.
type SandboxState string

// The two states E2B shows.
const (
	StateRunning SandboxState = "running"
	StatePaused  SandboxState = "paused"
)

// ListedSandbox is one entry of a list.
type ListedSandbox struct {
	SandboxID   string            `json:"sandboxID"`
	TemplateID  string            `json:"templateID"`
	ClientID    string            `json:"clientID"`
	Alias       string            `json:"alias,omitempty"`
	State       SandboxState      `json:"state"`
	StartedAt   time.Time         `json:"startedAt"`
	EndAt       time.Time         `json:"endAt"`
	CPUCount    int               `json:"cpuCount"`
	MemoryMB    int               `json:"memoryMB"`
	DiskSizeMB  int               `json:"diskSizeMB"`
	EnvdVersion string            `json:"envdVersion"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// SandboxDetail is the answer to GET /sandboxes/{id}.
type SandboxDetail struct {
	ListedSandbox
	EnvdAccessToken string     `json:"envdAccessToken,omitempty"`
	Domain          *string    `json:"domain,omitempty"`
	AllowInternet   *bool      `json:"allowInternetAccess,omitempty"`
	Network         *Network   `json:"network,omitempty"`
	Lifecycle       *Lifecycle `json:"lifecycle,omitempty"`
}

// Ref returns what it takes to reach the sandbox's data plane.
func (s *SandboxDetail) Ref() Ref {
	return Ref{ID: s.SandboxID, AccessToken: s.EnvdAccessToken, Domain: deref(s.Domain), EnvdVersion: s.EnvdVersion}
}

func (s *SandboxDetail) check() error {
	if s.State == "" {
		return errors.New("a sandbox without a state")
	}
	return checkID(s.SandboxID)
}

// Lifecycle is what happens at the end of a sandbox's time.
type Lifecycle struct {
	OnTimeout  string `json:"onTimeout"` // kill or pause
	AutoResume bool   `json:"autoResume"`
}

// Metric is one sample of a sandbox's use.
type Metric struct {
	Timestamp     time.Time `json:"timestamp"`
	TimestampUnix int64     `json:"timestampUnix"`
	CPUCount      int       `json:"cpuCount"`
	CPUUsedPct    float64   `json:"cpuUsedPct"`
	MemUsed       int64     `json:"memUsed"`
	MemTotal      int64     `json:"memTotal"`
	MemCache      int64     `json:"memCache"`
	DiskUsed      int64     `json:"diskUsed"`
	DiskTotal     int64     `json:"diskTotal"`
}

// Ref is what it takes to reach a sandbox's data plane.
type Ref struct {
	ID          string
	AccessToken string
	Domain      string // empty is the client's own
	EnvdVersion string
}

// String leaves the token out.
func (r Ref) String() string { return r.ID }

// GoString leaves the token out.
func (r Ref) GoString() string { return fmt.Sprintf("e2b.Ref{ID:%q}", r.ID) }

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func checkID(id string) error {
	if !validID(id) {
		return fmt.Errorf("%.80q is not a sandbox id", id)
	}
	return nil
}
