package local

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsAbsent(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None, Templates: []string{"base"}}))
	b := c.create("")
	b.snapshot(`{"name":"work"}`)
	for _, tc := range []struct {
		call, body string
		status     int
		message    string
	}{
		{"GET /volumes", "", 200, "[]"},
		{"POST /volumes", `{"name":"v"}`, 403, "this server has no volumes"},
		{"GET /volumes/v", "", 404, "volume not found"},
		{"DELETE /volumes/v", "", 404, "volume not found"},
		{"GET /secrets?limit=5", "", 200, "[]"},
		{"POST /secrets", `{"name":"s","value":"v"}`, 403, "this server has no secrets"},
		{"GET /secrets/s", "", 404, "secret not found"},
		{"POST /secrets/s", `{"value":"v"}`, 404, "secret not found"},
		{"DELETE /secrets/s", "", 404, "secret not found"},
		{"POST /v3/templates", `{"name":"t"}`, 403, "--templates DIR"},
		{"POST /v2/templates", `{"name":"t"}`, 403, "--templates DIR"},
		{"POST /templates", `{"dockerfile":"FROM x"}`, 403, "--templates DIR"},
		{"GET /templates/base/builds/b/status", "", 404, "--templates DIR"},
		{"GET /templates/base/tags", "", 404, "no tags"},
		{"POST /templates/tags", `{"target":"base","tags":["a"]}`, 404, "no tags"},
		{"DELETE /templates/tags", `{"name":"base","tags":["a"]}`, 404, "no tags"},
		{"GET /templates/aliases/base", "", 200, `"templateID":"base"`},
		{"GET /templates/aliases/base:v1", "", 200, `"templateID":"base"`},
		{"GET /templates/aliases/local%2Fwork", "", 200, `"templateID":"work"`},
		{"GET /templates/aliases/work:v2", "", 404, "template 'work:v2' not found"},
		{"GET /templates/aliases/other", "", 404, "template 'other' not found"},
		{"GET /templates/aliases/No%20Name", "", 404, "not found"},
		{"GET /teams", "", 404, "no matching operation was found: GET /teams"},
	} {
		method, path, _ := strings.Cut(tc.call, " ")
		r := c.call(method, path, tc.body)
		require.Equal(t, tc.status, r.status, "%s: %s", tc.call, r.body)
		require.Contains(t, r.body, tc.message, "%s", tc.call)
		if r.status >= 400 {
			var e struct{ Code int }
			r.into(t, &e)
			require.Equal(t, tc.status, e.Code)
		}
	}
	require.Equal(t, 401, c.call("GET", "/volumes", "", "X-API-Key", "wrong").status)
}
