package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/sandjet/sandjet"

// floors is the house, from the roof down. A package may import what stands on
// a lower floor. The longest prefix that matches a package's path decides.
var floors = map[string]int{
	"cmd": 4,

	"internal/worker": 3, // where e2b, store, events and jobs meet
	"internal/ops":    3, // health, metrics, questions answered over NATS

	"internal/jobs": 2, // commands in

	"internal/events":    1, // facts out
	"internal/query":     1, // questions
	"internal/audit":     1, // what was done to the outside
	"internal/spool":     1, // a command that outlives its worker
	"internal/e2b/local": 1, // the sandbox server of development and tests

	"schemas":            0,
	"internal/natsx":     0,
	"internal/store":     0,
	"internal/e2b":       0,
	"internal/git":       0,
	"internal/git/local": 0, // the git server of development and tests
	"internal/secret":    0,
	"internal/policy":    0,
	"internal/session":   0,
	"internal/wire":      0,
	"internal/point":     0,
}

// pure packages know no outside system; the others of the ground floor may
// use them.
var pure = []string{"internal/wire", "internal/session", "internal/point"}

// aside stands outside the house: what development and tests need. It may use
// any floor below the roof; of the products only cmd/devstack may use it.
var aside = []string{"internal/stack", "internal/bench", "internal/chaos", "internal/arch", "internal/testreport", "internal/nodetest", "internal/leaktest", "internal/e2b/local", "internal/git/local"}

// sameFloor lists the arrows that may point sideways, each with its reason.
var sameFloor = map[[2]string]string{
	{"internal/worker", "internal/ops"}: "the App serves its health, metrics and questions itself",
}

// neverInProducts must not be linked by cmd/worker or cmd/publisher.
var neverInProducts = []string{
	"github.com/nats-io/nats-server",
	"github.com/alicebob/miniredis",
	"github.com/yuin/gopher-lua",
	"github.com/stretchr/testify",
	"go.uber.org/goleak",
	"pgregory.net/rapid",
	"github.com/anishathalye/porcupine",
	"github.com/rogpeppe/go-internal/testscript",
	"github.com/getkin/kin-openapi",
	"testing",
	module + "/internal/stack",
	module + "/internal/leaktest",
	module + "/internal/e2b/local",
	module + "/internal/git/local",
}

// neverInPublisher: who publishes reaches neither Redis nor E2B.
var neverInPublisher = []string{
	"github.com/redis/go-redis",
	"connectrpc.com/connect",
	module + "/internal/store",
	module + "/internal/e2b",
	module + "/internal/spool",
	module + "/internal/worker",
	module + "/internal/ops",
	gitHub, module + "/internal/git/github",
}

// gitHub is GitHub's client: large, and one package's matter alone.
const gitHub = "github.com/google/go-github"

// A pkg is what go list says of a package.
type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	pkgs := goList(t, "./...")
	require.NotEmpty(t, pkgs)
	for _, p := range pkgs {
		for _, complaint := range check(p) {
			t.Error(complaint)
		}
	}
}

func TestProductsLinkNoDevelopmentParts(t *testing.T) {
	t.Parallel()
	for _, cmd := range []string{"worker", "publisher"} {
		for _, dep := range deps(t, "./cmd/"+cmd) {
			require.False(t, under(dep, neverInProducts...), "cmd/%s links %s", cmd, dep)
		}
	}
}

func TestPublisherReachesNeitherRedisNorE2B(t *testing.T) {
	t.Parallel()
	for _, dep := range deps(t, "./cmd/publisher") {
		require.False(t, under(dep, neverInPublisher...), "cmd/publisher links %s", dep)
	}
}

// GitHub's client is as large as a third of a worker, so only who makes pull
// requests links it, and of us only one package speaks to it.
func TestOnlyGitHubsPackageKnowsItsClient(t *testing.T) {
	t.Parallel()
	for _, p := range goList(t, "./...") {
		if local(p.ImportPath) == "internal/git/github" {
			require.True(t, importsAny(p, gitHub), "the rule looks for a package that nobody uses")
			continue
		}
		require.False(t, importsAny(p, gitHub), "%s imports GitHub's client", p.ImportPath)
	}
	for _, pkg := range []string{"./internal/e2b", "./internal/git"} {
		for _, dep := range deps(t, pkg) {
			require.False(t, under(dep, gitHub), "%s links %s", pkg, dep)
		}
	}
}

