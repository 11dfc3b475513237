package local

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b/spectest"
	"github.com/sandjet/sandjet/internal/nodetest"
)

//go:embed testdata/sdk/*.mjs testdata/sdk/*.json testdata/sdk/areas
var sdkFiles embed.FS

// sdks are E2B's official packages, by the names they are installed under.
var sdks = []string{"e2b", "e2b-2.45", "@e2b/code-interpreter"}

// Which areas are judged where all were judged already: the
// interpreter is e2b with another sandbox class, and a lower level of isolation
// differs in what runs inside.
const (
	interpreters = "^(interpreter|lifecycle|commands|files|snapshots|fork|errors):"
	lowerLevels  = "^(commands|stdin|pty|files|watch|snapshots):"
	everything   = ":"
)

// TestOfficialSDK lets E2B's own JavaScript SDKs judge the server, through their
// public API and a proxy that holds what they and the server say on the control
// plane against E2B's OpenAPI document. It prints how each did in each area.
func TestOfficialSDK(t *testing.T) {
	t.Parallel()
	need(t, "git")
	need(t, "curl")
	dir := installSDKs(t)
	best := levels(t)
	var verdicts verdicts
	t.Cleanup(func() {
		t.Logf("official SDKs, passed/all tests by area:\n%s", verdicts.table())
		if verdicts.whole() && best[len(best)-1] == Strong { // else some tests are skipped
			doc := readFile(t, "../../../docs/sandbox-server.md")
			if !strings.Contains(doc, "\n\n"+verdicts.table()+"\n") {
				t.Errorf("docs/sandbox-server.md has another table than the one above: put this one there")
			}
		}
	})
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			t.Parallel()
			areas := everything
			if sdk == "@e2b/code-interpreter" {
				areas = interpreters
			}
			judge(t, dir, sdk, best[len(best)-1], areas, &verdicts)
		})
	}
	for _, level := range best[:len(best)-1] {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			judge(t, dir, sdks[0], level, lowerLevels, nil)
		})
	}
}

// judge runs the suite, or the tests that a pattern names, with one SDK on a
// server of its own.
func judge(t *testing.T, dir, sdk string, level Isolation, only string, to *verdicts) {
	t.Helper()
	srv := start(t, Config{Isolation: level, Recipes: gatewayRecipe(t)})
	front := httptest.NewServer(validating(t, srv))
	defer front.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*stuck)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--test-reporter=tap", "--test-name-pattern="+only, "suite.mjs")
	cmd.Dir, cmd.WaitDelay = dir, patience
	calls := filepath.Join(t.TempDir(), "calls")
	cmd.Env = append(os.Environ(), "SDK="+sdk, "CALLS_FILE="+calls, "E2B_API_URL="+front.URL, "E2B_SANDBOX_URL="+srv.URL(), "E2B_API_KEY="+srv.APIKey(),
		"FAULTS_URL="+faultServer(t, srv), "GIT_URL="+gitServer(t))
	if level == Strong {
		cmd.Env = append(cmd.Env, "SANDBOX_HOME=/home/user")
	}
	out, err := cmd.CombinedOutput()
	passed, failed := readTAP(out)
	for area, n := range passed {
		to.add(sdk, area, n, failed[area])
	}
	for area, n := range failed {
		if passed[area] == 0 {
			to.add(sdk, area, 0, n)
		}
	}
	require.NoError(t, errors.Join(err, ctx.Err()), "%s", notOK(out))
	require.Empty(t, failed)
	require.NotEmpty(t, passed, "%s", out)
	require.Empty(t, srv.Sandboxes(), "the tests clean up behind them")
	if only == everything {
		requireDriven(t, filepath.Join(filepath.Dir(dir), "node_modules", sdk, "dist/index.d.ts"), calls)
	}
}

// undriven is what the suite leaves out, and why: a class, the methods of its
// instances ("Class#") or one method.
var undriven = map[string]string{
	"ApiClient": "the SDK's inside", "ClientFactory": "the SDK's inside", "ConnectionConfig": "the SDK's inside",
	"EnvdApiClient": "the SDK's inside", "VolumeConnectionConfig": "the SDK's inside",
	"LogEntry": "a value", "LogEntryStart": "a value", "LogEntryEnd": "a value", "ReadyCmd": "a value", "CommandExitError": "a value",
	"TemplateBase#": "they describe what a build is to do", "Volume#": "they need a volume",
}

var (
	sdkClass  = regexp.MustCompile(`^declare (?:abstract )?class (\w+)`)
	sdkMethod = regexp.MustCompile(`^  (static )?(?:get )?([A-Za-z]\w*)(?:<.*>)?\(`)
)

// requireDriven holds the calls that the suite made against the public methods
// of the SDK's classes, as its types declare them.
func requireDriven(t *testing.T, types, calls string) {
	t.Helper()
	called := make(map[string]bool)
	for _, name := range strings.Fields(readFile(t, calls)) {
		called[name] = true
	}
	class, found, left := "", 0, make(map[string]bool)
	for line := range strings.SplitSeq(readFile(t, types), "\n") {
		if m := sdkClass.FindStringSubmatch(line); m != nil {
			class = m[1]
			left[class] = undriven[class] != ""
		}
		if line == "}" {
			class = ""
		}
		m := sdkMethod.FindStringSubmatch(line)
		if m == nil || class == "" || m[2] == "constructor" {
			continue
		}
		found++
		of := class + "#"
		if m[1] != "" {
			of = class + "."
		}
		switch {
		case left[class]:
		case undriven[of] != "":
			left[of] = true
		default:
			require.True(t, called[of+m[2]], "%s%s: no test of the suite calls it, and it is not among what is left out", of, m[2])
		}
	}
	require.Greater(t, found, 100, "%s: not understood", types)
	for name := range undriven {
		require.True(t, left[name], "%s: the SDK has none of it (any more)", name)
	}
}

