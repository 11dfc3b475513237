package worker_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/worker"
)

// least is the least that a worker must be told.
func least() map[string]string {
	return map[string]string{"NATS_URL": "nats://127.0.0.1:4222", "REDIS_URL": "redis://127.0.0.1:6379", "E2B_API_KEY": "e2b_x"}
}

func read(change map[string]string) (worker.Config, error) {
	env := least()
	maps.Copy(env, change)
	return worker.ConfigFromEnv(func(name string) string { return env[name] })
}

func TestLeastConfig(t *testing.T) {
	t.Parallel()
	c, err := read(nil)
	require.NoError(t, err)
	key, err := c.E2BKey()
	require.NoError(t, err)
	require.Equal(t, "e2b_x", key)
	want := worker.DefaultConfig()
	want.NATS, want.RedisURL = c.NATS, c.RedisURL
	require.NotEmpty(t, want.Name)
	want.Name = c.Name // by chance
	c.E2BKey = nil
	require.Equal(t, want, c)
}

// What the documentation says of each setting is what the code does.
func TestSettingsAgreeWithConfig(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	asked := map[string]bool{}
	_, err := worker.ConfigFromEnv(func(name string) string { asked[name] = true; return least()[name] })
	require.NoError(t, err)

	for _, s := range worker.Settings() {
		require.False(t, seen[s.Env] || seen["--"+s.Flag], "%s twice", s.Env)
		seen[s.Env], seen["--"+s.Flag] = true, s.Flag != ""
		require.True(t, asked[s.Env], "%s is not read", s.Env)
		delete(asked, s.Env)
		require.NotEmpty(t, s.Usage, s.Env)
		require.NotContains(t, s.Usage+s.Default, "|", "%s would break a table", s.Env)

		t.Run(s.Env, func(t *testing.T) {
			t.Parallel()
			const garbage = "\x01secret garbage\xff"
			_, err := read(map[string]string{s.Env: garbage})
			switch {
			case s.Env == "WORKER_TEMPLATE", s.Env == "NATS_CONTEXT":
				require.NoError(t, err, "any text will do")
			default:
				require.ErrorContains(t, err, s.Env+" ")
				require.ErrorContains(t, err, "want ")
				require.NotContains(t, err.Error(), "garbage")
			}
			if typed := slices.Contains(strings.Fields("N DURATION SIZE RATE BOOL LEVEL"), s.Takes) || s.Env == "WORKER_HTTP_ADDR" || s.Env == "WORKER_TEMPLATE"; typed {
				require.NotEmpty(t, s.Default)
				plain, err := read(nil)
				require.NoError(t, err)
				said, err := read(map[string]string{s.Env: s.Default})
				require.NoError(t, err)
				said.Name, plain.Name = "", ""
				said.NATS.Name, plain.NATS.Name = "", ""
				said.E2BKey, plain.E2BKey = nil, nil
				require.Equal(t, plain, said, "the documented default is not the real one")
			}
		})
	}
	require.Empty(t, asked, "read, but not documented")
	require.Equal(t, worker.Settings(), worker.Settings())
}

