package schemas_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/schemas"
)

// One line says where the fault is and what is wanted instead.
func TestFaults(t *testing.T) {
	t.Parallel()
	const ok = `"session":"s1","argv":["true"]`
	long := strings.Repeat("x", 32769)
	tests := []struct {
		name, schema, doc string
		pointer, reason   string
	}{
		{"no argv, no shell", "jobs/task.run", `{}`, "", "give exactly one of argv and shell"},
		{"argv and shell", "jobs/task.run", `{"argv":["a"],"shell":"a"}`, "", "give exactly one of argv and shell"},
		{"not an object", "jobs/task.run", `["a"]`, "", "want an object"},
		{"null", "jobs/task.run", `null`, "", "want an object"},
		{"empty argv", "jobs/task.run", `{"argv":[]}`, "/argv", "want 1 to 1024 items"},
		{"long argv", "jobs/task.run", `{"argv":["a"` + strings.Repeat(`,"a"`, 1024) + `]}`, "/argv", "want 1 to 1024 items"},
		{"argv is no array", "jobs/task.run", `{"argv":"ls -l"}`, "/argv", "want an array"},
		{"empty command", "jobs/task.run", `{"argv":["","b"]}`, "/argv/0", "want a command of 1 to 32768 characters without NUL"},
		{"long argument", "jobs/task.run", `{"argv":["a","` + long + `"]}`, "/argv/1", "want a string of up to 32768 characters without NUL"},
		{"NUL in an argument", "jobs/task.run", `{"argv":["a","b\u0000"]}`, "/argv/1", "want a string of up to 32768 characters without NUL"},
		{"misspelt field", "jobs/task.run", `{` + ok + `,"tiemout":"5s"}`, "/tiemout", `unknown field; did you mean "timeout"?`},
		{"field of another style", "jobs/task.run", `{` + ok + `,"maxAttempts":2}`, "/maxAttempts", `unknown field; did you mean "max_attempts"?`},
		{"misspelt field that is missed", "jobs/file.upload", `{"session":"s1","pth":"/a","object":"o"}`, "/pth", `unknown field; did you mean "path"?`},
		{"misspelt field and a wrong value deeper", "jobs/task.run", `{"argv":[1],"tiemout":"5s"}`, "/tiemout", `unknown field; did you mean "timeout"?`},
		{"two wrong values", "jobs/task.run", `{"argv":[],"env":{"A":1}}`, "/env/A", "want a string of up to 32768 characters without NUL"},
		{"unknown field", "jobs/task.run", `{` + ok + `,"colour":"red"}`, "/colour", "unknown field"},
		{"unknown field deep inside", "jobs/task.run", `{` + ok + `,"repo":{"url":"https://a/b","commit":{"type":"fix","subject":"x","mesage":"y"}}}`, "/repo/commit/mesage", "unknown field"},
		{"other letter case", "jobs/task.run", `{"session":"s1","Argv":["a"]}`, "/Argv", `unknown field; did you mean "argv"?`},
		{"missing field", "jobs/sandbox.pause", `{}`, "", `missing field "session"`},
		{"missing fields", "jobs/file.upload", `{"session":"s1"}`, "", `missing fields "path" and "object"`},
		{"missing field inside", "jobs/git.clone", `{"session":"s1","repo":{}}`, "/repo", `missing field "url"`},
		{"bad session", "jobs/task.run", `{"argv":["a"],"session":"a b"}`, "/session", "want 1 to 64 of A-Z a-z 0-9 _ -"},
		{"empty session", "jobs/task.run", `{"argv":["a"],"session":""}`, "/session", "want 1 to 64 of A-Z a-z 0-9 _ -"},
		{"null session", "jobs/task.run", `{"argv":["a"],"session":null}`, "/session", "want 1 to 64 of A-Z a-z 0-9 _ -"},
		{"newline after an id", "jobs/task.run", `{"argv":["a"],"session":"s1\n"}`, "/session", "want 1 to 64 of A-Z a-z 0-9 _ -"},
		{"reserved id", "jobs/task.run", `{` + ok + `,"id":"session"}`, "/id", `want 1 to 64 of A-Z a-z 0-9 _ - that are not the reserved word "session"`},
		{"newer version", "jobs/task.run", `{` + ok + `,"v":2}`, "/v", "want 1"},
		{"duration as a number", "jobs/task.run", `{` + ok + `,"delay":90}`, "/delay", `want a Go duration such as "90s"`},
		{"duration without a unit", "jobs/task.run", `{` + ok + `,"delay":"90"}`, "/delay", `want a Go duration such as "90s"`},
		{"negative duration", "jobs/task.run", `{` + ok + `,"delay":"-90s"}`, "/delay", `want a Go duration such as "90s"`},
		{"duration past all clocks", "jobs/task.run", `{` + ok + `,"delay":"99999999h"}`, "/delay", `want a Go duration such as "90s"`},
		{"no time", "jobs/task.run", `{` + ok + `,"run_after":"tomorrow"}`, "/run_after", `want an RFC 3339 time such as "2026-01-02T15:04:05Z"`},
		{"time without a zone", "jobs/task.run", `{` + ok + `,"run_after":"2026-01-02T15:04:05"}`, "/run_after", `want an RFC 3339 time such as "2026-01-02T15:04:05Z"`},
		{"run_after and delay", "jobs/task.run", `{` + ok + `,"delay":"1s","run_after":"2026-01-02T15:04:05Z"}`, "", "give at most one of run_after and delay"},
		{"no attempts", "jobs/task.run", `{` + ok + `,"max_attempts":0}`, "/max_attempts", "want 1 to 100"},
		{"many attempts", "jobs/task.run", `{` + ok + `,"max_attempts":101}`, "/max_attempts", "want 1 to 100"},
		{"attempts as a string", "jobs/task.run", `{` + ok + `,"max_attempts":"3"}`, "/max_attempts", "want an integer"},
		{"half an attempt", "jobs/task.run", `{` + ok + `,"max_attempts":1.5}`, "/max_attempts", "want an integer"},
		{"integer that Go does not read", "jobs/task.run", `{` + ok + `,"max_attempts":1e1}`, "/max_attempts", "want an integer without fraction, exponent or empty sign"},
		{"number that nothing holds", "jobs/task.run", `{` + ok + `,"max_attempts":1e999999999}`, "/max_attempts", "number out of range"},
		{"number near nothing", "events/progress", `{"percent":1e-999999999}`, "/percent", "number out of range"},
		{"number of many digits", "jobs/task.run", `{` + ok + `,"max_attempts":` + strings.Repeat("9", 100) + `}`, "/max_attempts", "number out of range"},
		{"exit code 0", "jobs/task.run", `{` + ok + `,"retry_on_exit":[1,0]}`, "/retry_on_exit/1", "want 1 to 255"},
		{"variable name", "jobs/task.run", `{` + ok + `,"env":{"1A":"x"}}`, "/env/1A", "want a variable name of up to 256 of A-Z a-z 0-9 _ that does not begin with a digit"},
		{"variable value", "jobs/task.run", `{` + ok + `,"env":{"A":1}}`, "/env/A", "want a string of up to 32768 characters without NUL"},
		{"many labels", "jobs/task.run", `{` + ok + `,"labels":{` + manyFields(33) + `}}`, "/labels", "want at most 32 entries"},
		{"label name", "jobs/task.run", `{` + ok + `,"labels":{"a=b":"x"}}`, "/labels/a=b", "want a label name of 1 to 64 of A-Z a-z 0-9 _ . / -"},
		{"metadata of ours", "jobs/sandbox.provision", `{"session":"s1","metadata":{"Sandjet-session":"x"}}`, "/metadata/Sandjet-session", `want a name of 1 to 64 of A-Z a-z 0-9 _ . / - that does not begin with "sandjet-"`},
		{"mode", "jobs/file.upload", `{"session":"s1","path":"a","object":"o","mode":"rw"}`, "/mode", `want permission bits in octal such as "0644"`},
		{"empty path", "jobs/file.upload", `{"session":"s1","path":"","object":"o"}`, "/path", "want a path of 1 to 4096 characters without NUL"},
		{"NUL in a path", "jobs/file.upload", `{"session":"s1","path":"a\u0000","object":"o"}`, "/path", "want a path of 1 to 4096 characters without NUL"},
		{"long object name", "jobs/file.upload", `{"session":"s1","path":"a","object":"` + long + `"}`, "/object", "want an object name of 1 to 512 characters without control characters"},
		{"password in a URL", "jobs/git.clone", `{"session":"s1","repo":{"url":"https://u:p@host/r"}}`, "/repo/url", "want a repository URL without a user or password in it"},
		{"token in a URL", "jobs/git.clone", `{"session":"s1","repo":{"url":"https://token@host/r"}}`, "/repo/url", "want a repository URL without a user or password in it"},
		{"option for a branch", "jobs/git.clone", `{"session":"s1","repo":{"url":"https://h/r","ref":"--upload-pack=x"}}`, "/repo/ref", "want a git ref of 1 to 255 characters, which does not begin with a dash"},
		{"yes for true", "jobs/task.run", `{` + ok + `,"exclusive":"yes"}`, "/exclusive", "want true or false"},
		{"why", "events/waiting", `{"why":"tired"}`, "/why", `want one of "lane", "quota", "rate", "breaker", "remote", "delay", "transition" or "version"`},
		{"class of a success", "events/succeeded", `{"class":"internal","attempts":1,"duration_ms":1,"stdout_bytes":0,"stderr_bytes":0}`, "/class", `want "ok"`},
		{"class of a failure", "events/failed", `{"class":"ok","attempts":1,"duration_ms":1,"stdout_bytes":0,"stderr_bytes":0}`, "/class", `want a class of error, not "ok"`},
		{"unknown field of an outcome", "events/dead", `{"class":"x","exit":1}`, "/exit", "unknown field"},
		{"page size", "query/session.list.request", `{"limit":0}`, "/limit", "want 1 to 1000"},
		{"negative sequence", "query/dead.get.request", `{"seq":-1}`, "/seq", "want 1 to 18446744073709551615"},
		{"sequence past all streams", "query/dead.get.request", `{"seq":18446744073709551616}`, "/seq", "want 1 to 18446744073709551615"},
		{"slash and tilde in a name", "jobs/task.run", `{` + ok + `,"a/b~c":1}`, "/a~1b~0c", "unknown field"},
		{"line break in a name", "jobs/task.run", `{` + ok + `,"a\r\nNats-Msg-Id: x\u2028":1}`, `/a\r\nNats-Msg-Id: x\u2028`, "unknown field"},
		{"long name", "jobs/task.run", `{` + ok + `,"` + long + `":1}`, "/" + long[:100] + "…", "unknown field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := byName(t, tt.schema).Validate([]byte(tt.doc))
			var fault *schemas.Error
			require.ErrorAs(t, err, &fault)
			require.Equal(t, tt.pointer, fault.Pointer)
			require.Equal(t, tt.reason, fault.Reason)
			require.False(t, fault.Malformed)
			require.NotContains(t, err.Error(), "\n")
			// The same document gets the same answer, whatever order maps have.
			for range 5 {
				require.EqualError(t, byName(t, tt.schema).Validate([]byte(tt.doc)), err.Error())
			}
		})
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100_000)
	tests := []struct{ name, doc, want string }{
		{"empty", "", "empty: want a JSON object"},
		{"blank", " \r\n\t ", "empty: want a JSON object"},
		{"leading zero", `{"argv":["a"],"max_attempts":01}`, "malformed JSON at line 1 column 31: invalid character '1' after object key:value pair"},
		{"cut off", `{"argv":["a"`, "malformed JSON: it ends too early, at line 1 column 13"},
		{"bare word", "{\n  \"argv\": [a]\n}", "malformed JSON at line 2 column 12: invalid character 'a' looking for beginning of value"},
		{"trailing comma", `{"argv":["a"],}`, "malformed JSON at line 1 column 15: invalid character '}' looking for beginning of object key string"},
		{"second value", `{"argv":["a"]}` + "\n{}", "data after the end of the JSON value at line 2 column 1"},
		{"rest", `{"argv":["a"]}]`, "data after the end of the JSON value at line 1 column 15"},
		{"not UTF-8", "{\"argv\":[\"caf\xe9\"]}", "not UTF-8: line 1 column 14 holds a byte that no UTF-8 text has"},
		{"byte order mark", "\xef\xbb\xbf{}", "begins with a byte order mark: want plain JSON"},
		{"control character", "{\"argv\":[\"a\tb\"]}", `malformed JSON at line 1 column 12: invalid character '\t' in string literal`},
		{"bad escape", `{"argv":["\x41"]}`, `malformed JSON at line 1 column 12: invalid character 'x' in string escape code`},
		{"deep", deep, "nested too deeply, at line 1 column 10001"},
		{"deep inside", `{"argv":["a"],"env":` + deep, "nested too deeply, at line 1 column 10020"},
	}
	s, _ := schemas.Job("task.run")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := s.Validate([]byte(tt.doc))
			require.EqualError(t, err, tt.want)
			var fault *schemas.Error
			require.ErrorAs(t, err, &fault)
			require.True(t, fault.Malformed)
			require.Empty(t, fault.Pointer)
		})
	}
}

