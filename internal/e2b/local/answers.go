package local

import (
	"encoding/json"
	"net/http"
	"runtime"

	"github.com/sandjet/sandjet/internal/e2b"
)

// size is what sandboxes say of their size: their limits, and where they have
// none, what the machine has.
type size struct{ cpus, memoryMB, diskMB int }

// leastMemoryMB is the least that E2B's document lets a sandbox have.
const leastMemoryMB = 128

func (s *Server) sandboxSize() size {
	memory := machineMemory()
	if s.bounds.Memory > 0 {
		memory = min(memory, s.bounds.Memory)
	}
	total, _ := (&disk{root: s.dir}).use()
	return size{cpus: runtime.NumCPU(), memoryMB: max(leastMemoryMB, int(memory>>20)), diskMB: int(total >> 20)}
}

// answer is what create, connect and resume say.
func answer(r record) e2b.Sandbox {
	a := e2b.Sandbox{
		SandboxID: r.ID, TemplateID: r.Template, ClientID: clientID, EnvdVersion: EnvdVersion, Alias: r.Template,
		EnvdAccessToken: r.Token,
	}
	if r.TrafficToken != "" {
		a.TrafficAccessToken = &r.TrafficToken
	}
	return a
}

func (z size) listed(r record) e2b.ListedSandbox {
	if r.DiskMB > 0 {
		z.diskMB = r.DiskMB
	}
	return e2b.ListedSandbox{
		SandboxID: r.ID, TemplateID: r.Template, ClientID: clientID, Alias: r.Template, State: r.State,
		StartedAt: r.StartedAt, EndAt: r.EndAt, CPUCount: z.cpus, MemoryMB: z.memoryMB, DiskSizeMB: z.diskMB,
		EnvdVersion: EnvdVersion, Metadata: r.Metadata,
	}
}

// detail is the answer to GET /sandboxes/{id}. The network is given back as it
// came, also where it holds more than we know.
type detail struct {
	e2b.ListedSandbox
	Token         string          `json:"envdAccessToken,omitempty"`
	AllowInternet *bool           `json:"allowInternetAccess"`
	Network       json.RawMessage `json:"network,omitempty"`
	Lifecycle     e2b.Lifecycle   `json:"lifecycle"`
}

func (s *Server) detail(sb *sandbox, w http.ResponseWriter, _ *http.Request) error {
	if sb.is(gone) {
		return errNoSandbox(sb.id())
	}
	r := sb.snapshot()
	d := detail{
		ListedSandbox: s.size.listed(r), Token: r.Token, AllowInternet: r.AllowInternet, Network: shownNetwork(r.Network),
		Lifecycle: e2b.Lifecycle{OnTimeout: "kill", AutoResume: r.AutoResume},
	}
	if r.AutoPause {
		d.Lifecycle.OnTimeout = "pause"
	}
	writeJSON(w, http.StatusOK, d)
	return nil
}
