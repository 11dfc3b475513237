package local

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
)

// restart ends the server and starts another one on its directory.
func (c *client) restart(cfg Config) *client {
	c.Helper()
	cfg.DataDir = c.srv.dir
	require.NoError(c, c.srv.Close())
	return newClient(c.T, start(c.T, cfg))
}

// TestTrafficToWhatLostItsMemory: a sandbox that was paused with memory by an
// earlier server is as one that was paused without. Only connect resumes it.
func TestTrafficToWhatLostItsMemory(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		autoResume bool
		pause      string
	}{
		"woken by traffic":         {true, ""},
		"not woken":                {false, ""},
		"woken, but has no memory": {true, `{"memory":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Isolation: None, DataDir: t.TempDir()}
			c := newClient(t, start(t, cfg))
			body := `{"templateID":"base","autoPause":true,"autoResume":{"enabled":false}}`
			if tc.autoResume {
				body = strings.Replace(body, "false", "true", 1)
			}
			b := c.create(body)
			b.put("f", "kept")
			_, pid := b.begin(sh("sleep 100"))
			require.Equal(t, 204, c.call("POST", b.on("/pause"), tc.pause).status)

			b.client = c.restart(cfg)
			for _, port := range []string{envdPort, "3000"} {
				r := b.call("GET", "/health", "", headerSandbox, b.SandboxID, headerPort, port, "X-Access-Token", b.EnvdAccessToken)
				require.Equal(t, 502, r.status, "%s", r.body)
				require.Contains(t, r.body, "The sandbox was not found")
			}
			require.Empty(t, b.content("f"))
			d := b.detail()
			require.Equal(t, e2b.StatePaused, d.State, "traffic leaves it as it is")
			require.Equal(t, tc.autoResume, d.Lifecycle.AutoResume)

			r := b.call("POST", "/v2"+b.on("/connect"), "")
			require.Equal(t, http.StatusCreated, r.status, "%s", r.body)
			var resumed e2b.Sandbox
			r.into(t, &resumed)
			require.Equal(t, b.EnvdAccessToken, resumed.EnvdAccessToken)
			require.Equal(t, "kept", b.content("f"))
			require.Empty(t, b.list(), "%d went with the server", pid)
			require.Contains(t, b.call("GET", "/v2"+b.on("/logs?search=resumed"), "").body, `"memory":"false"`)

			// From here on it has a memory again.
			require.Equal(t, 204, b.call("POST", b.on("/pause"), "").status)
			if tc.autoResume {
				require.Equal(t, 204, b.envd("GET", "/health", "").status)
				require.Equal(t, e2b.StateRunning, b.detail().State)
			} else {
				require.Equal(t, 502, b.envd("GET", "/health", "").status)
			}
		})
	}
}

// TestStartCommandsAfterARestart begin where the cloud would still have them in
// memory, once.
func TestStartCommandsAfterARestart(t *testing.T) {
	t.Parallel()
	cfg := Config{
		Isolation: None, DataDir: t.TempDir(),
		Recipes: recipes(t, "app/Dockerfile", "FROM x\nCMD echo began >>~/log; exec sleep 1000\n"),
	}
	c := newClient(t, start(t, cfg))
	made := func() *testBox {
		b := c.create(`{"templateID":"app"}`)
		c.awaited(b, "log")
		return b
	}
	runs, sleeps, reboots := made(), made(), made()
	require.Equal(t, 204, c.call("POST", sleeps.on("/pause"), "").status)
	require.Equal(t, 204, c.call("POST", reboots.on("/pause"), `{"memory":false}`).status)

	c = c.restart(cfg)
	for _, b := range []*testBox{runs, sleeps, reboots} {
		b.client = c
	}
	var users sync.WaitGroup
	for range 5 {
		users.Go(func() { runs.content("log") })
	}
	users.Wait()
	require.Equal(t, 201, c.call("POST", "/v2"+sleeps.on("/connect"), "").status)
	for _, b := range []*testBox{runs, sleeps} {
		require.Eventually(t, func() bool { return b.content("log") == "began\nbegan\n" }, patience, patience/1000)
		require.Len(t, b.list(), 1)
	}

	// Who asks for a reboot starts his services himself, as with E2B.
	require.Equal(t, 201, c.call("POST", "/v2"+reboots.on("/connect"), "").status)
	require.Equal(t, 204, c.call("POST", sleeps.on("/pause"), "").status)
	require.Equal(t, 201, c.call("POST", "/v2"+sleeps.on("/connect"), `{"memory":false}`).status)
	require.Empty(t, reboots.list())
	require.Empty(t, sleeps.list())
}