// gatewayRecipe is a template of MCP's name, with a gateway that writes down what it
// was told.
func gatewayRecipe(t *testing.T) string {
	t.Helper()
	return recipes(t, "mcp-gateway/Dockerfile", "FROM x\nENV PATH=/home/user/bin:"+sandboxPath+"\nCOPY gateway.sh /home/user/bin/mcp-gateway\n",
		"mcp-gateway/gateway.sh", `#!/bin/sh
[ "$1" = --config ] || exit 2
mkdir -p /etc/mcp-gateway && printf %s "$GATEWAY_ACCESS_TOKEN" >/etc/mcp-gateway/.token && printf %s "$2" >/etc/mcp-gateway/config
`)
}

// validating is a proxy in front of the server that checks the control plane.
// Streams take the straight way: what breaks them should be the server's doing.
func validating(t *testing.T, srv *Server) http.Handler {
	t.Helper()
	to, err := url.Parse(srv.URL())
	require.NoError(t, err)
	tr := spectest.New(t)
	tr.Wrong = true // what an SDK of another day sends is its own affair
	t.Cleanup(tr.CloseIdleConnections)
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		Transport: tr,
		// A call that is cut, on purpose, must look so to the SDK too.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}
}

// faultServer lets a test in another process arm failures of srv and take them
// out again.
func faultServer(t *testing.T, srv *Server) string {
	t.Helper()
	var mu sync.Mutex
	remove := make(map[string]func())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodDelete {
			remove[r.FormValue("id")]()
			return
		}
		b, _ := io.ReadAll(r.Body)
		f, err := ParseFault(b)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id := strconv.Itoa(len(remove))
		remove[id] = srv.Faults().Add(f)
		_, _ = io.WriteString(w, id)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// gitServer serves repositories over HTTP to who knows the password. PUT makes a
// new one and answers with its address.
func gitServer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	exe, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	backend := &cgi.Handler{
		Path: strings.TrimSpace(string(exe)) + "/git-http-backend",
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=bot", "HOME=/nonexistent"},
	}
	var made atomic.Int32
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			name := fmt.Sprintf("r%d.git", made.Add(1))
			if out, err := exec.CommandContext(r.Context(), "git", "init", "-q", "--bare", "-b", "main", filepath.Join(dir, name)).CombinedOutput(); err != nil {
				http.Error(w, string(out), http.StatusInternalServerError)
				return
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, s.URL+"/"+name)
			return
		}
		if user, pass, _ := r.BasicAuth(); user != "bot" || pass != "pass word/1" {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

var tapLine = regexp.MustCompile(`^(not )?ok \d+ - ([a-z]+): (.*)$`)

// readTAP counts the tests of each area.
func readTAP(out []byte) (passed, failed map[string]int) {
	passed, failed = make(map[string]int), make(map[string]int)
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		m := tapLine.FindStringSubmatch(s.Text())
		switch {
		case m == nil || strings.Contains(m[3], "# SKIP"):
		case m[1] != "":
			failed[m[2]]++
		default:
			passed[m[2]]++
		}
	}
	return passed, failed
}

// notOK is what the judge says of the tests that failed, or all that it says.
func notOK(out []byte) string {
	var b strings.Builder
	for part := range strings.SplitSeq(string(out), "# Subtest: ") {
		if strings.Contains(part, "\nnot ok ") {
			b.WriteString(part)
		}
	}
	return cmp.Or(b.String(), string(out))
}

// verdicts is how each SDK did in each area. A nil one keeps none.
type verdicts struct {
	mu  sync.Mutex
	all map[string]map[string][2]int // area, SDK: passed, failed
}

func (v *verdicts) add(sdk, area string, passed, failed int) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all == nil {
		v.all = make(map[string]map[string][2]int)
	}
	if v.all[area] == nil {
		v.all[area] = make(map[string][2]int)
	}
	v.all[area][sdk] = [2]int{passed, failed}
}

// whole says whether every SDK was judged.
func (v *verdicts) whole() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	judged := make(map[string]bool)
	for _, of := range v.all {
		for sdk := range of {
			judged[sdk] = true
		}
	}
	return len(judged) == len(sdks)
}

// table is the verdicts as docs/sandbox-server.md has them: passed/all.
func (v *verdicts) table() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "| area | %s |\n|%s\n", strings.Join(sdks, " | "), strings.Repeat(" --- |", len(sdks)+1))
	for _, area := range slices.Sorted(maps.Keys(v.all)) {
		fmt.Fprintf(&b, "| %s |", area)
		for _, sdk := range sdks {
			n, ok := v.all[area][sdk]
			cell := fmt.Sprintf("%d/%d", n[0], n[0]+n[1])
			if !ok {
				cell = "-"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// installSDKs installs the pinned SDKs below the user's cache, once for all
// runs, and puts the suite beside them.
func installSDKs(t *testing.T) string {
	t.Helper()
	files, err := fs.Sub(sdkFiles, "testdata/sdk")
	require.NoError(t, err)
	dir := nodetest.Install(t, "sdk", files)
	// Each run has a copy of the suite: two trees may share the cache.
	run, err := os.MkdirTemp(dir, "run-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	for _, name := range []string{"suite.mjs", "help.mjs", "calls.mjs", "areas"} {
		require.NoError(t, copyEmbedded(files, name, run))
	}
	return run
}

func copyEmbedded(files fs.FS, from, to string) error {
	return fs.WalkDir(files, from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return cmp.Or(err, os.MkdirAll(filepath.Join(to, filepath.Dir(path)), 0o755))
		}
		b, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, path)
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return err
		}
		return os.WriteFile(dst, b, 0o600)
	})
}
