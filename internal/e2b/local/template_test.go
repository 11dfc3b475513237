package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
)

// recipes writes a directory of templates: file, content, file, content.
func recipes(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		p := filepath.Join(dir, files[i])
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		mode := os.FileMode(0o644)
		if strings.HasSuffix(p, ".sh") {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(p, []byte(files[i+1]), mode))
	}
	return dir
}

const fullRecipe = `# A comment, and a line that goes on.
FROM ubuntu:24.04
ARG GREETING=hello
ARG EMPTY=
ENV A="one two" B=$GREETING-${EMPTY:-none} \
    # in between
    C=\$A
ENV OLD some words
LABEL a=b
# devstack: skip, the machine has it
RUN apt-get install -y no-such-package
WORKDIR /home/user/app
COPY run.sh data/*.txt ./
COPY --chown=user data /home/user/data
RUN echo "$GREETING $B ${PWD##*/}" >built && mkdir deep && touch deep/er
RUN ["sh", "-c", "printf %s \"$0\" >json", "a  b"]
USER user
RUN id -un >who
ENTRYPOINT echo "$B" >started; exec sleep 1000
`

func TestTemplates(t *testing.T) {
	eachLevel(t, func(c *client) {
		dir := recipes(c.T, "full/Dockerfile", strings.Replace(fullRecipe, "USER user\nRUN id", "RUN chmod a+rwx .\nUSER user\nRUN id", 1),
			"full/run.sh", "#!/bin/sh\necho ran\n", "full/data/x.txt", "x", "full/data/y.txt", "y",
			"bare/e2b.Dockerfile", "FROM scratch\nWORKDIR /home/user\nRUN echo bare >bare\n", "notes/README", "no template")
		data := c.TempDir()
		cfg := Config{Isolation: c.srv.isolation, Recipes: dir, DataDir: data}
		srv, err := Start(c.Context(), cfg)
		require.NoError(c, err)
		require.Empty(c, srv.Sandboxes(), "the one that it was built in is gone")
		c2 := newClient(c.T, srv)
		b := c2.create(`{"templateID":"full","envVars":{"OLD":"mine"}}`)
		out := b.run(`./run.sh; cat built json; echo; cat x.txt ~/data/y.txt; echo; echo "$A|$B|$C|$OLD|$GREETING|${PWD##*/}"; ls deep; cat who`)
		require.NoError(c, out.err)
		want := "ran\nhello hello-none app\na  b\nxy\none two|hello-none|$A|mine||app\ner\n"
		if c.srv.Isolation() == "strong" { // the others have the machine's users
			want += "user\n"
			require.Equal(c, "root\nuser\n", b.run("stat -c %U built ~/data").stdout.String())
		}
		require.True(c, strings.HasPrefix(out.stdout.String(), want), "%s%s", &out.stdout, &out.stderr)
		require.Equal(c, "hello-none\n", c2.awaited(b, "/home/user/app/started"))
		require.Len(c, b.list(), 1, "the start command runs")
		require.Equal(c, "bare\n", c2.create(`{"templateID":"bare:latest"}`).run("cat ~/bare").stdout.String())
		require.Equal(c, 201, c2.call("POST", "/v2/sandboxes", `{"templateID":"any"}`).status, "another name is an empty sandbox")
		other := c2.create(`{"templateID":"full"}`)
		other.run("rm -f built; echo changed >built")
		require.Contains(c, c2.create(`{"templateID":"full"}`).run("cat built").stdout.String(), "hello", "each has files of its own")
		require.NoError(c, srv.Close())
	})
}

