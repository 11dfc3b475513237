package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// effects are the calls that change, or ask, something outside the process, by
// the type that has the method. An empty list is all methods of the type.
var effects = map[string][]string{
	"net/http.Client": {"Do", "Get", "Head", "Post", "PostForm"},

	"net/http.RoundTripper": {"RoundTrip"},
	"os/exec.Cmd":           {"Run", "Start", "Output", "CombinedOutput"},

	"github.com/nats-io/nats.go.Conn": {
		"Publish", "PublishMsg", "PublishRequest", "Request", "RequestMsg", "RequestWithContext", "RequestMsgWithContext",
	},
	"github.com/nats-io/nats.go/jetstream.Publisher":             {},
	"github.com/nats-io/nats.go/jetstream.Msg":                   {"Ack", "DoubleAck", "Nak", "NakWithDelay", "InProgress", "Term", "TermWithReason"},
	"github.com/nats-io/nats.go/jetstream.Stream":                {"Purge", "DeleteMsg", "SecureDeleteMsg"},
	"github.com/nats-io/nats.go/jetstream.StreamManager":         {"CreateStream", "UpdateStream", "CreateOrUpdateStream", "DeleteStream"},
	"github.com/nats-io/nats.go/jetstream.ConsumerManager":       {"CreateConsumer", "UpdateConsumer", "CreateOrUpdateConsumer", "DeleteConsumer", "PauseConsumer", "ResumeConsumer"},
	"github.com/nats-io/nats.go/jetstream.StreamConsumerManager": {"CreateConsumer", "UpdateConsumer", "CreateOrUpdateConsumer", "DeleteConsumer", "PauseConsumer", "ResumeConsumer"},
	"github.com/nats-io/nats.go/jetstream.ObjectStore":           {"Get", "Put", "PutBytes", "PutString", "PutFile", "Delete", "UpdateMeta", "AddLink", "AddBucketLink", "Seal"},
	"github.com/nats-io/nats.go/jetstream.ObjectStoreManager":    {"CreateObjectStore", "UpdateObjectStore", "CreateOrUpdateObjectStore", "DeleteObjectStore"},
	"github.com/nats-io/nats.go/jetstream.KeyValue":              {"Put", "PutString", "Create", "Update", "Delete", "Purge"},

	"github.com/redis/go-redis/v9.UniversalClient": {},
	"github.com/redis/go-redis/v9.Cmdable":         {},
	"github.com/redis/go-redis/v9.Pipeliner":       {"Exec"},
	"github.com/redis/go-redis/v9.Client":          {"Process", "Do"},
	"github.com/redis/go-redis/v9.ClusterClient":   {"Process", "Do", "ForEachMaster", "ForEachShard"},
}

// harmless are methods of those types that send nothing.
var harmless = []string{"Pipeline", "TxPipeline", "Close", "PoolStats", "Options", "AddHook"}

// pointless lists the functions with such calls that need no point, each with
// the reason. An entry that is not used any more fails the test.
var pointless = map[string]string{
	"internal/store.(*flusher).flush":   "sends for callers of flusher.wait, which has the point",
	"internal/store.(*flusher).again":   "sends for callers of flusher.wait, which has the point",
	"internal/store.load":               "scripts, at the start: loading them twice is loading them once",
	"internal/store.(*Store).prepare":   "asks at the start",
	"internal/store.(*Store).info":      "asks at the start",
	"internal/store.(*Store).FindJob":   "reads for people who list",
	"internal/store.(*Store).jobsBelow": "reads for people who list",
	"internal/store.(*Store).fill":      "reads for people who list",
	"internal/store.(*Store).readAll":   "reads for people who list",
	"internal/store.(*Store).nodes":     "reads for people who list",

	"internal/natsx.(*Publisher).launch": "sends for Publish and PublishAsync, which have the point",
	"internal/natsx.(*Publisher).resend": "repeats what has passed its point, with the same message id",
	"internal/natsx.EnsureStream":        "settings, at the start: setting them twice is setting them once",
	"internal/natsx.update":              "settings, at the start: setting them twice is setting them once",
	"internal/natsx.EnsureConsumer":      "settings, at the start: setting them twice is setting them once",
	"internal/events.Setup":              "settings, at the start: setting them twice is setting them once",

	"internal/jobs.(*Consumer).request":      "asks for jobs: a request that is lost is made again",
	"internal/jobs.(*Queue).watchAdvisories": "settings, at the start; and what was not begun is given back",
	"internal/events.(*Log).ask":             "reads",
	"internal/events.(*getter).once":         "reads",
	"internal/events.(*Log).drop":            "takes away what a reading needed",
	"internal/query.(*Client).request":       "asks; an answer that is lost is the asker's to ask for again",
	"internal/ops.(*desk).reply":             "the answer to a question: who gets none asks again",
	"internal/ops.(*desk).refuse":            "the answer to a question: who gets none asks again",
	"internal/worker.(*doctor).permissions":  "reads",
	"internal/worker.(*wakes).call":          "a call that is lost: who waits looks again by itself",
	"internal/worker.(*tide).call":           "a call that is lost: who waits looks again by itself",
}

