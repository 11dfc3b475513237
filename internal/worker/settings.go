package worker

// Setting is one thing a worker can be told, by a flag or by the environment.
type Setting struct {
	Env, Flag, Usage, Default string
}

// Settings lists every setting, in the order of the documentation. Keys have no
// flag that takes their value: a command line is no place for one.
func Settings() []Setting {
	return []Setting{
		{"SANDJET_NAMESPACE", "namespace", "prefix of every subject, stream, bucket and Redis key", ""},
		{"NATS_URL", "nats-url", "NATS servers, comma separated", ""},
		{"NATS_CONTEXT", "nats-context", "a context of the nats CLI", ""},
		{"NATS_CREDS", "nats-creds", "credentials file", ""},
		{"NATS_NKEY", "nats-nkey", "nkey seed file", ""},
		{"NATS_CA", "nats-ca", "CA certificates, PEM file", ""},
		{"NATS_CERT", "nats-cert", "client certificate, PEM file", ""},
		{"NATS_KEY", "nats-key", "client key, PEM file", ""},
		{"NATS_REPLICAS", "nats-replicas", "replicas of every stream", "1"},
		{"REDIS_URL", "redis-url", "redis://, rediss://, sentinel or cluster URL", ""},
		{"E2B_API_KEY_FILE", "e2b-api-key-file", "file with the E2B key, read again on change; or $E2B_API_KEY", ""},
		{"E2B_DOMAIN", "e2b-domain", "E2B's base domain", "e2b.app"},
		{"E2B_API_URL", "e2b-api-url", "E2B's control plane", ""},
		{"E2B_SANDBOX_URL", "e2b-sandbox-url", "E2B's data plane, for all sandboxes", ""},
		{"WORKER_NAME", "name", "who claims jobs", "<host>-<random>"},
		{"WORKER_CONCURRENCY", "concurrency", "jobs at once", "64"},
		{"WORKER_REQUIRE_OWNER", "require-owner", "refuse jobs whose subject names no owner", "false"},
		{"WORKER_TEMPLATE", "template", "template of sessions that name none", "base"},
		{"WORKER_IDLE_TIMEOUT", "idle-timeout", "a session idle so long is paused", "5m"},
		{"WORKER_MAX_AGE", "max-age", "a session so old is destroyed", "24h"},
		{"WORKER_SANDBOX_LIMIT", "sandbox-limit", "running sandboxes of the fleet, 0 = E2B's own limit", "0"},
		{"WORKER_CREATE_RATE", "create-rate", "sandboxes created or resumed a second, 0 = no limit of ours", "0"},
		{"WORKER_DRAIN_TIMEOUT", "drain-timeout", "longest time to let go of jobs at a stop", "20s"},
		{"WORKER_ACK_WAIT", "ack-wait", "after how long a silent worker's jobs go to another", "30s"},
		{"WORKER_SPOOL_CAP", "spool-cap", "bytes kept of each output of a command", "64MiB"},
		{"WORKER_FILE_CAP", "file-cap", "largest file moved", "5GiB"},
		{"WORKER_EVENTS_AGE", "events-age", "how long events are kept", "168h"},
		{"WORKER_EVENTS_CAP", "events-cap", "bytes of the event stream", "10GiB"},
		{"WORKER_JOBS_CAP", "jobs-cap", "bytes of the job stream; beyond it publishers are refused", "1GiB"},
		{"WORKER_HTTP_ADDR", "http-addr", "health and metrics, or off", "127.0.0.1:8090"},
		{"LOG_LEVEL", "log-level", "debug, info, warn or error", "info"},
		{"LOG_FORMAT", "log-format", "text or json", "text on a terminal, else json"},
	}
}
