package worker

// Setting is one thing a worker can be told, by a flag or by the environment.
type Setting struct {
	Env     string
	Flag    string // without dashes; empty if there is none
	Takes   string // what the value is: URL, FILE, N, DURATION, SIZE, BOOL, ...
	Usage   string // one line for people
	Default string // as one would write it; empty for none
}

// Switch reports whether the setting is on or off.
func (s Setting) Switch() bool { return s.Takes == "BOOL" }

// Settings lists every setting in the order of the documentation, which is
// always the same. The E2B key has no flag that takes its value: a command line
// is no place for one.
func Settings() []Setting {
	return []Setting{
		{"SANDJET_NAMESPACE", "namespace", "NAME", "prefix of every subject, stream, bucket and Redis key", ""},

		{"NATS_URL", "nats-url", "URL", "NATS servers, comma separated", ""},
		{"NATS_CONTEXT", "nats-context", "NAME", "a context of the nats CLI", ""},
		{"NATS_CREDS", "nats-creds", "FILE", "credentials", ""},
		{"NATS_NKEY", "nats-nkey", "FILE", "nkey seed", ""},
		{"NATS_CA", "nats-ca", "FILE", "CA certificates, PEM", ""},
		{"NATS_CERT", "nats-cert", "FILE", "client certificate, PEM", ""},
		{"NATS_KEY", "nats-key", "FILE", "client key, PEM", ""},
		{"NATS_REPLICAS", "nats-replicas", "N", "replicas of every stream", "1"},
		{"NATS_SYNCED", "nats-synced", "BOOL", "the server syncs every write to disk (sync_interval: always)", "false"},
		{"WORKER_PRODUCTION", "production", "BOOL", "refuse to start where an acknowledged job may be lost", "false"},

		{"REDIS_URL", "redis-url", "URL", "redis://, rediss://, sentinel or cluster URL", ""},

		{"E2B_API_KEY", "", "KEY", "the E2B key, here or in a file", ""},
		{"E2B_API_KEY_FILE", "e2b-api-key-file", "FILE", "file with the E2B key, read again on change", ""},
		{"E2B_DOMAIN", "e2b-domain", "HOST", "E2B's base domain", "e2b.app"},
		{"E2B_API_URL", "e2b-api-url", "URL", "E2B's control plane; by the domain", ""},
		{"E2B_SANDBOX_URL", "e2b-sandbox-url", "URL", "E2B's data plane, for all sandboxes; by the domain", ""},

		{"WORKER_POLICY_FILE", "policy-file", "FILE", "what is refused, and to whom, YAML, read again on change", ""},
		{"WORKER_SECRETS_DIR", "secrets-dir", "DIR", "directory with a file for each secret, read again on change", ""},

		{"WORKER_NAME", "name", "NAME", "who claims jobs", "<host>-<random>"},
		{"WORKER_CONCURRENCY", "concurrency", "N", "jobs at once", "64"},
		{"WORKER_REQUIRE_OWNER", "require-owner", "BOOL", "refuse jobs whose subject names no owner", "false"},
		{"WORKER_TEMPLATE", "template", "NAME", "template of sessions that name none", "base"},
		{"WORKER_IDLE_TIMEOUT", "idle-timeout", "DURATION", "a session idle so long is paused", "5m"},
		{"WORKER_MAX_AGE", "max-age", "DURATION", "a session so old is destroyed", "24h"},
		{"WORKER_SANDBOX_LIMIT", "sandbox-limit", "N", "running sandboxes of the fleet; 0 = E2B's own limit alone", "0"},
		{"WORKER_OWNER_SANDBOX_LIMIT", "owner-sandbox-limit", "N", "running sandboxes of one owner; 0 = no limit of its own", "0"},
		{"WORKER_CREATE_RATE", "create-rate", "RATE", "sandboxes created or resumed a second, fleet-wide; 0 = no limit", "0"},
		{"WORKER_START_TIMEOUT", "start-timeout", "DURATION", "longest start; then the worker says what is missing and ends", "15s"},
		{"WORKER_DRAIN_TIMEOUT", "drain-timeout", "DURATION", "longest time to let go of jobs at a stop", "20s"},
		{"WORKER_ACK_WAIT", "ack-wait", "DURATION", "after how long a silent worker's jobs go to another", "30s"},
		{"WORKER_SPOOL_CAP", "spool-cap", "SIZE", "bytes kept of each output of a command", "64MiB"},
		{"WORKER_FILE_CAP", "file-cap", "SIZE", "largest file moved", "5GiB"},
		{"WORKER_EVENTS_AGE", "events-age", "DURATION", "how long events are kept", "168h"},
		{"WORKER_EVENTS_CAP", "events-cap", "SIZE", "bytes of the event stream", "10GiB"},
		{"WORKER_JOBS_CAP", "jobs-cap", "SIZE", "bytes of the job stream; beyond it publishers are refused", "1GiB"},
		{"WORKER_SCHEDULES_CAP", "schedules-cap", "SIZE", "bytes of jobs put off; beyond it they stay in the queue", "1GiB"},
		{"WORKER_DEAD_CAP", "dead-cap", "SIZE", "bytes of dead letters; the oldest go", "1GiB"},
		{"WORKER_DEAD_AGE", "dead-age", "DURATION", "how long dead letters are kept", "720h"},
		{"WORKER_SESSIONS_CAP", "sessions-cap", "SIZE", "bytes of session states; the oldest go", "256MiB"},
		{"WORKER_ARTIFACTS_CAP", "artifacts-cap", "SIZE", "bytes of the object bucket; beyond it downloads die", "2GiB"},
		{"WORKER_VIEW_JOBS", "view-jobs", "N", "jobs that Redis lists; the oldest go", "100000"},
		{"WORKER_VIEW_FORGET", "view-forget", "DURATION", "how long Redis lists a job that does not change", "24h"},
		{"WORKER_WATCH_EVERY", "watch-every", "DURATION", "how often each running sandbox is looked at", "30s"},
		{"WORKER_RECONCILE_EVERY", "reconcile-every", "DURATION", "how often E2B's sandboxes and the sessions are compared", "5m"},
		{"WORKER_ORPHAN_GRACE", "orphan-grace", "DURATION", "how long a sandbox without a session is left alone", "2m"},
		{"WORKER_RESUME_TIMEOUT", "resume-timeout", "DURATION", "longest wake from memory before one try from disk alone", "60s"},
		{"WORKER_HTTP_ADDR", "http-addr", "ADDR", "health and metrics at host:port, or off", "127.0.0.1:8090"},

		{"GITHUB_TOKEN", "", "TOKEN", "GitHub token, here or in a file", ""},
		{"GITHUB_TOKEN_FILE", "github-token-file", "FILE", "file with the GitHub token, read again on change", ""},
		{"GITHUB_APP_ID", "github-app-id", "ID", "GitHub App instead of a token", ""},
		{"GITHUB_APP_KEY_FILE", "github-app-key-file", "FILE", "private key of the GitHub App, PEM", ""},
		{"GITHUB_API_URL", "github-api-url", "URL", "GitHub Enterprise's address", "https://api.github.com"},
		{"WORKER_GIT_COMMITTER", "git-committer", "NAME", "who makes the commits", "Sandjet <noreply@sandjet.dev>"},
		{"WORKER_GIT_SIGNING_KEY_FILE", "git-signing-key-file", "FILE", "private SSH key that signs the commits", ""},
		{"WORKER_GIT_SSH_KEY_FILE", "git-ssh-key-file", "FILE", "deploy key for ssh addresses", ""},
		{"WORKER_GIT_KNOWN_HOSTS_FILE", "git-known-hosts-file", "FILE", "pinned host keys for ssh addresses", "github.com's"},
		{"WORKER_GIT_CREDENTIAL", "git-credential", "WAY", "how git gets tokens: auto (by header, else file) or file", "auto"},
		{"WORKER_GIT_PUSH_MODE", "git-push-mode", "MODE", "sandbox, or host: pushes are made by the worker", "sandbox"},
		{"WORKER_GIT_MIRRORS", "git-mirrors", "DIR", "where the template has mirrors, or off", "/opt/mirrors"},
		{"WORKER_GIT_PATIENCE", "git-patience", "DURATION", "longest silence of a git server before an attempt is spent", "30m"},

		{"LOG_LEVEL", "log-level", "LEVEL", "debug, info, warn or error", "info"},
		{"LOG_FORMAT", "log-format", "FORMAT", "text or json", "text on a terminal, else json"},
	}
}

// FromFlags puts the values that flags gave, by the names of the variables,
// before the environment. A flag also rules out the variable that would say the
// same in another way.
func FromFlags(flags map[string]string, getenv func(string) string) func(string) string {
	instead := map[string]string{
		"E2B_API_KEY": "E2B_API_KEY_FILE", "NATS_URL": "NATS_CONTEXT", "NATS_CONTEXT": "NATS_URL",
		"GITHUB_TOKEN": "GITHUB_TOKEN_FILE",
	}
	return func(name string) string {
		if v, ok := flags[name]; ok {
			return v
		}
		if flags[instead[name]] != "" {
			return ""
		}
		return getenv(name)
	}
}
