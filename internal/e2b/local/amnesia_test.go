package local

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFaultLoseFiles(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	for _, op := range []string{"pause", "connect"} {
		b := c.create("")
		b.put("f", "kept")
		b.put("d/g", "kept")
		c.srv.Faults().Add(Fault{Op: op, Action: LoseFiles{}})
		require.Equal(t, 204, c.call("POST", b.on("/pause"), "").status)
		require.Equal(t, 201, c.call("POST", "/v2"+b.on("/connect"), `{"timeout":60}`).status)
		require.Equal(t, 404, b.envd("GET", "/files?path=f", "").status)
		require.Equal(t, 404, b.envd("GET", "/files?path=d/g", "").status)
		b.put("f", "again")
		require.Equal(t, 204, c.call("POST", b.on("/pause"), "").status)
		require.Equal(t, 201, c.call("POST", "/v2"+b.on("/connect"), `{"timeout":60}`).status)
		require.Equal(t, "again", b.content("f"), "once")
	}
}