// The rules themselves: each of these would be a crack in the house.
func TestCheckSeesCracks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, pkg, imports string
		test               bool
		want               string // part of the complaint; empty is allowed
	}{
		{name: "down", pkg: "internal/jobs", imports: "internal/events"},
		{name: "up", pkg: "internal/events", imports: "internal/jobs", want: "points up"},
		{name: "sideways", pkg: "internal/events", imports: "internal/query", want: "points sideways"},
		{name: "leaf to pure", pkg: "internal/store", imports: "internal/session"},
		{name: "leaf to sibling", pkg: "internal/store", imports: "internal/natsx", want: "points sideways"},
		{name: "pure to leaf", pkg: "internal/wire", imports: "schemas", want: "points sideways"},
		{name: "own subtree", pkg: "internal/e2b", imports: "internal/e2b/envd/process"},
		{name: "client to its fake", pkg: "internal/e2b", imports: "internal/e2b/local", want: "development"},
		{name: "client test to its fake", pkg: "internal/e2b", imports: "internal/e2b/local", test: true},
		{name: "two outside systems in one room", pkg: "internal/ops", imports: "internal/store internal/e2b", want: "only internal/worker"},
		{name: "worker is the one room", pkg: "internal/worker", imports: "internal/store internal/e2b internal/ops"},
		{name: "stack in a product", pkg: "internal/worker", imports: "internal/stack", want: "development"},
		{name: "stack in devstack", pkg: "cmd/devstack", imports: "internal/stack internal/worker"},
		{name: "stack in cmd/worker", pkg: "cmd/worker", imports: "internal/stack", want: "development"},
		{name: "stack in a test", pkg: "internal/events", imports: "internal/stack", test: true},
		{name: "test points up", pkg: "internal/events", imports: "internal/worker", test: true, want: "points up"},
		{name: "testify in code", pkg: "internal/jobs", imports: "github.com/stretchr/testify/require", want: "tests only"},
		{name: "testify in a test", pkg: "internal/jobs", imports: "github.com/stretchr/testify/require", test: true},
		{name: "fake to worker", pkg: "internal/e2b/local", imports: "internal/worker", want: "points up"},
		{name: "fake to client", pkg: "internal/e2b/local", imports: "internal/e2b"},
		{name: "new package", pkg: "internal/newroom", want: "not in the table"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := pkg{ImportPath: module + "/" + tt.pkg}
			for _, im := range strings.Fields(tt.imports) {
				if !strings.Contains(im, ".") {
					im = module + "/" + im
				}
				if tt.test {
					p.TestImports = append(p.TestImports, im)
				} else {
					p.Imports = append(p.Imports, im)
				}
			}
			got := check(p)
			if tt.want == "" {
				require.Empty(t, got)
				return
			}
			require.NotEmpty(t, got)
			require.Contains(t, got[0], tt.want)
		})
	}
}

// check returns what is wrong with a package's imports.
func check(p pkg) []string {
	from := local(p.ImportPath)
	room, floor, ok := place(from)
	if !ok {
		return []string{from + " is not in the table of floors: decide where it belongs"}
	}
	var out []string
	for _, im := range p.Imports {
		if s := arrow(room, floor, im, false); s != "" {
			out = append(out, from+" imports "+local(im)+": "+s)
		}
	}
	for _, im := range append(p.TestImports, p.XTestImports...) {
		if s := arrow(room, floor, im, true); s != "" {
			out = append(out, "a test of "+from+" imports "+local(im)+": "+s)
		}
	}
	if imports(p, "internal/e2b") && imports(p, "internal/store") && room != "internal/worker" && !under(from, "cmd/devstack", "internal/stack", "internal/bench", "internal/chaos") {
		out = append(out, from+" sees Redis and E2B: only internal/worker may")
	}
	return out
}

// arrow says what is wrong with an import, or nothing.
func arrow(room string, floor int, im string, test bool) string {
	if !strings.HasPrefix(im, module+"/") {
		if !test && room != "internal/leaktest" && under(im, "github.com/stretchr/testify", "go.uber.org/goleak", "pgregory.net/rapid", "github.com/anishathalye/porcupine") {
			return "tests only"
		}
		return ""
	}
	to := local(im)
	if under(to, aside...) {
		if test || room == "cmd/devstack" || under(room, aside...) {
			return ""
		}
		return "only development and tests may"
	}
	toRoom, toFloor, ok := place(to)
	switch {
	case !ok, toRoom == room, toFloor < floor:
		return ""
	case under(room, aside...) && room != "internal/e2b/local" && toFloor < floors["cmd"]:
		return ""
	case toFloor > floor:
		return "the arrow points up"
	case floor == 0 && under(to, pure...):
		return ""
	}
	if _, ok := sameFloor[[2]string{room, toRoom}]; ok {
		return ""
	}
	return "the arrow points sideways"
}

// place finds the room of a package and its floor.
func place(pkg string) (room string, floor int, ok bool) {
	if under(pkg, "cmd") {
		return pkg, floors["cmd"], true
	}
	for p := pkg; p != "." && p != "/"; p = path.Dir(p) {
		if f, ok := floors[p]; ok {
			return p, f, true
		}
		for _, a := range aside {
			if p == a {
				return p, 3, true
			}
		}
	}
	return "", 0, false
}

func imports(p pkg, room string) bool {
	for _, im := range p.Imports {
		if r, _, ok := place(local(im)); ok && r == room {
			return true
		}
	}
	return false
}

func importsAny(p pkg, root string) bool {
	for _, im := range append(append(p.Imports, p.TestImports...), p.XTestImports...) {
		if under(im, root) {
			return true
		}
	}
	return false
}

// under reports whether a path is one of the roots or below one.
func under(p string, roots ...string) bool {
	for _, r := range roots {
		if p == r || strings.HasPrefix(p, r+"/") {
			return true
		}
	}
	return false
}

func local(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

// goList reads go list -json. Packages that do not build are listed too: their
// imports count all the same.
func goList(t *testing.T, args ...string) []pkg {
	t.Helper()
	args = append([]string{"list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports"}, args...)
	dec := json.NewDecoder(bytes.NewReader(goTool(t, args...)))
	var out []pkg
	for {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		out = append(out, p)
	}
}

// deps lists all that a command links; nothing if there is no such command.
func deps(t *testing.T, cmd string) []string {
	t.Helper()
	if len(goList(t, cmd)) == 0 {
		t.Skipf("there is no %s yet", cmd)
	}
	return strings.Fields(string(goTool(t, "list", "-e", "-deps", cmd)))
}

func goTool(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %s: %s", strings.Join(args, " "), stderr.String())
	return out
}
