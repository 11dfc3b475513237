package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var kinds = []string{"sandbox.provision", "sandbox.destroy", "sandbox.pause", "task.run", "git.publish"}

const example = `version: 1
rules:
  - name: agents
    owners: ["agent-*", bot]
    kinds: [task.run, "sandbox.*"]
    templates: [base, team/*]
    secrets: [github-token, "db.*"]
    repos: ["https://github.com/acme/*"]
    shell: true
    argv:
      allow: ["git **", "npm test", "go test *", "sh-not-a-shell"]
      deny:
        - git push **
        - rm **
    egress:
      allow: ["*.github.com", pypi.org, 10.0.0.0/8, "2001:db8::/32"]
    guarded_paths:
      allow: [".github/workflows/docs.yml"]
      add: ["deploy/**"]
    caps: {timeout: 1h, silent_timeout: 10m, idle_timeout: 30m, max_age: 24h, max_attempts: 5}
  - name: plain
    owners: [plain]
    shell: false
  - name: deny only
    owners: [careful]
    argv: {deny: ["curl **", "git push"]}
  - name: nothing
    owners: [nothing]
    secrets: []
    templates: []
    argv: {allow: []}
    egress: {internet: false}
  - name: others
    kinds: [sandbox.pause]
    secrets: []
`

func parse(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := Parse("/etc/sandjet/policy.yaml", []byte(text), kinds)
	require.NoError(t, err)
	return p
}

func yes() *bool { b := true; return &b }
func no() *bool  { return new(bool) }

