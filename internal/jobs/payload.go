package jobs

import (
	"time"

	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/wire"
)

// Kind names what a job does. It is the job's subject too.
type Kind string

// The kinds of job.
const (
	SandboxProvision Kind = "sandbox.provision"
	SandboxResume    Kind = "sandbox.resume"
	SandboxPause     Kind = "sandbox.pause"
	SandboxDestroy   Kind = "sandbox.destroy"
	TaskRun          Kind = "task.run"
	FileUpload       Kind = "file.upload"
	FileDownload     Kind = "file.download"
	GitClone         Kind = "git.clone"
	GitPublish       Kind = "git.publish"
)

// Kinds lists every kind, in the order of the contract.
func Kinds() []Kind {
	return []Kind{
		SandboxProvision, SandboxResume, SandboxPause, SandboxDestroy,
		TaskRun, FileUpload, FileDownload, GitClone, GitPublish,
	}
}

// Version is the payload version this code writes and understands.
const Version = 1

// Common is what every job's body may carry.
type Common struct {
	V           int               `json:"v,omitempty"`
	ID          string            `json:"id,omitempty"`
	Session     string            `json:"session,omitempty"`
	Owner       string            `json:"owner,omitempty"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	ExpiresIn   wire.Duration     `json:"expires_in,omitzero"`
	RunAfter    time.Time         `json:"run_after,omitzero"`
	Delay       wire.Duration     `json:"delay,omitzero"`
	Unique      string            `json:"unique,omitempty"`
	Exclusive   *bool             `json:"exclusive,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

// Provision makes a session and its sandbox, or adopts the one it has.
type Provision struct {
	Common
	Template    string            `json:"template,omitempty"`
	IdleTimeout wire.Duration     `json:"idle_timeout,omitzero"`
	MaxAge      wire.Duration     `json:"max_age,omitzero"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	Secrets     map[string]string `json:"secrets,omitempty"`
	Network     *session.Network  `json:"network,omitempty"`
	Ephemeral   bool              `json:"ephemeral,omitempty"`
}

// Lifecycle is the body of sandbox.resume, sandbox.pause and sandbox.destroy.
// In the state already = success.
type Lifecycle struct {
	Common
	Reason string `json:"reason,omitempty"`
}

// Run runs one command in the session's sandbox.
type Run struct {
	Common
	Argv          []string          `json:"argv,omitempty"`
	Shell         string            `json:"shell,omitempty"`
	Cwd           string            `json:"cwd,omitempty"`
	User          string            `json:"user,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	Secrets       map[string]string `json:"secrets,omitempty"`
	Stdin         string            `json:"stdin,omitempty"`
	Timeout       wire.Duration     `json:"timeout,omitzero"`
	SilentTimeout wire.Duration     `json:"silent_timeout,omitzero"`
	RetryOnExit   []int             `json:"retry_on_exit,omitempty"` // exit codes that are worth another attempt
	Repo          *Repo             `json:"repo,omitempty"`
}

// File is the body of file.upload (object bucket to sandbox) and file.download
// (sandbox to object bucket).
type File struct {
	Common
	Path   string `json:"path"`
	Object string `json:"object"`
	Mode   string `json:"mode,omitempty"` // octal, "0644"; upload only
}

// Git is the body of git.clone and git.publish.
type Git struct {
	Common
	Repo *Repo `json:"repo"`
}

// Payload is the typed body of a job.
type Payload interface {
	common() *Common
}

func (p *Provision) common() *Common { return &p.Common }
func (p *Lifecycle) common() *Common { return &p.Common }
func (p *Run) common() *Common       { return &p.Common }
func (p *File) common() *Common      { return &p.Common }
func (p *Git) common() *Common       { return &p.Common }

// NewPayload returns an empty body for a kind, or nil if there is no such kind.
func NewPayload(k Kind) Payload {
	switch k {
	case SandboxProvision:
		return new(Provision)
	case SandboxResume, SandboxPause, SandboxDestroy:
		return new(Lifecycle)
	case TaskRun:
		return new(Run)
	case FileUpload, FileDownload:
		return new(File)
	case GitClone, GitPublish:
		return new(Git)
	}
	return nil
}