// A crash point stands at every boundary between an effect and its record: a
// sweep can only kill a worker where the code has a name for the place.
func TestEveryEffectHasAPoint(t *testing.T) {
	t.Parallel()
	house := loadHouse(t)
	unused := maps.Clone(pointless)
	found := 0
	for _, p := range house.pkgs {
		for _, e := range house.effects(p) {
			found++
			if _, ok := pointless[e.in]; ok {
				delete(unused, e.in)
				continue
			}
			if !e.between {
				t.Errorf("%s: %s calls %s without point.Before and point.After around it", e.at, e.in, e.call)
			}
		}
	}
	require.Greater(t, found, 15, "the test does not see the calls any more")
	require.Empty(t, unused, "no effect is left in these functions: take them off the table")
}

// effect is one call that reaches outside.
type effect struct {
	in, call, at string
	between      bool // its function passes a point before it and after it
}

// house is the product's own packages, with their types.
type house struct {
	fset *token.FileSet
	pkgs []listed
	imp  types.Importer
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// loadHouse lists what the products link.
func loadHouse(t *testing.T) *house {
	t.Helper()
	h := &house{fset: token.NewFileSet()}
	exports := map[string]string{}
	out := goTool(t, "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./cmd/worker", "./cmd/publisher")
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module+"/internal/") {
			h.pkgs = append(h.pkgs, p)
		}
	}
	h.imp = importer.ForCompiler(h.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	return h
}

// effects lists the calls in p that reach outside.
func (h *house) effects(p listed) []effect {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(h.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			panic(err) // go list has built it
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
	if _, err := (&types.Config{Importer: h.imp}).Check(p.ImportPath, h.fset, files, info); err != nil {
		panic(err)
	}
	var out []effect
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				out = append(out, h.inside(p, info, fn)...)
			}
		}
	}
	return out
}

// inside lists the effects of one function.
func (h *house) inside(p listed, info *types.Info, fn *ast.FuncDecl) (out []effect) {
	passed := map[string]bool{}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if f, ok := info.Uses[sel.Sel].(*types.Func); ok && f.Pkg() != nil && f.Pkg().Path() == module+"/internal/point" {
			passed[f.Name()] = true
		}
		if s := info.Selections[sel]; s != nil && reaches(s) {
			out = append(out, effect{
				in: local(p.ImportPath) + "." + funcName(fn), call: s.Recv().String() + "." + sel.Sel.Name,
				at: h.fset.Position(call.Pos()).String(),
			})
		}
		return true
	})
	for i := range out {
		out[i].between = passed["Before"] && passed["After"]
	}
	return out
}

// reaches reports whether the selected method is an effect of its type, or of
// the type or interface that it is promoted from.
func reaches(s *types.Selection) bool {
	f, ok := s.Obj().(*types.Func)
	if !ok || slices.Contains(harmless, f.Name()) {
		return false
	}
	for _, t := range []types.Type{s.Recv(), f.Signature().Recv().Type()} {
		if ptr, ok := t.(*types.Pointer); ok {
			t = ptr.Elem()
		}
		names, ok := effects[t.String()]
		if ok && (len(names) == 0 || slices.Contains(names, f.Name())) {
			return true
		}
	}
	return false
}

func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		return "(*" + typeName(star.X) + ")." + fn.Name.Name
	}
	return typeName(t) + "." + fn.Name.Name
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.IndexExpr: // of a generic type
		return typeName(e.X)
	}
	return "?"
}