// Every setting of a rule: what it lets through, what it refuses and in which line.
func TestCheck(t *testing.T) {
	t.Parallel()
	p := parse(t, example)
	agent := func(change func(*Request)) Request {
		q := Request{Owner: "agent-7", Kind: "task.run", Template: "base"}
		change(&q)
		return q
	}
	tests := []struct {
		name, want string // want is a part of the refusal, empty if there is none
		line       int
		q          Request
	}{
		{name: "all in order", q: agent(func(q *Request) {
			q.Argv, q.Secrets, q.Credential = []string{"git", "status"}, map[string]string{"T": "github-token", "D": "db.main"}, "github-token"
			q.Repo, q.Timeout, q.SilentTimeout, q.IdleTimeout, q.MaxAge, q.MaxAttempts = "https://github.com/acme/x", time.Hour, time.Minute, time.Minute, 24*time.Hour, 5
			q.Network = &Network{AllowInternet: no(), AllowOut: []string{"api.github.com", "10.1.0.0/16", "10.9.9.9", "PyPI.org.", "2001:db8::1"}}
		})},
		{name: "kind", line: 5, want: `jobs of the kind "git.publish" is not allowed: want task.run, sandbox.*`, q: agent(func(q *Request) { q.Kind = "git.publish" })},
		{name: "kind by star", q: agent(func(q *Request) { q.Kind = "sandbox.pause" })},
		{name: "template", line: 6, want: `the template "other" is not allowed`, q: agent(func(q *Request) { q.Template = "other" })},
		{name: "template by star", q: agent(func(q *Request) { q.Template = "team/x:1" })},
		{name: "secret", line: 7, want: "this secret is not allowed", q: agent(func(q *Request) { q.Secrets = map[string]string{"A": "prod-key"} })},
		{name: "credential", line: 7, want: "this secret is not allowed", q: agent(func(q *Request) { q.Credential = "prod-key" })},
		{name: "repository", line: 8, want: "https://evil.example/acme", q: agent(func(q *Request) { q.Repo = "https://evil.example/acme/x" })},
		{name: "timeout", line: 20, want: "timeout of 2h is too long: want 1h at most", q: agent(func(q *Request) { q.Timeout = 2 * time.Hour })},
		{name: "silent timeout", line: 20, want: "silent_timeout of 11m", q: agent(func(q *Request) { q.SilentTimeout = 11 * time.Minute })},
		{name: "idle timeout", line: 20, want: "idle_timeout of 31m", q: agent(func(q *Request) { q.IdleTimeout = 31 * time.Minute })},
		{name: "age", line: 20, want: "max_age of 25h", q: agent(func(q *Request) { q.MaxAge = 25 * time.Hour })},
		{name: "attempts", line: 20, want: "6 attempts are too many: want 5", q: agent(func(q *Request) { q.MaxAttempts = 6 })},
		{name: "internet by default", line: 16, want: "the whole internet is not allowed", q: agent(func(q *Request) { q.Network = &Network{} })},
		{name: "internet", line: 16, want: "the whole internet is not allowed", q: agent(func(q *Request) { q.Network = &Network{AllowInternet: yes()} })},
		{name: "other owner", line: 34, want: `jobs of the kind "task.run"`, q: Request{Owner: "someone", Kind: "task.run"}},
		{name: "no owner", line: 34, want: `jobs of the kind "task.run"`, q: Request{Kind: "task.run"}},
		{name: "no owner, allowed", q: Request{Kind: "sandbox.pause"}},
		{name: "an owner that looks alike", line: 34, want: "jobs of the kind", q: Request{Owner: "xagent-7", Kind: "task.run"}},
		{name: "second name of a rule", line: 5, want: "jobs of the kind", q: Request{Owner: "bot", Kind: "git.publish"}},
		{name: "empty list", line: 30, want: "want nothing", q: Request{Owner: "nothing", Template: "base"}},
		{name: "nothing to reach", line: 32, want: "want nothing", q: Request{Owner: "nothing", Network: &Network{AllowInternet: no(), AllowOut: []string{"a.example"}}}},
		{name: "no network", q: Request{Owner: "nothing", Network: &Network{AllowInternet: no()}}},
	}
	for _, to := range []string{"github.com", "api.github.com.evil.example", "evilgithub.com", "10.0.0.0/7", "11.0.0.1", "0.0.0.0/0", "::/0", "*.org", "*"} {
		tests = append(tests, struct {
			name, want string
			line       int
			q          Request
		}{"to " + to, "is not among what may be reached", 16, agent(func(q *Request) { q.Network = &Network{AllowInternet: no(), AllowOut: []string{to}} })})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := p.Check(tt.q)
			require.NoError(t, Default().Check(tt.q), "without a file all is allowed")
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			var refusal *Refusal
			require.ErrorAs(t, err, &refusal)
			require.Contains(t, refusal.Reason, tt.want)
			require.Equal(t, tt.line, refusal.Line)
			require.Contains(t, err.Error(), "policy.yaml:")
			require.Contains(t, err.Error(), `rule "`)
			require.NotContains(t, err.Error(), "prod-key", "it may be a secret, in the wrong place")
		})
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	p := parse(t, example)
	tests := []struct {
		owner, cmd string // words, or after "$ " a script for the field shell
		want       string
	}{
		{"agent-1", "git status -s", ""},
		{"agent-1", "git", ""},
		{"agent-1", "npm test", ""},
		{"agent-1", "npm test -- x", `the command "npm test" is not allowed`},
		{"agent-1", "npm", "not allowed"},
		{"agent-1", "go test ./...", ""},
		{"agent-1", "go test a b", "not allowed"},
		{"agent-1", "git push origin", `the command "git push" is denied by "git push **"`},
		{"agent-1", "/usr/bin/git status", "not allowed"},
		{"agent-1", "/usr/bin/git push", "denied"},
		{"agent-1", "env A=b git push", "denied"},
		{"agent-1", "env A=b git status", "not allowed"},
		{"agent-1", "sudo -u root /bin/rm -rf /", "denied"},
		{"agent-1", "echo", "not allowed"},
		{"agent-1", "$ git status && npm test", ""},
		{"agent-1", "$ cd sub; export A=b; echo $A; git 'log' \"-1\" $REF", ""},
		{"agent-1", "$ git push", "denied"},
		{"agent-1", "$ g\\it 'pu'sh", "denied"},
		{"agent-1", "$ true | (rm -rf /) &", "denied"},
		{"agent-1", "$ echo $(rm x)", "denied"},
		{"agent-1", "$ echo \"`rm x`\"", "denied"},
		{"agent-1", "$ if git status; then while true; do rm x; done; fi", "denied"},
		{"agent-1", "$ git $WHAT", "denied"},
		{"agent-1", "$ npm $WHAT", "not allowed"},
		{"agent-1", "$ npm te*", "not allowed"},
		{"agent-1", "$ $CMD x", "only known when it runs"},
		{"agent-1", "$ ~/git x", "only known when it runs"},
		{"agent-1", "$ \"$X\"git x", "only known when it runs"},
		{"agent-1", "$ $'rm' x", "only known when it runs"},
		{"agent-1", "$ {rm,x}", "only known when it runs"},
		{"agent-1", "$ go test $X", "not allowed"},
		{"careful", "$ git push $X", "denied"},
		{"careful", "$ git push $X main", ""},
		{"agent-1", "$ eval git status", "runs text"},
		{"agent-1", "$ . ./env", "runs text"},
		{"agent-1", "$ trap 'rm x' EXIT", "runs text"},
		{"agent-1", "$ PATH=/tmp git status", "it sets PATH"},
		{"agent-1", "$ export PATH=/tmp", "it sets PATH"},
		{"agent-1", "$ export \"$X\"", "it sets"},
		{"agent-1", "$ read PATH", "it sets PATH"},
		{"agent-1", "$ for PATH in /tmp; do git status; done", "it sets PATH"},
		{"agent-1", "$ echo ${LD_PRELOAD:=x}", "it sets LD_PRELOAD"},
		{"agent-1", "$ git() { npm test; }", "gives the name"},
		{"agent-1", "$ if then", "cannot be held against argv: 1:1"},
		{"agent-1", "$ git 'status", "cannot be held against argv"},
		{"agent-1", "$ diff <(git status) x", "cannot be held against argv"},
		{"agent-1", "sh -c git", ""},
		{"agent-1", "bash -euo pipefail -c rm", "denied"},
		{"agent-1", "/bin/sh -ec rm", "denied"},
		{"agent-1", "sh", "not given one with -c"},
		{"agent-1", "sh script.sh", "not given one with -c"},
		{"agent-1", "sh -s", "not given one with -c"},
		{"agent-1", "bash --rcfile x -c git", "not given one with -c"},
		{"agent-1", "zsh -c git", "are not read"},
		{"agent-1", "$ sh -c \"sh -c 'rm x'\"", "denied"},
		{"agent-1", "$ sh -c \"$X\"", "not given one with -c"},
		{"agent-1", "$ curl x | sh", "not allowed"},
		{"agent-1", "env sh -c rm", "denied"},
		{"agent-1", "sh-not-a-shell", ""},
		{"plain", "ls -l", ""},
		{"plain", "$ ls", "shell is not allowed: use argv"},
		{"plain", "bash -c ls", `shell is not allowed, and "bash" is one`},
		{"plain", "env bash -c ls", "shell is not allowed"},
		{"careful", "ls -l", ""},
		{"careful", "git push", "denied"},
		{"careful", "git push origin", ""},
		{"careful", "git", ""},
		{"careful", "$ ls | wc -l; make $TARGET", ""},
		{"careful", "$ wget x; curl x", "denied"},
		{"careful", "$ git $X", "denied"},
		{"careful", "$ make; $X", "only known when it runs"},
		{"nothing", "ls", "not allowed"},
		{"nothing", "$ echo x", ""},
	}
	for _, tt := range tests {
		t.Run(tt.owner+" "+tt.cmd, func(t *testing.T) {
			t.Parallel()
			q := Request{Owner: tt.owner, Argv: strings.Fields(tt.cmd)}
			if script, ok := strings.CutPrefix(tt.cmd, "$ "); ok {
				q.Argv, q.Shell = nil, script
			}
			err := p.Check(q)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			var r *Refusal
			require.ErrorAs(t, err, &r)
			require.Positive(t, r.Line)
			require.Equal(t, map[bool]string{true: "/shell", false: "/argv"}[q.Shell != ""], r.Pointer)
		})
	}
}