// What publishers may well send.
func TestTaken(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, schema, doc string }{
		{"blanks", "jobs/task.run", " {\r\n\t\"argv\" : [ \"a\" , \"\" ] }\n"},
		{"escapes", "jobs/task.run", `{"argv":["a","\u00e9\n\ud83d\ude00\\\""]}`},
		{"field twice", "jobs/task.run", `{"argv":["a"],"session":"a b","session":"s1"}`},
		{"escaped field", "jobs/task.run", `{"\u0061rgv":["a"]}`},
		{"characters, not bytes", "jobs/file.upload", `{"session":"s1","path":"a","object":"` + strings.Repeat("é", 512) + `"}`},
		{"long stdin", "jobs/task.run", `{"argv":["a"],"stdin":"` + strings.Repeat("x", 786432) + `"}`},
		{"micro sign", "jobs/task.run", `{"argv":["a"],"timeout":"1.5h30m10µs"}`},
		{"mode of three digits", "jobs/file.upload", `{"session":"s1","path":"a","object":"o","mode":"644"}`},
		{"ssh URL", "jobs/git.clone", `{"session":"s1","repo":{"url":"ssh://git@github.com:22/acme/app"}}`},
		{"largest sequence", "query/dead.get.request", `{"seq":18446744073709551615}`},
		{"exit code -1", "events/failed", `{"class":"command_failed","exit_code":-1,"attempts":1,"duration_ms":1,"stdout_bytes":0,"stderr_bytes":0}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, byName(t, tt.schema).Validate([]byte(tt.doc)))
		})
	}
}

// A fault says nothing of the values: they may be secret.
func TestFaultsQuoteNoValues(t *testing.T) {
	t.Parallel()
	s, _ := schemas.Job("task.run")
	for _, doc := range []string{
		`{"argv":["a"],"session":"hunter2 hunter2"}`,
		`{"argv":["a"],"delay":"hunter2"}`,
		`{"argv":["a"],"v":"hunter2"}`,
		`{"argv":["a"],"run_after":"hunter2"}`,
		`{"argv":["a"],"secrets":{"TOKEN":"hunter2 "}}`,
		`{"argv":["a"],"env":{"A":["hunter2"]}}`,
		`{"argv":["a"],"repo":{"url":"https://hunter2@h/"}}`,
		`{"argv":["a"],"stdin":"hunter2" "hunter2"}`,
	} {
		err := s.Validate([]byte(doc))
		require.Error(t, err, doc)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func manyFields(n int) string {
	var fields []string
	for i := range n {
		fields = append(fields, `"k`+strings.Repeat("x", i)+`":"v"`)
	}
	return strings.Join(fields, ",")
}
