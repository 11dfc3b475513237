package local

import (
	"encoding/json"
	"net/http"

	"github.com/sandjet/sandjet/internal/e2b"
)

// What every sandbox of this server says about its size.
const (
	cpuCount = 2
	memoryMB = 512
	diskMB   = 10240
)

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

func listed(r record) e2b.ListedSandbox {
	disk := diskMB
	if r.DiskMB > 0 {
		disk = r.DiskMB
	}
	return e2b.ListedSandbox{
		SandboxID: r.ID, TemplateID: r.Template, ClientID: clientID, Alias: r.Template, State: r.State,
		StartedAt: r.StartedAt, EndAt: r.EndAt, CPUCount: cpuCount, MemoryMB: memoryMB, DiskSizeMB: disk,
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
		ListedSandbox: listed(r), Token: r.Token, AllowInternet: r.AllowInternet, Network: shownNetwork(r.Network),
		Lifecycle: e2b.Lifecycle{OnTimeout: "kill", AutoResume: r.AutoResume},
	}
	if r.AutoPause {
		d.Lifecycle.OnTimeout = "pause"
	}
	writeJSON(w, http.StatusOK, d)
	return nil
}