func TestNestedShells(t *testing.T) {
	t.Parallel()
	p := parse(t, example)
	script := "git status"
	for range 20 {
		script = "sh -c " + "'" + strings.ReplaceAll(script, "'", `'\''`) + "'"
		if len(script) > 60_000 {
			break
		}
	}
	require.ErrorContains(t, p.Check(Request{Owner: "bot", Shell: script}), "shells are in each other")
}

func TestSecret(t *testing.T) {
	t.Parallel()
	p := parse(t, example)
	require.NoError(t, p.Secret("agent-1", "github-token"))
	require.NoError(t, p.Secret("plain", "anything"))
	require.Error(t, p.Secret("agent-1", "prod-key"))
	require.Error(t, p.Secret("", "github-token"))
	require.NoError(t, Default().Secret("", "anything"))
	noOne := parse(t, "{version: 1, rules: [{name: a, owners: [a]}]}")
	require.EqualError(t, noOne.Secret("b", "x"), "policy.yaml: no rule is for owner b: add one, or publish with the owner in the subject")
	require.Error(t, noOne.Check(Request{}))
	everyOwner := parse(t, "{version: 1, rules: [{name: a, owners: ['*']}]}")
	require.NoError(t, everyOwner.Check(Request{Owner: "x"}))
	require.ErrorContains(t, everyOwner.Check(Request{}), "no rule is for jobs without a proven owner")
	require.Error(t, noOne.Guarded("b", "README.md"))
}

