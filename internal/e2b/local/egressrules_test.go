package local

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func rulesFor(t *testing.T, network string, wall bool) *egressRules {
	t.Helper()
	r, err := newEgressRules(json.RawMessage(network), nil, wall, &trust{})
	require.NoError(t, err)
	return r
}

func TestEgressDecisions(t *testing.T) {
	t.Parallel()
	const far, near, self = "8.8.8.8", "10.1.2.3", "127.0.0.1"
	for _, tc := range []struct {
		name, network, host, addr string
		open, wall                bool // what is permitted on the machine's network and behind a wall
	}{
		{"no rules", `{}`, "example.com", far, true, true},
		{"no rules, a company's network", `{}`, "git.corp", near, true, false},
		{"no rules, this machine", `{}`, "localhost", self, true, false},
		{"mapped addresses are what they mean", `{}`, "x", "::ffff:127.0.0.1", true, false},
		{"link-local", `{}`, "x", "169.254.169.254", true, false},
		{"deny all", `{"denyOut":["0.0.0.0/0"]}`, "example.com", far, false, false},
		{"deny all, by IPv6", `{"denyOut":["0.0.0.0/0"]}`, "example.com", "2606:4700::1", false, false},
		{"deny one", `{"denyOut":["8.8.8.8"]}`, "example.com", far, false, false},
		{"deny another", `{"denyOut":["8.8.4.0/24"]}`, "example.com", far, true, true},
		{"allow beats deny", `{"denyOut":["0.0.0.0/0"],"allowOut":["8.8.8.0/24"]}`, "example.com", far, true, true},
		{"allow by name", `{"denyOut":["0.0.0.0/0"],"allowOut":["Example.com."]}`, "EXAMPLE.com", far, true, true},
		{"no other name", `{"denyOut":["0.0.0.0/0"],"allowOut":["example.com"]}`, "notexample.com", far, false, false},
		{"nor one below", `{"denyOut":["0.0.0.0/0"],"allowOut":["example.com"]}`, "a.example.com", far, false, false},
		{"allow by pattern", `{"denyOut":["0.0.0.0/0"],"allowOut":["*.example.com"]}`, "a.b.example.com", far, true, true},
		{"a pattern is not its own top", `{"denyOut":["0.0.0.0/0"],"allowOut":["*.example.com"]}`, "example.com", far, false, false},
		{"allow alone denies nothing", `{"allowOut":["8.8.4.4"]}`, "example.com", far, true, true},
		{"everything is not this machine", `{"allowOut":["0.0.0.0/0"]}`, "localhost", self, true, false},
		{"nor half of everything", `{"allowOut":["0.0.0.0/1"]}`, "localhost", self, true, false},
		{"nor what a pattern leads to", `{"allowOut":["*.example.com"]}`, "evil.example.com", self, true, false},
		{"this machine on purpose", `{"allowOut":["127.0.0.1"]}`, "127.0.0.1", self, true, true},
		{"this machine by name", `{"allowOut":["localhost"]}`, "localhost", self, true, true},
		{"a company's block", `{"allowOut":["10.1.0.0/16"]}`, "git.corp", near, true, true},
		{"a rule alone opens nothing", `{"rules":{"127.0.0.1":[{"transform":{"headers":{"A":"b"}}}]}}`, "127.0.0.1", self, true, false},
	} {
		for wall, want := range map[bool]bool{false: tc.open, true: tc.wall} {
			got := rulesFor(t, tc.network, wall).permits(tc.host, netip.MustParseAddr(tc.addr))
			require.Equal(t, want, got, "%s: wall %v", tc.name, wall)
		}
	}
	off := false
	r, err := newEgressRules(nil, &off, false, &trust{})
	require.NoError(t, err)
	require.False(t, r.permits("example.com", netip.MustParseAddr(far)), "no internet access")
}