func TestFaultsOfTheConfig(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, value, want string }{
		{"NATS_URL", "", "NATS_URL is not set: want a URL such as nats://127.0.0.1:4222, or NATS_CONTEXT"},
		{"NATS_URL", "http://secret@h", "NATS_URL is malformed: want nats://host:port"},
		{"NATS_URL", "nats://a:4222,,", "NATS_URL is malformed"},
		{"NATS_CREDS", "/nowhere/secret", "NATS_CREDS cannot be read: no such file or directory: want a file"},
		{"NATS_CERT", "/dev/null", "NATS_KEY is not set: want the file with the key of NATS_CERT"},
		{"NATS_KEY", "/dev/null", "NATS_CERT is not set"},
		{"NATS_REPLICAS", "0", "NATS_REPLICAS is malformed: want a whole number from 1 to 5"},
		{"REDIS_URL", "", "REDIS_URL is not set: want a URL such as redis://127.0.0.1:6379/0"},
		{"REDIS_URL", "redis://:secret/word@h", "REDIS_URL is malformed: want redis://"},
		{"E2B_API_KEY", "", "E2B_API_KEY is not set: want the key, or its file in E2B_API_KEY_FILE"},
		{"E2B_API_KEY", "secret and more", "E2B_API_KEY is malformed: want the key alone"},
		{"E2B_API_KEY_FILE", "/dev/null", "E2B_API_KEY and E2B_API_KEY_FILE are both set: want one of them"},
		{"E2B_API_URL", "ftp://secret", "E2B_API_URL is malformed: want http://host:port or https://host"},
		{"E2B_DOMAIN", "https://secret", "E2B_DOMAIN is malformed: want a host name"},
		{"SANDJET_NAMESPACE", "a.b", "SANDJET_NAMESPACE is malformed: want 1 to 64 of"},
		{"WORKER_NAME", "a b", "WORKER_NAME is malformed: want 1 to 64 of"},
		{"WORKER_CONCURRENCY", "1.5", "WORKER_CONCURRENCY is malformed: want a whole number from 1 to 100000"},
		{"WORKER_CREATE_RATE", "NaN", "WORKER_CREATE_RATE is malformed: want a number a second"},
		{"WORKER_CREATE_RATE", "-1", "WORKER_CREATE_RATE is malformed"},
		{"WORKER_IDLE_TIMEOUT", "5", "WORKER_IDLE_TIMEOUT is malformed: want a duration from 1s to 24h0m0s"},
		{"WORKER_SPOOL_CAP", "10GB", "WORKER_SPOOL_CAP is malformed: want a size such as 64MiB"},
		{"WORKER_SPOOL_CAP", "9999999999TiB", "WORKER_SPOOL_CAP is malformed"},
		{"WORKER_DEAD_CAP", "0", "WORKER_DEAD_CAP is malformed"},
		{"WORKER_ARTIFACTS_CAP", "-1", "WORKER_ARTIFACTS_CAP is malformed"},
		{"WORKER_VIEW_JOBS", "0", "WORKER_VIEW_JOBS is malformed"},
		{"WORKER_HTTP_ADDR", "127.0.0.1", "WORKER_HTTP_ADDR is malformed: want host:port, or off"},
		{"WORKER_HTTP_ADDR", "h:99999", "WORKER_HTTP_ADDR is malformed"},
		{"WORKER_POLICY_FILE", "/nowhere/secret", "WORKER_POLICY_FILE cannot be read: no such file or directory: want a file"},
		{"GITHUB_TOKEN", "two secret words", "GITHUB_TOKEN is malformed: want the key alone"},
		{"GITHUB_APP_ID", "7", "GITHUB_APP_KEY_FILE is not set: want the file with the private key"},
		{"GITHUB_APP_KEY_FILE", "/dev/null", "GITHUB_APP_ID is not set: want the number"},
		{"GITHUB_API_URL", "secret", "GITHUB_API_URL is malformed: want http"},
		{"WORKER_GIT_COMMITTER", "secret", "WORKER_GIT_COMMITTER is malformed: want a name and an address"},
		{"WORKER_GIT_SSH_KEY_FILE", "config_test.go", "WORKER_GIT_SSH_KEY_FILE is malformed: want a file with a private SSH key without a passphrase"},
		{"WORKER_GIT_KNOWN_HOSTS_FILE", "config_test.go", "WORKER_GIT_KNOWN_HOSTS_FILE is malformed: want a file with lines as in known_hosts"},
		{"WORKER_GIT_SIGNING_KEY_FILE", "/nowhere/secret", "WORKER_GIT_SIGNING_KEY_FILE cannot be read"},
		{"WORKER_GIT_PUSH_MODE", "secret", "WORKER_GIT_PUSH_MODE is malformed: want sandbox or host"},
		{"WORKER_GIT_PATIENCE", "0s", "WORKER_GIT_PATIENCE is malformed: want a duration from 1s to 24h0m0s"},
		{"WORKER_GIT_MIRRORS", "secret", "WORKER_GIT_MIRRORS is malformed: want a directory in the sandbox"},
		{"LOG_LEVEL", "loud", "LOG_LEVEL is malformed: want debug, info, warn or error"},
		{"LOG_FORMAT", "xml", "LOG_FORMAT is malformed: want text or json"},
	} {
		_, err := read(map[string]string{test.name: test.value})
		require.ErrorContains(t, err, test.want)
		require.NotContains(t, err.Error(), "\n", "one fault, one line")
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := worker.ConfigFromEnv(func(name string) string {
		return map[string]string{"WORKER_CONCURRENCY": "many", "LOG_LEVEL": "loud"}[name]
	})
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 5)
	for i, name := range []string{"NATS_URL", "REDIS_URL", "E2B_API_KEY", "WORKER_CONCURRENCY", "LOG_LEVEL"} {
		require.True(t, strings.HasPrefix(lines[i], name+" "), lines[i])
	}
}

func TestGoodValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, value string
		want        any
		got         func(worker.Config) any
	}{
		{"NATS_URL", "a:4222, tls://b", "a:4222, tls://b", func(c worker.Config) any { return c.NATS.URL }},
		{"WORKER_SPOOL_CAP", "10 MiB", int64(10 << 20), func(c worker.Config) any { return c.SpoolCap }},
		{"WORKER_SPOOL_CAP", "4096", int64(4096), func(c worker.Config) any { return c.SpoolCap }},
		{"WORKER_SCHEDULES_CAP", "2MiB", int64(2 << 20), func(c worker.Config) any { return c.SchedulesCap }},
		{"WORKER_DEAD_CAP", "3MiB", int64(3 << 20), func(c worker.Config) any { return c.DeadCap }},
		{"WORKER_DEAD_AGE", "48h", 48 * time.Hour, func(c worker.Config) any { return c.DeadAge }},
		{"WORKER_SESSIONS_CAP", "4MiB", int64(4 << 20), func(c worker.Config) any { return c.SessionsCap }},
		{"WORKER_ARTIFACTS_CAP", "5MiB", int64(5 << 20), func(c worker.Config) any { return c.ArtifactsCap }},
		{"WORKER_START_TIMEOUT", "40s", 40 * time.Second, func(c worker.Config) any { return c.StartTimeout }},
		{"WORKER_VIEW_JOBS", "7", 7, func(c worker.Config) any { return c.ViewJobs }},
		{"WORKER_VIEW_FORGET", "90m", 90 * time.Minute, func(c worker.Config) any { return c.ViewForget }},
		{"WORKER_CREATE_RATE", "0.5", 0.5, func(c worker.Config) any { return c.CreateRate }},
		{"WORKER_HTTP_ADDR", "off", "off", func(c worker.Config) any { return c.HTTPAddr }},
		{"WORKER_HTTP_ADDR", ":0", ":0", func(c worker.Config) any { return c.HTTPAddr }},
		{"WORKER_REQUIRE_OWNER", "true", true, func(c worker.Config) any { return c.RequireOwner }},
		{"WORKER_PRODUCTION", "true", true, func(c worker.Config) any { return c.Production }},
		{"NATS_SYNCED", "true", true, func(c worker.Config) any { return c.NATSSynced }},
		{"E2B_API_URL", "http://h:1/", "http://h:1", func(c worker.Config) any { return c.E2BAPIURL }},
	} {
		c, err := read(map[string]string{test.name: test.value})
		require.NoError(t, err, test.name)
		require.Equal(t, test.want, test.got(c), test.name)
	}
}

func TestFlagsWin(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte("e2b_flag\n"), 0o600))
	env := least()
	env["WORKER_CONCURRENCY"], env["WORKER_TEMPLATE"] = "3", "node"
	c, err := worker.ConfigFromEnv(worker.FromFlags(map[string]string{
		"WORKER_CONCURRENCY": "5", "WORKER_TEMPLATE": "", "E2B_API_KEY_FILE": file, "NATS_CONTEXT": "prod",
	}, func(name string) string { return env[name] }))
	require.NoError(t, err)
	require.Equal(t, 5, c.Concurrency)
	require.Equal(t, "base", c.Template, "an empty flag takes the variable away")
	key, err := c.E2BKey()
	require.NoError(t, err)
	require.Equal(t, "e2b_flag", key)
	require.Equal(t, "prod", c.NATS.Context)
	require.Empty(t, c.NATS.URL, "it would win over the context")
}