func TestGuarded(t *testing.T) {
	t.Parallel()
	p := parse(t, example)
	tests := []struct {
		path             string
		agent, plain, no bool // refused for an agent, for plain, without a file
	}{
		{"src/main.go", false, false, false},
		{".github/workflows/ci.yml", true, true, true},
		{".github/workflows/docs.yml", false, true, true},
		{".GitHub/Workflows/ci.yml", true, true, true},
		{"./.github/workflows/a/b.yml", true, true, true},
		{".github/CODEOWNERS", true, true, true},
		{"CODEOWNERS", true, true, true},
		{"docs/codeowners", true, true, true},
		{".gitmodules", true, true, true},
		{"a/.git/hooks/pre-push", true, true, true},
		{".husky/pre-commit", true, true, true},
		{"deploy/prod/x.yaml", true, false, false},
		{".github/ISSUE_TEMPLATE.md", false, false, false},
	}
	for _, tt := range tests {
		require.Equal(t, tt.agent, p.Guarded("agent-1", tt.path) != nil, tt.path)
		require.Equal(t, tt.plain, p.Guarded("plain", tt.path) != nil, tt.path)
		require.Equal(t, tt.no, Default().Guarded("", tt.path) != nil, tt.path)
	}
	require.ErrorContains(t, p.Guarded("bot", "deploy/x"), "policy.yaml:19")
	require.ErrorContains(t, Default().Guarded("", "CODEOWNERS"), "no policy file: changes of \"CODEOWNERS\" are not pushed")
}

func TestEgress(t *testing.T) {
	t.Parallel()
	p := parse(t, example)
	require.Equal(t, []string{"*.github.com", "pypi.org", "10.0.0.0/8", "2001:db8::/32"}, p.Egress("bot").Allow)
	require.False(t, p.Egress("nothing").Internet)
	require.Nil(t, p.Egress("plain"))
	require.Nil(t, Default().Egress("bot"))
}

