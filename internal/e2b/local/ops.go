package local

import (
	"net/http"
	"strings"
)

// The headers that carry a call on the shared data-plane host to its sandbox.
const (
	headerSandbox = "E2b-Sandbox-Id"
	headerPort    = "E2b-Sandbox-Port"
)

var envdOps = map[string]string{
	"/process.Process/Start":                  "start",
	"/process.Process/Connect":                "process.connect",
	"/process.Process/List":                   "process.list",
	"/process.Process/SendInput":              "input",
	"/process.Process/StreamInput":            "input.stream",
	"/process.Process/CloseStdin":             "stdin.close",
	"/process.Process/SendSignal":             "signal",
	"/process.Process/Update":                 "update",
	"/filesystem.Filesystem/Stat":             "stat",
	"/filesystem.Filesystem/MakeDir":          "mkdir",
	"/filesystem.Filesystem/Move":             "move",
	"/filesystem.Filesystem/ListDir":          "listdir",
	"/filesystem.Filesystem/Remove":           "remove",
	"/filesystem.Filesystem/WatchDir":         "watch",
	"/filesystem.Filesystem/CreateWatcher":    "watcher.create",
	"/filesystem.Filesystem/GetWatcherEvents": "watcher.events",
	"/filesystem.Filesystem/RemoveWatcher":    "watcher.remove",
	"/files/compose":                          "compose",
	"/health":                                 "envd.health",
	"/metrics":                                "envd.metrics",
	"/envs":                                   "envd.envs",
}

var sandboxOps = map[string]string{
	"": "get", "connect": "connect", "pause": "pause", "resume": "resume", "timeout": "timeout",
	"refreshes": "refresh", "network": "network", "metrics": "metrics", "logs": "logs",
	"snapshots": "snapshot", "fork": "fork",
}

// operation names a call for faults and counters; "other" is what has no name.
func operation(r *http.Request) string {
	if isDataPlane(r) {
		return envdOperation(r)
	}
	path := strings.TrimPrefix(r.URL.Path, "/v2")
	switch {
	case path == "/health":
		return "health"
	case path == "/snapshots":
		return "snapshot.list"
	case strings.HasPrefix(path, "/templates/") && r.Method == http.MethodDelete:
		return "template.delete"
	}
	if path == "/sandboxes" {
		if r.Method == http.MethodPost {
			return "create"
		}
		return "list"
	}
	_, rest, ok := strings.Cut(path, "/sandboxes/")
	if !ok {
		return "other"
	}
	_, verb, _ := strings.Cut(rest, "/")
	if verb == "" && r.Method == http.MethodDelete {
		return "kill"
	}
	if op, ok := sandboxOps[verb]; ok {
		return op
	}
	return "other"
}

func envdOperation(r *http.Request) string {
	if r.URL.Path == "/files" {
		if r.Method == http.MethodPost {
			return "write"
		}
		return "read"
	}
	if op, ok := envdOps[r.URL.Path]; ok {
		return op
	}
	return "other"
}

// sandboxOf finds the sandbox a call is for, or nothing.
func sandboxOf(r *http.Request) string {
	if m := hostForm.FindStringSubmatch(r.Host); m != nil {
		return m[2]
	}
	if isDataPlane(r) {
		id, _ := parseID(r.Header.Get(headerSandbox))
		return id
	}
	_, rest, ok := strings.Cut(r.URL.Path, "/sandboxes/")
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	id, _ = parseID(id)
	return id
}