// TestEgressOwnAddresses: an address of the internet's that is this machine's own
// is no internet.
func TestEgressOwnAddresses(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root gives a machine an address")
	}
	runtime.LockOSThread() // and never unlocked: the network ends with the thread
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	const own = "8.8.8.8"
	require.True(t, rulesFor(t, `{}`, true).permits("example.com", netip.MustParseAddr(own)))
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	require.NoError(t, err)
	require.NoError(t, lo.SetInet4Addr(net.ParseIP(own).To4()))
	require.NoError(t, unix.IoctlIfreq(s, unix.SIOCSIFADDR, lo))

	require.False(t, rulesFor(t, `{}`, true).permits("example.com", netip.MustParseAddr(own)))
	require.False(t, rulesFor(t, `{"allowOut":["0.0.0.0/0"]}`, true).permits("example.com", netip.MustParseAddr(own)))
	require.True(t, rulesFor(t, `{"allowOut":["8.8.8.8"]}`, true).permits("example.com", netip.MustParseAddr(own)), "named")
	require.True(t, rulesFor(t, `{}`, true).permits("example.com", netip.MustParseAddr("8.8.4.4")))
	require.True(t, rulesFor(t, `{}`, false).permits("example.com", netip.MustParseAddr(own)), "without a wall")
}

func TestEgressRewrites(t *testing.T) {
	t.Parallel()
	r := rulesFor(t, `{"rules":{
		"*.example.com":[{"transform":{"headers":{"X-A":"far","X-B":"far"}}}],
		"*.b.example.com":[{"transform":{"headers":{"X-A":"near"}}}],
		"a.b.example.com":[{"transform":{"headers":{"x-c":"1"}}},{"transform":{"headers":{"X-C":"2","Host":"other"}}}]}}`, false)
	req := &http.Request{Host: "a.b.example.com", Header: http.Header{"X-C": {"mine", "too"}, "X-D": {"mine"}}}
	r.rewrite(req, "A.b.example.com.")
	require.Equal(t, http.Header{"X-A": {"near"}, "X-B": {"far"}, "X-C": {"2"}, "X-D": {"mine"}}, req.Header)
	require.Equal(t, "other", req.Host)
	require.True(t, r.rewritten("c.example.com"))
	require.False(t, r.rewritten("example.com"))
}

func TestEgressRulesThatAreNone(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, Config{Isolation: None}))
	b := c.create("")
	for network, want := range map[string]string{
		`{"denyOut":["example.com"]}`:                                         `denyOut: \"example.com\" is no CIDR block or IP address`,
		`{"allowOut":["example.com:443"]}`:                                    `allowOut: \"example.com:443\" is no CIDR block, IP address or domain`,
		`{"rules":{"example.com:443":[]}}`:                                    `rules: \"example.com:443\" is no domain`,
		`{"rules":{"a.b":[{"transform":{"headers":{"X":"hidden\nvalue"}}}]}}`: `header \"X\" is none that HTTP can carry`,
		`{"rules":{"a.b":[{"transform":{"headers":{"X Y":"hiddenvalue"}}}]}}`: `header \"X Y\" is none that HTTP can carry`,
		`{"rules":{"a.b":[{"transform":{"headers":{"X":["hiddenvalue"]}}}]}}`: `Error when parsing request`,
		`{"egressProxy":{"address":"nowhere"}}`:                               `egressProxy: want an address as host:port`,
		`{"allowOut":"x"}`:                                                    `Error when parsing request`,
	} {
		for _, r := range []reply{
			c.call("POST", "/v2/sandboxes", `{"templateID":"base","network":`+network+`}`), c.call("PUT", b.on("/network"), network),
		} {
			require.Equal(t, 400, r.status, "%s: %s", network, r.body)
			require.Contains(t, r.body, want)
			require.NotContains(t, r.body, "hidden")
		}
	}
	require.Equal(t, 204, c.call("PUT", b.on("/network"), `{"egressProxy":{"address":"p:1","username":"u","password":"hidden"},"allow_internet_access":false}`).status)
	shown := c.call("GET", b.on(""), "").body
	require.Contains(t, shown, `"username":"u"`)
	require.Contains(t, shown, `"allowInternetAccess":false`)
	require.NotContains(t, shown, "hidden")
	require.NotContains(t, shown, "allow_internet_access")
	require.Equal(t, 204, c.call("PUT", b.on("/network"), `{}`).status)
	require.Contains(t, c.call("GET", b.on(""), "").body, `"allowInternetAccess":null`, "an update replaces all")

	in := c.create(`{"templateID":"base","network":{"allowPublicTraffic":false,"maskRequestHost":"m","allowOut":["8.8.8.8"]}}`)
	require.Equal(t, 204, c.call("PUT", in.on("/network"), `{"allowPublicTraffic":true}`).status)
	require.Contains(t, c.call("GET", in.on(""), "").body, `"network":{"allowPublicTraffic":false,"maskRequestHost":"m"}`, "but the way in")
}