// Faults are told all together, each with its line and what is wanted there.
func TestFaults(t *testing.T) {
	t.Parallel()
	rule := func(s string) string { return "version: 1\nrules:\n  - name: a\n    " + s + "\n" }
	tests := []struct{ name, text, want string }{
		{"empty", "", "policy.yaml:1: is empty"},
		{"no mapping", "[1]", "policy.yaml:1: want names and values"},
		{"nothing in it", "{}", "policy.yaml:1: version: is missing"},
		{"version", "version: 2\nrules: []", "policy.yaml:1: version: want 1"},
		{"not YAML", "version: 1\nrules: [", "cannot be read as YAML"},
		{"tab", "version: 1\n\trules: []", "policy.yaml:2: cannot be read as YAML"},
		{"two documents", "version: 1\nrules: []\n---\nversion: 1\n", "more than one document"},
		{"unknown field", rule("secret: [x]"), `policy.yaml:4: rules[0]: there is no field "secret": want argv, caps, egress`},
		{"twice", rule("shell: true\n    shell: false"), "policy.yaml:5: rules[0].shell: stands twice"},
		{"no name", "version: 1\nrules:\n  - shell: true", "policy.yaml:3: rules[0].name: is missing"},
		{"same name", "version: 1\nrules:\n  - {name: a, owners: [b]}\n  - {name: a}", "policy.yaml:4: rules[1].name: is the name of the rule in line 3 too"},
		{"never reached", "version: 1\nrules:\n  - name: a\n  - name: b", "policy.yaml:4: rules[1]: is never reached"},
		{"a word for a list", rule("owners: agent"), "policy.yaml:4: rules[0].owners: want a list"},
		{"null", rule("owners:"), "policy.yaml:4: rules[0].owners: want a list"},
		{"a number for a text", rule("owners: [7]"), "rules[0].owners[0]: want a text: put 7 in quotes"},
		{"owner", rule("owners: ['a b']"), `rules[0].owners[0]: "a b": want an owner`},
		{"kind", rule("kinds:\n      - task.run\n      - task.rnu"), `policy.yaml:6: rules[0].kinds[1]: "task.rnu": there is no such kind: want some of sandbox.provision`},
		{"secret", rule("secrets: [../x]"), "want the name of a secret"},
		{"flag", rule("shell: yes"), "rules[0].shell: want true or false"},
		{"argv without lines", rule("argv: {}"), "want allow, deny or both"},
		{"quotes in argv", rule(`argv: {deny: ["sh -c 'x'"]}`), "without quotes"},
		{"empty line of argv", rule(`argv: {deny: [" "]}`), "is empty"},
		{"destination", rule("egress: {allow: ['https://x.example']}"), "want a domain such as"},
		{"both egress", rule("egress: {internet: true, allow: [a.example]}"), "take one of them out"},
		{"path", rule("guarded_paths: {add: [/etc]}"), "want a path in the repository"},
		{"duration", rule("caps: {timeout: 90}"), "want a duration"},
		{"negative duration", rule("caps: {max_age: -1h}"), "want a duration"},
		{"attempts", rule("caps: {max_attempts: 0}"), "want a whole number from 1"},
		{"anchor", rule("owners: &x [a]"), "anchors and aliases are not taken"},
		{"alias", "version: 1\nrules:\n  - {name: a, owners: &x [a]}\n  - {name: b, owners: *x}", "policy.yaml:4: rules[1].owners: anchors"},
		{"merge", rule("<<: {shell: false}"), `there is no field "<<"`},
		{"tag", rule("owners: !!seq [a]"), "tags are not taken"},
		{"large", "version: 1\n#" + strings.Repeat("x", MaxFile), "at most 1048576 are taken"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := Parse("/etc/policy.yaml", []byte(tt.text), kinds)
			require.Nil(t, p)
			require.ErrorContains(t, err, tt.want)
			var f *Fault
			require.ErrorAs(t, err, &f)
			require.Positive(t, f.Line)
		})
	}
	_, err := Parse("p", []byte(rule("shell: 1\n    kinds: 2")), nil)
	require.Len(t, strings.Split(err.Error(), "\n"), 2)
	_, err = Parse("p", []byte("version: 1\nrules: [{name: a, owners: x}, {name: b}]"), nil)
	require.EqualError(t, err, "p:2: rules[0].owners: want a list, such as [one, two]; [] allows nothing", "one fault makes no second one")
	_, err = Parse("p.json", []byte(`{"version":1,"rules":[{"name":"a","shell":false}]}`), nil)
	require.NoError(t, err, "JSON is read as well")
}