// TestWhatIsTakenOfATemplate: snapshots and forks of a sandbox begin as the
// template says, also when the server and the template are gone.
func TestWhatIsTakenOfATemplate(t *testing.T) {
	t.Parallel()
	best := levels(t)
	dir := recipes(t, "app/Dockerfile", "FROM x\nENV A=tpl B=tpl\nWORKDIR /home/user/app\nRUN chmod 777 .\nUSER root\nCMD echo $A$B >>started; exec sleep 1000\n")
	cfg := Config{Isolation: best[len(best)-1], Recipes: dir, DataDir: t.TempDir()}
	c := newClient(t, start(t, cfg))
	begins := func(b *testBox, started string) {
		t.Helper()
		require.Eventually(t, func() bool { return b.content("/home/user/app/started") == started }, patience, patience/1000, "the start command begins anew")
		require.Len(t, b.list(), 1)
		out := b.run(`echo "$A $B ${PWD##*/} $USER"`)
		require.NoError(t, out.err)
		require.Equal(t, fmt.Sprintf("tpl %s app root\n", b.env()["B"]), out.stdout.String())
	}
	b := c.create(`{"templateID":"app","envVars":{"B":"own","C":"own"}}`)
	require.Equal(t, "tplown\n", c.awaited(b, "/home/user/app/started"))
	require.Equal(t, map[string]string{"A": "tpl", "B": "own", "C": "own"}, b.env())
	snap := b.snapshot("{}").ID

	var forks []struct{ Sandbox e2b.Sandbox }
	c.call("POST", b.on("/fork"), "").into(t, &forks)
	fork := &testBox{client: c, Sandbox: forks[0].Sandbox}
	require.Equal(t, map[string]string{"A": "tpl", "B": "own", "C": "own"}, fork.env(), "a fork has the origin's settings")
	begins(fork, "tplown\ntplown\n")

	from := func(body string) *testBox { return c.create(fmt.Sprintf(`{"templateID":%q%s}`, snap, body)) }
	again := from("")
	require.Equal(t, map[string]string{"A": "tpl", "B": "tpl"}, again.env(), "the template's, not those of the sandbox it was taken of")
	begins(again, "tplown\ntpltpl\n")
	snap = again.snapshot(`{"name":"second"}`).ID

	require.NoError(t, c.srv.Close())
	cfg.Recipes = ""
	c = newClient(t, start(t, cfg))
	third := from(`,"envVars":{"B":"request"}`)
	require.Equal(t, map[string]string{"A": "tpl", "B": "request"}, third.env())
	begins(third, "tplown\ntpltpl\ntplrequest\n")
}

// TestSnapshotsOfOldServers had no word of the template.
func TestSnapshotsOfOldServers(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	dir := filepath.Join(data, snapshotsDir, "snap0123456789abcdef")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "root/home/user"), 0o755))
	writeFile(t, filepath.Join(dir, snapshotFile), `{"id":"snap0123456789abcdef","name":"work:default","sandbox":"iold","created_at":"2026-10-01T10:00:00Z"}`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "root/home/user/f"), []byte("old"), 0o644))
	b := newClient(t, start(t, Config{Isolation: None, DataDir: data})).create(`{"templateID":"work"}`)
	require.Equal(t, "old", b.content("f"))
	require.Empty(t, b.env())
	require.Empty(t, b.list())
}

// TestStartCommandThatCannotBegin leaves a sandbox to look why.
func TestStartCommandThatCannotBegin(t *testing.T) {
	t.Parallel()
	dir := recipes(t, "app/Dockerfile", "FROM x\nWORKDIR /home/user/app\nRUN cd .. && rmdir app\nCMD true\n")
	b := newClient(t, start(t, Config{Isolation: None, Recipes: dir})).create(`{"templateID":"app"}`)
	require.Empty(t, b.list())
	logs := b.call("GET", "/v2"+b.on("/logs?level=error"), "").body
	require.Contains(t, logs, "start command not begun")
	require.Contains(t, logs, "cwd '/home/user/app' does not exist")
}

// env is the environment that commands start from, as envd tells it.
func (b *testBox) env() (env map[string]string) {
	b.Helper()
	b.envd("GET", "/envs", "").into(b.T, &env)
	return env
}

// awaited is a file's content once there is some.
func (c *client) awaited(b *testBox, path string) (text string) {
	c.Helper()
	require.Eventually(c, func() bool { text = b.content(path); return text != "" }, patience, patience/1000)
	return text
}

// TestTemplatesAreBuiltOnce: what a template is made from decides, not when.
func TestTemplatesAreBuiltOnce(t *testing.T) {
	t.Parallel()
	dir := recipes(t, "one/Dockerfile", "FROM x\nWORKDIR /home/user\nCOPY f .\nRUN cat /proc/sys/kernel/random/uuid >id\n", "one/f", "1")
	data := t.TempDir()
	id := func() string {
		srv := start(t, Config{Isolation: None, Recipes: dir, DataDir: data, StrictTemplates: true})
		c := newClient(t, srv)
		b := c.create(`{"templateID":"one"}`)
		require.Equal(t, 404, c.call("POST", "/v2/sandboxes", `{"templateID":"base"}`).status, "strict")
		snap := c.call("POST", b.on("/snapshots"), `{"name":"taken"}`)
		require.Equal(t, 201, snap.status)
		require.Equal(t, 201, c.call("POST", "/v2/sandboxes", `{"templateID":"taken"}`).status, "but for snapshots")
		got := b.content("id")
		require.NoError(t, srv.Close())
		return got
	}
	first := id()
	require.NotEmpty(t, first)
	require.Equal(t, first, id(), "taken as it was")
	writeFile(t, dir+"/one/f", "2")
	second := id()
	require.NotEqual(t, first, second, "a file changed")
	writeFile(t, dir+"/one/Dockerfile", "FROM x\nWORKDIR /home/user\nCOPY f .\nRUN echo $(cat /proc/sys/kernel/random/uuid) >id\n")
	third := id()
	require.NotEqual(t, second, third, "the recipe changed")
	left, err := os.ReadDir(filepath.Join(data, templatesDir))
	require.NoError(t, err)
	require.Len(t, left, 1, "what nobody makes any more is gone")
	// One that was cut off in the middle is built again.
	require.NoError(t, os.Remove(filepath.Join(data, templatesDir, left[0].Name(), templateFile)))
	require.NotEqual(t, third, id())
}

