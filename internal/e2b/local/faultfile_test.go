package local

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLoadFaults(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/faults.json"
	writeFile(t, path, `{"seed": 7, "faults": [
		{"op": "create", "skip": 1, "count": 1, "status": 429, "message": "slow", "retry_after": "1.5s"},
		{"op": "get", "count": -1, "chance": 0.5, "status": 500}]}`)
	f, err := LoadFaults(path)
	require.NoError(t, err)
	c := newClient(t, start(t, Config{Isolation: None, Faults: f}))
	b := c.create("")
	r := c.call("POST", "/v2/sandboxes", `{"templateID":"base"}`)
	require.Equal(t, 429, r.status)
	require.Equal(t, "2", r.header.Get("Retry-After"))
	require.Contains(t, r.body, `"message":"slow"`)
	c.create("")

	// The same seed meets the same calls.
	again, err := LoadFaults(path)
	require.NoError(t, err)
	met := make(map[int]int)
	for range 200 {
		status := c.call("GET", b.on(""), "").status
		met[status]++
		require.Equal(t, status == 500, again.take("get", b.SandboxID) != nil)
	}
	require.InDelta(t, 100, met[500], 50)
	require.Equal(t, 200, met[500]+met[200])
}

func TestParseFault(t *testing.T) {
	t.Parallel()
	zero := int64(0)
	for line, want := range map[string]Fault{
		`{"op":"start","hang":true}`:                          {Op: "start", Action: Hang{}},
		`{"op":"*","count":-1,"delay":"20ms"}`:                {Op: "*", Count: -1, Action: Delay(20 * time.Millisecond)},
		`{"op":"read","cut_after_bytes":0}`:                   {Op: "read", Action: CutAfter{Bytes: zero}},
		`{"op":"read","sandbox":"ia","cut_after":"1s"}`:       {Op: "read", Sandbox: "ia", Action: CutAfter{After: time.Second}},
		`{"op":"create","lost_answer":true}`:                  {Op: "create", Action: LostAnswer{}},
		`{"op":"create","late_effect":"2s"}`:                  {Op: "create", Action: LateEffect(2 * time.Second)},
		`{"op":"connect","lose_files":true}`:                  {Op: "connect", Action: LoseFiles{}},
		`{"op":"create","status":503,"error_code":"no_room"}`: {Op: "create", Action: Status{Code: 503, ErrorCode: "no_room"}},
		`{"op":"snapshot.list","chance":0.1,"status":500}`:    {Op: "snapshot.list", Chance: 0.1, Action: Status{Code: 500}},
	} {
		got, err := ParseFault([]byte(line))
		require.NoError(t, err, "%s", line)
		require.Equal(t, want, got, "%s", line)
	}
	for line, message := range map[string]string{
		`{"op":"crate","hang":true}`:                    `op "crate": want one of compose, connect, create`,
		`{"op":"create"}`:                               "0 actions: want one of status",
		`{"op":"create","hang":true,"status":500}`:      "2 actions",
		`{"op":"create","status":200}`:                  "want 400 to 599",
		`{"op":"create","delay":5}`:                     `a duration is written as "1.5s"`,
		`{"op":"create","delay":"-5s"}`:                 `"-5s" is no duration`,
		`{"op":"create","hang":true,"chance":2}`:        "want 0 to 1",
		`{"op":"create","hang":true,"probability":0.5}`: `unknown field "probability"`,
	} {
		_, err := ParseFault([]byte(line))
		require.ErrorContains(t, err, message, "%s", line)
	}
	_, err := LoadFaults(t.TempDir() + "/none")
	require.ErrorContains(t, err, "faults: open")
}
