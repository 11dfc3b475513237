package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/sandjet/sandjet/internal/e2b"
)

// record is what a sandbox is, apart from what runs in it. It outlives the
// server as sandbox.json in the sandbox's directory.
type record struct {
	ID            string            `json:"id"`
	Template      string            `json:"template"`
	State         e2b.SandboxState  `json:"state"`
	CreatedAt     time.Time         `json:"created_at"`
	StartedAt     time.Time         `json:"started_at"`
	EndAt         time.Time         `json:"end_at"`
	Timeout       time.Duration     `json:"timeout"` // as created
	Metadata      map[string]string `json:"metadata,omitempty"`
	Env           map[string]string `json:"env,omitempty"`          // the create's own
	TemplateEnv   map[string]string `json:"template_env,omitempty"` // what Env does not set
	AutoPause     bool              `json:"auto_pause,omitempty"`
	DiskOnly      bool              `json:"disk_only,omitempty"` // auto-pause keeps no memory
	AutoResume    bool              `json:"auto_resume,omitempty"`
	NoMemory      bool              `json:"no_memory,omitempty"` // paused without memory
	Token         string            `json:"token,omitempty"`
	TrafficToken  string            `json:"traffic_token,omitempty"`
	AllowInternet *bool             `json:"allow_internet,omitempty"`
	Network       json.RawMessage   `json:"network,omitempty"`
	User          string            `json:"user,omitempty"`     // the default one; empty is user
	Workdir       string            `json:"workdir,omitempty"`  // the default one; empty is the home
	DiskMB        int               `json:"disk_mb,omitempty"`  // 0: as large as the machine's
	Start         []string          `json:"start,omitempty"`    // the template's start command
	Building      bool              `json:"building,omitempty"` // a template is being built in it
}

// defaults are those of the template, for what is made from the sandbox.
func (r *record) defaults() defaults {
	return defaults{Env: r.TemplateEnv, User: r.User, Workdir: r.Workdir, Start: r.Start}
}

// environment is what every command of the sandbox starts from.
func (r *record) environment() map[string]string {
	env := make(map[string]string, len(r.TemplateEnv)+len(r.Env))
	maps.Copy(env, r.TemplateEnv)
	maps.Copy(env, r.Env)
	return env
}

const recordFile = "sandbox.json"

// save writes the record so that a reader sees the old one or the new one.
func (r *record) save(dir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("save sandbox %s: %w", r.ID, err)
	}
	tmp, err := os.CreateTemp(dir, recordFile+".*")
	if err != nil {
		return fmt.Errorf("save sandbox %s: %w", r.ID, err)
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, recordFile))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("save sandbox %s: %w", r.ID, err)
	}
	return nil
}

// loadRecords reads every sandbox below dir. One whose create or kill was cut
// short by the end of a server has no record, and goes, as does one in which a
// template was being built.
func loadRecords(dir string) ([]record, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the sandboxes: %w", err)
	}
	var records []record
	for _, e := range entries {
		if !e.IsDir() || !sandboxForm.MatchString(e.Name()) {
			continue // not ours
		}
		own := filepath.Join(dir, e.Name())
		b, err := os.ReadFile(filepath.Join(own, recordFile))
		if errors.Is(err, fs.ErrNotExist) {
			_ = removeTree(own)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the sandboxes: %w", err)
		}
		var r record
		if err = json.Unmarshal(b, &r); err == nil && r.ID != e.Name() {
			err = fmt.Errorf("it is about %q", r.ID)
		}
		if err == nil && r.Building {
			_ = discard(own, recordFile)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w; mend it, or remove %s to go on without the sandbox", filepath.Join(own, recordFile), err, own)
		}
		records = append(records, r)
	}
	return records, nil
}