func TestWrongRecipes(t *testing.T) {
	t.Parallel()
	best := levels(t)
	for _, tc := range []struct{ recipe, message string }{
		{"RUN true\n", ":1: RUN: it comes before FROM"},
		{"# only a comment\n", ":1: no FROM"},
		{"FROM a\n\nFROM b\n", ":3: FROM: a second stage is not supported"},
		{"FROM a\nVOLUME /x\n", ":2: VOLUME: not supported"},
		{"FROM a\n=1\n", ":2: no instruction: =1"},
		{"FROM a\nRUN true && \\\n", ":2: RUN: the file ends in the middle of it"},
		{"FROM a\nRUN <<EOF\ntrue\nEOF\n", ":2: RUN: here-documents are not supported"},
		{"FROM a\nENV\n", ":2: ENV: nothing follows it"},
		{"FROM a\nENV A=\"b\n", ":2: ENV: a quote that is not closed"},
		{"FROM a\nUSER eve\n", `:2: USER: user "eve": a sandbox has user and root`},
		{"FROM a\nCOPY none /tmp/\n", ":2: COPY: none: no such file beside the recipe"},
		{"FROM a\nCOPY ../secret /tmp/\n", ":2: COPY: ../secret: no such file beside the recipe"},
		{"FROM a\nCOPY --from=b x /tmp/\n", ":2: COPY: --from is not supported"},
		{"FROM a\nCOPY Dockerfile /usr/x\n", ":2: COPY: /usr/x: the system's directories are the machine's, and read-only"},
		{"FROM a\nRUN true\nRUN echo what went wrong >&2; \\\n exit 3\n", ":3: RUN: exit status 3\nwhat went wrong"},
		{"FROM a\nWORKDIR /usr/x\n", ":2: WORKDIR: "},
	} {
		dir := recipes(t, "wrong/Dockerfile", tc.recipe, "../secret", "s")
		level := best[len(best)-1]
		srv, err := Start(t.Context(), Config{Isolation: level, Recipes: dir, DataDir: t.TempDir()})
		if err == nil {
			_ = srv.Close()
		}
		require.ErrorContains(t, err, filepath.Join(dir, "wrong/Dockerfile")+tc.message, "%s", tc.recipe)
	}
	_, err := Start(t.Context(), Config{Isolation: None, Recipes: t.TempDir(), DataDir: t.TempDir()})
	require.ErrorContains(t, err, "no template: want a directory each")
	_, err = Start(t.Context(), Config{Isolation: None, Recipes: recipes(t, "Wrong Name/Dockerfile", "FROM a"), DataDir: t.TempDir()})
	require.ErrorContains(t, err, "is no template's name")
	dir := recipes(t, "w/Dockerfile", "FROM a\nCOPY w /opt/\n", "w/w", "x")
	_, err = Start(t.Context(), Config{Isolation: None, Recipes: dir, DataDir: t.TempDir()})
	require.ErrorContains(t, err, "/opt is the machine's: isolation is none")
}

// TestTheCloudsRecipe builds the template for E2B's cloud, as far as it goes here.
func TestTheCloudsRecipe(t *testing.T) {
	t.Parallel()
	if best := levels(t); best[len(best)-1] != Strong {
		missing(t, "no strong isolation here")
	}
	srv, err := Start(context.WithoutCancel(t.Context()), Config{Isolation: Strong, Recipes: "../../../deploy", DataDir: t.TempDir(), NoNetwork: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, srv.Close()) }()
	b := newClient(t, srv).create(`{"templateID":"e2b-template"}`)
	out := b.run("git --version && test -d /opt/mirrors && test ! -e /tmp/mirrors && id -un")
	require.Regexp(t, "^git version .*\nuser\n$", out.stdout.String(), "%s", out.stderr.String())
}