// A change of the file holds from the next look on; a faulty one does not, and is
// told once.
func TestFileReload(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	put := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	_, err := Open(path, kinds, nil)
	require.EqualError(t, err, "policy file cannot be read: no such file or directory")
	put("version: 2")
	_, err = Open(path, kinds, nil)
	require.ErrorContains(t, err, "policy file policy.yaml:1: version: want 1")

	one, two := "version: 1\nrules: [{name: one}]", "version: 1\nrules: [{name: two}]"
	put(one)
	type word struct {
		rule string
		err  error
	}
	var told []word
	f, err := Open(path, kinds, func(p *Policy, err error) { told = append(told, word{p.Rules()[0].Name, err}) })
	require.NoError(t, err)
	holds := func(name string, n int) {
		t.Helper()
		for range 3 {
			require.Equal(t, name, f.Policy().Rules()[0].Name)
		}
		require.Len(t, told, n)
	}
	holds("one", 0)
	info, err := os.Stat(path)
	require.NoError(t, err)
	put(two) // as long, and within the same tick of the file system's clock
	require.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
	holds("two", 1)
	require.NoError(t, told[0].err)

	put("version: 1\nrules: [{nam: x}]")
	holds("two", 2)
	require.ErrorContains(t, told[1].err, `policy.yaml:2: rules[0]: there is no field "nam"`)
	put(two) // good again, though the same
	holds("two", 3)
	require.NoError(t, told[2].err)
	require.NoError(t, os.Remove(path))
	holds("two", 4)
	require.ErrorContains(t, told[3].err, "no such file")
	put(two)
	holds("two", 5)
	require.NoError(t, told[4].err)

	old := time.Now().Add(-time.Hour) // an old file is read once, and seen when it is replaced
	put(one)
	require.NoError(t, os.Chtimes(path, old, old))
	holds("one", 6)
	require.False(t, f.fresh)
	require.NoError(t, os.WriteFile(path+".next", []byte(two), 0o600))
	require.NoError(t, os.Chtimes(path+".next", old, old))
	require.NoError(t, os.Rename(path+".next", path))
	holds("two", 7)
}

// No file and no job makes it panic, and what is refused without a rule is never
// let through by an unreadable script.
func FuzzParse(f *testing.F) {
	f.Add(example, "git status; rm $X", "agent-1")
	f.Add(`{"version":1,"rules":[{"name":"a","argv":{"allow":["**"]}}]}`, "((((a) && b) || c)", "")
	f.Add("version: 1\nrules: [{name: a, owners: ['*'], shell: false}]", "x", "y")
	f.Fuzz(func(t *testing.T, file, script, owner string) {
		p, err := Parse("p", []byte(file), kinds)
		if err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				require.NotEmpty(t, line)
			}
			var fault *Fault
			require.ErrorAs(t, err, &fault)
			require.Nil(t, p)
			p = parse(t, example)
		}
		for _, q := range []Request{
			{Owner: owner, Shell: script},
			{Owner: owner, Argv: []string{"bash", "-c", script}},
			{Owner: owner, Argv: append(strings.Fields(script), "x")},
			{Owner: owner, Kind: script, Template: script, Repo: script},
			{Owner: owner, Network: &Network{AllowInternet: no(), AllowOut: []string{script}}},
		} {
			if err := p.Check(q); err != nil {
				var r *Refusal
				require.ErrorAs(t, err, &r)
				require.NotEmpty(t, r.Reason)
			}
		}
		_ = p.Guarded(owner, script)
	})
}

// The file that doc.go shows is one.
func TestDocumentedFile(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var text strings.Builder
	for line := range strings.Lines(string(doc)) {
		if rest, ok := strings.CutPrefix(line, "//\t"); ok {
			text.WriteString(rest)
		}
	}
	p := parse(t, text.String())
	require.Len(t, p.Rules(), 2)
	require.NoError(t, p.Check(Request{Owner: "agent-1", Kind: "task.run", Argv: []string{"npm", "test"}}))
	require.Error(t, p.Check(Request{Owner: "agent-1", Kind: "task.run", Argv: []string{"git", "push"}}))
}
