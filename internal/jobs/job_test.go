package jobs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/wire"
)

var published = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func raw(subject, body string, header ...string) Raw {
	h := nats.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return Raw{Subject: subject, Data: []byte(body), Header: h, Stream: StreamJobs, StreamSeq: 42, Delivered: 1, Time: published}
}

// away holds the headers of a job that was put into a schedule.
func away(more ...string) []string {
	return append([]string{
		HeaderJob, "was", HeaderSession, "home", HeaderOrigin, "7", HeaderPublishedAt, "2026-02-28T10:00:00.5Z",
	}, more...)
}

func TestDecodeIdentity(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		m                  Raw
		id, session, owner string
		ephemeral, proven  bool
		origin             uint64
	}{
		"all from the body": {
			m:  raw("task.run", `{"id":"a","session":"s","owner":"o","argv":["x"]}`),
			id: "a", session: "s", owner: "o", origin: 42,
		},
		"id from Nats-Msg-Id": {
			m:  raw("task.run", `{"session":"s","argv":["x"]}`, "Nats-Msg-Id", "msg-1"),
			id: "msg-1", session: "s", origin: 42,
		},
		"body before Nats-Msg-Id": {
			m:  raw("task.run", `{"id":"a","session":"s","argv":["x"]}`, "Nats-Msg-Id", "not an id"),
			id: "a", session: "s", origin: 42,
		},
		"id from the sequence": {
			m:  raw("task.run", `{"session":"s","argv":["x"]}`),
			id: "j42", session: "s", origin: 42,
		},
		"a session of its own": {
			m:  raw("task.run", `{"id":"a","argv":["x"]}`),
			id: "a", session: "a", ephemeral: true, origin: 42,
		},
		"owner of the subject wins": {
			m:  raw("task.run.bob", `{"id":"a","session":"s","owner":"eve","argv":["x"]}`),
			id: "a", session: "s", owner: "bob", proven: true, origin: 42,
		},
		"back from a schedule": {
			m:  raw("again.high.task.run.bob", `{"session":"home","argv":["x"]}`, away()...),
			id: "was", session: "home", owner: "bob", proven: true, origin: 7,
		},
		"back from a schedule, ephemeral": {
			m:  raw("again.task.run", `{"owner":"o","argv":["x"]}`, away(HeaderSession, "was")...),
			id: "was", session: "was", owner: "o", ephemeral: true, origin: 7,
		},
		"back from a schedule, id in the body": {
			m:  raw("again.task.run", `{"id":"a","session":"s","argv":["x"]}`, away("Nats-Msg-Id", "other")...),
			id: "a", session: "s", origin: 7,
		},
		"our headers prove nothing elsewhere": {
			m:  raw("task.run", `{"session":"s","argv":["x"]}`, away()...),
			id: "j42", session: "s", origin: 42,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, err := Decode(tc.m, "")
			require.NoError(t, err)
			require.Equal(t, tc.id, j.ID)
			require.Equal(t, tc.session, j.Session)
			require.Equal(t, tc.owner, j.Owner)
			require.Equal(t, tc.ephemeral, j.Ephemeral)
			require.Equal(t, tc.proven, j.OwnerProven)
			require.Equal(t, tc.origin, j.Origin)
			require.Equal(t, tc.id, j.Payload.(*Run).ID, "the payload has them too")
			if tc.origin == 7 {
				require.True(t, j.Rescheduled)
				require.Equal(t, 2026, j.PublishedAt.Year())
				require.Equal(t, time.February, j.PublishedAt.Month())
				require.False(t, strings.HasPrefix(j.Subject, "again."))
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 40_000)
	manyArgs := `["a"` + strings.Repeat(`,"a"`, 9_999) + `]`
	for name, tc := range map[string]struct {
		m       Raw
		pointer string
		reason  string
		id      string // what the letter is filed under
		session string
	}{
		"malformed":                {m: raw("task.run", `{"argv":[`), reason: "malformed JSON", id: "j42"},
		"malformed, with a msg id": {m: raw("task.run", `{`, "Nats-Msg-Id", "m1"), reason: "malformed JSON", id: "m1"},
		"malformed, bad msg id":    {m: raw("task.run", `{`, "Nats-Msg-Id", "a b"), reason: "malformed JSON", id: "j42"},
		"malformed, back":          {m: raw("again.task.run", `{`, away()...), reason: "malformed JSON", id: "was", session: "home"},
		"empty":                    {m: raw("task.run", ""), reason: "empty", id: "j42"},
		"no object":                {m: raw("task.run", `["a"]`), id: "j42"},
		"null":                     {m: raw("task.run", `null`), id: "j42"},
		"two values":               {m: raw("task.run", `{"argv":["a"]}{}`), id: "j42"},
		"not UTF-8":                {m: raw("task.run", "{\"argv\":[\"\xff\xfe\"]}"), reason: "UTF-8", id: "j42"},
		"too large":                {m: raw("task.run", `{"argv":["a"],"stdin":"`+strings.Repeat("x", MaxBody)+`"}`), reason: "1048576", id: "j42"},
		"unknown field":            {m: raw("task.run", `{"id":"a","session":"s","argv":["a"],"agrv":["b"]}`), pointer: "/agrv", id: "a", session: "s"},
		"field in capitals":        {m: raw("task.run", `{"argv":["a"],"ID":"x"}`), pointer: "/ID", id: "j42"},
		"unknown kind":             {m: raw("task.fly", `{"id":"a"}`), reason: `no kind "task.fly"`, id: "a"},
		"no kind":                  {m: raw("task", `{"id":"a"}`), reason: "no kind", id: "a"},
		"other namespace":          {m: raw("prod.task.run", `{"id":"a"}`), id: "a"},
		"owner is no id":           {m: raw("task.run.a.b", echo), reason: "owner in the subject", id: "j42", session: "s1"},
		"bad id":                   {m: raw("task.run", `{"id":"a b","argv":["a"]}`), pointer: "/id", id: "j42"},
		"long id":                  {m: raw("task.run", `{"id":"`+strings.Repeat("i", 65)+`","argv":["a"]}`), pointer: "/id", id: "j42"},
		"reserved id":              {m: raw("task.run", `{"id":"session","argv":["a"]}`), pointer: "/id", reason: "session", id: "j42"},
		"reserved msg id":          {m: raw("task.run", `{"argv":["a"]}`, "Nats-Msg-Id", "session"), pointer: "/id", reason: "reserved", id: "j42"},
		"msg id is no id":          {m: raw("task.run", `{"argv":["a"]}`, "Nats-Msg-Id", "a.b"), reason: "Nats-Msg-Id", id: "j42"},
		"bad session":              {m: raw("task.run", `{"id":"a","session":"*","argv":["a"]}`), pointer: "/session", id: "a"},
		"no session":               {m: raw("sandbox.pause", `{"id":"a"}`), reason: "session", id: "a"},
		"negative duration":        {m: raw("task.run", `{"id":"a","argv":["a"],"timeout":"-5s"}`), pointer: "/timeout", id: "a"},
		"duration without unit":    {m: raw("task.run", `{"id":"a","argv":["a"],"timeout":5}`), pointer: "/timeout", id: "a"},
		"no timeout at all":        {m: raw("task.run", `{"id":"a","argv":["a"],"timeout":"0s"}`), pointer: "/timeout", reason: "want 1ms to 24h", id: "a"},
		"timeout of a week":        {m: raw("task.run", `{"id":"a","argv":["a"],"timeout":"168h"}`), pointer: "/timeout", reason: "want 1ms to 24h", id: "a"},
		"silence of a week":        {m: raw("task.run", `{"id":"a","argv":["a"],"silent_timeout":"168h"}`), pointer: "/silent_timeout", id: "a"},
		"idle for 1ms":             {m: raw("sandbox.provision", `{"session":"s","idle_timeout":"1ms"}`), pointer: "/idle_timeout", reason: "want 1s to 24h", id: "j42", session: "s"},
		"age of a second":          {m: raw("sandbox.provision", `{"session":"s","max_age":"1s"}`), pointer: "/max_age", reason: "want 1m to 8760h", id: "j42", session: "s"},
		"expires at once":          {m: raw("task.run", `{"id":"a","argv":["a"],"expires_in":"0s"}`), pointer: "/expires_in", id: "a"},
		"delay of ages":            {m: raw("task.run", `{"id":"a","argv":["a"],"delay":"100000h"}`), pointer: "/delay", id: "a"},
		"run_after in 2999":        {m: raw("task.run", `{"id":"a","argv":["a"],"run_after":"2999-01-01T00:00:00Z"}`), pointer: "/run_after", id: "a"},
		"run_after and delay":      {m: raw("task.run", `{"id":"a","argv":["a"],"delay":"1s","run_after":"2026-03-01T12:00:00Z"}`), id: "a"},
		"no command":               {m: raw("task.run", `{"id":"a","argv":[]}`), pointer: "/argv", id: "a"},
		"neither argv nor shell":   {m: raw("task.run", `{"id":"a"}`), id: "a"},
		"argv and shell":           {m: raw("task.run", `{"id":"a","argv":["a"],"shell":"a"}`), id: "a"},
		"10,000 arguments":         {m: raw("task.run", `{"id":"a","argv":`+manyArgs+`}`), pointer: "/argv", id: "a"},
		"an argument too long":     {m: raw("task.run", `{"id":"a","argv":["a","`+long+`"]}`), pointer: "/argv/1", id: "a"},
		"NUL in argv":              {m: raw("task.run", `{"id":"a","argv":["a","b\u0000c"]}`), pointer: "/argv/1", id: "a"},
		"NUL in env":               {m: raw("task.run", `{"id":"a","argv":["a"],"env":{"K":"\u0000"}}`), pointer: "/env/K", id: "a"},
		"NUL in cwd":               {m: raw("task.run", `{"id":"a","argv":["a"],"cwd":"/a\u0000"}`), pointer: "/cwd", id: "a"},
		"NUL in path":              {m: raw("file.upload", `{"session":"s","path":"/a\u0000b","object":"o"}`), pointer: "/path", id: "j42", session: "s"},
		"path out of home":         {m: raw("file.upload", `{"session":"s","path":"a/../../b","object":"o"}`), pointer: "/path", reason: "home", id: "j42", session: "s"},
		"path is the parent":       {m: raw("file.download", `{"session":"s","path":"..","object":"o"}`), pointer: "/path", id: "j42", session: "s"},
		"path is a folder":         {m: raw("file.upload", `{"session":"s","path":"a/","object":"o"}`), pointer: "/path", reason: "folder", id: "j42", session: "s"},
		"path is home":             {m: raw("file.upload", `{"session":"s","path":"a/..","object":"o"}`), pointer: "/path", reason: "folder", id: "j42", session: "s"},
		"no object named":          {m: raw("file.upload", `{"session":"s","path":"a"}`), id: "j42", session: "s"},
		"repo":                     {m: raw("task.run", `{"id":"a","argv":["a"],"repo":{"url":"file:///r"}}`), pointer: "/repo/url", reason: "want https://", id: "a"},
		"push without a message":   {m: raw("task.run", `{"id":"a","argv":["a"],"repo":{"url":"https://e.org/r","push":true}}`), pointer: "/repo/commit", reason: "commit message", id: "a"},
		"mode without a push":      {m: raw("task.run", `{"id":"a","argv":["a"],"repo":{"url":"https://e.org/r","push_mode":"host"}}`), pointer: "/repo/push_mode", id: "a"},
		"git":                      {m: raw("git.clone", `{"session":"s","repo":{"url":"https://e.org/r","branch":"a..b"}}`), pointer: "/repo/branch", id: "j42", session: "s"},
		"version in words":         {m: raw("task.run", `{"id":"a","argv":["a"],"v":"2"}`), pointer: "/v", id: "a"},
		"negative version":         {m: raw("task.run", `{"id":"a","argv":["a"],"v":-1}`), pointer: "/v", id: "a"},
		"forged schedule, no id":   {m: raw("again.task.run", `{"argv":["a"]}`), reason: HeaderJob, id: "j42"},
		"forged schedule":          {m: raw("again.task.run", `{"id":"a","argv":["a"]}`), reason: HeaderOrigin, id: "a"},
		"schedule without a time":  {m: raw("again.task.run", `{"id":"a","argv":["a"]}`, HeaderOrigin, "3"), reason: HeaderPublishedAt, id: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, err := Decode(tc.m, "")
			var bad *Invalid
			require.ErrorAs(t, err, &bad)
			require.Equal(t, ClassInvalid, bad.Class)
			require.Equal(t, tc.pointer, bad.Pointer, bad.Reason)
			require.Contains(t, bad.Reason, tc.reason)
			require.Less(t, len(bad.Error()), 400)
			require.Nil(t, j.Payload)
			require.Equal(t, tc.id, j.ID)
			if tc.session == "" {
				tc.session = tc.id
			}
			require.Equal(t, tc.session, j.Session)
			require.Equal(t, tc.m.Data, j.Body)
		})
	}
}

func TestDecodeVersions(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"v":2,"id":"a","session":"s","argv":["a"]}`:         2,
		`{"v":7,"id":"a","session":"s","brandnew":{"x":[1]}}`: 7,
		`{"v":2,"argv":3,"id":"a","session":"s"}`:             2,
	} {
		j, err := Decode(raw("task.run.bob", body), "")
		var newer *NewerVersion
		require.ErrorAs(t, err, &newer, body)
		require.Equal(t, want, newer.V)
		require.Equal(t, "a", j.ID)
		require.Equal(t, "s", j.Session)
		require.Equal(t, "bob", j.Owner)
	}
	_, err := Decode(raw("task.fly", `{"v":2}`), "")
	require.ErrorAs(t, err, new(*NewerVersion), "a kind of a newer version")
	for _, body := range []string{
		`{"argv":["a"]}`, `{"v":1,"argv":["a"]}`, `{"v":0,"argv":["a"]}`,
	} {
		j, err := Decode(raw("task.run", body), "")
		require.NoError(t, err, body)
		require.Equal(t, []byte(body), j.Body)
	}
	_, err = Decode(raw("task.run", `{"v":0,"argv":3}`), "")
	require.ErrorContains(t, err, "/argv")
}

func TestDecodeTakes(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Raw{
		"provision":        raw("sandbox.provision", `{"session":"s","template":"base","idle_timeout":"1s","max_age":"24h","env":{"A":"b"},"ephemeral":true}`),
		"resume":           raw("low.sandbox.resume", `{"session":"s","reason":"r"}`),
		"destroy":          raw("sandbox.destroy.bob", `{"session":"s"}`),
		"shell":            raw("task.run", `{"shell":"echo $HOME","stdin":"\u0000","retry_on_exit":[75],"labels":{"a":"b"}}`),
		"1,000 arguments":  raw("task.run", `{"argv":["a"`+strings.Repeat(`,"a"`, 999)+`]}`),
		"empty argument":   raw("task.run", `{"argv":["a",""]}`),
		"absolute path":    raw("file.upload", `{"session":"s","path":"/etc/../opt/x","object":"o","mode":"0755"}`),
		"path within home": raw("file.download", `{"session":"s","path":"a/../b..c","object":"o"}`),
		"zero delay":       raw("task.run", `{"argv":["a"],"delay":"0s"}`),
		"word in a value":  raw("task.run", `{"argv":["a"],"env":{"timeout":"0"},"labels":{"timeout":"0s"}}`),
		"white space":      raw("task.run", " \n{ \"argv\" : [ \"a\" ] }\n"),
		"empty secrets":    raw("task.run", `{"argv":["a"],"secrets":{}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, err := Decode(m, "")
			require.NoError(t, err)
			require.NotNil(t, j.Payload)
		})
	}
}

func TestJobTimes(t *testing.T) {
	t.Parallel()
	decode := func(fields string) *Job {
		j, err := Decode(raw("task.run", `{"argv":["a"]`+fields+`}`), "")
		require.NoError(t, err)
		return j
	}
	j := decode("")
	require.True(t, j.Exclusive())
	require.Equal(t, DefaultMaxAttempts, j.MaxAttempts())
	require.Equal(t, DefaultTimeout, j.Timeout())
	require.True(t, j.NotBefore().IsZero())
	require.True(t, j.ExpiresAt().IsZero())
	require.False(t, j.Expired(published.Add(100*year)))

	j = decode(`,"exclusive":false,"max_attempts":5,"timeout":"90s"`)
	require.False(t, j.Exclusive())
	require.Equal(t, 5, j.MaxAttempts())
	require.Equal(t, 90*time.Second, j.Timeout())

	j = decode(`,"delay":"10m","expires_in":"5m"`)
	require.Equal(t, published.Add(10*time.Minute), j.NotBefore())
	require.False(t, j.Expired(published.Add(15*time.Minute-1)), "its delay is no wait")
	require.True(t, j.Expired(published.Add(15*time.Minute)))

	j = decode(`,"run_after":"2026-03-01T13:00:00+01:00","expires_in":"1m"`)
	require.True(t, j.NotBefore().Equal(published))
	require.Equal(t, published.Add(time.Minute), j.ExpiresAt())
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	for _, ns := range []wire.Namespace{"", "staging"} {
		for _, k := range Kinds() {
			for _, p := range []Priority{Low, Normal, High} {
				for _, owner := range []string{"", "agent-7", "high", "run"} {
					a := Address{Kind: k, Priority: p, Owner: owner}
					got, again, err := ParseSubject(ns, a.Subject(ns))
					require.NoError(t, err)
					require.False(t, again)
					require.Equal(t, a, got)

					got, again, err = ParseSubject(ns, againSubject(ns, a.Subject(ns)))
					require.NoError(t, err)
					require.True(t, again)
					require.Equal(t, a, got)
					require.Equal(t, a.Subject(ns), homeSubject(ns, againSubject(ns, a.Subject(ns))))
				}
			}
		}
	}
	require.Equal(t, "staging.high.task.run.bob", Address{TaskRun, High, "bob"}.Subject("staging"))
	for _, s := range []string{"", "task", "high.task", "task.run.", "task..bob", "task.run.a.b", "task.run.ö"} {
		_, _, err := ParseSubject("", s)
		require.Error(t, err, s)
	}
	for _, s := range []string{"", "normal", "high", "low"} {
		_, err := ParsePriority(s)
		require.NoError(t, err)
	}
	_, err := ParsePriority("urgent")
	require.ErrorContains(t, err, "want high, normal or low")
}

func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		echo, `{`, `null`, `{"v":2}`, `{"v":0,"argv":["a"]}`, "\xff", `{"id":"session"}`,
		`{"argv":["a"],"timeout":"0s","delay":"1s","expires_in":"1h"}`,
		`{"session":"s","path":"a/../..","object":"o"}`,
	} {
		f.Add("task.run", body, "", "")
		f.Add("again.high.file.upload.bob", body, "msg", "was")
	}
	f.Fuzz(func(t *testing.T, subject, body, msgID, was string) {
		m := raw(subject, body, away("Nats-Msg-Id", msgID, HeaderJob, was)...)
		j, err := Decode(m, "")
		if !wire.ValidID(j.ID) || !wire.ValidID(j.Session) || j.ID == wire.ReservedJob {
			t.Fatalf("job %q of session %q cannot stand in a subject", j.ID, j.Session)
		}
		if (err == nil) != (j.Payload != nil) {
			t.Fatalf("payload %v, error %v", j.Payload, err)
		}
		if err != nil {
			var invalid *Invalid
			var newer *NewerVersion
			if !errors.As(err, &invalid) && !errors.As(err, &newer) {
				t.Fatalf("error of type %T", err)
			}
			return
		}
		if j.Owner != "" && !wire.ValidID(j.Owner) {
			t.Fatalf("owner %q", j.Owner)
		}
		// A job that goes through a schedule is the same job.
		h := nats.Header{}
		h.Set(HeaderJob, j.ID)
		h.Set(HeaderSession, j.Session)
		h.Set(HeaderOrigin, fmt.Sprint(j.Origin))
		h.Set(HeaderPublishedAt, j.PublishedAt.Format(time.RFC3339Nano))
		k, err := Decode(Raw{Subject: againSubject("", j.Subject), Header: h, Data: j.Body, Stream: StreamSchedules, StreamSeq: 9}, "")
		if err != nil {
			t.Fatalf("after a schedule: %v", err)
		}
		if k.ID != j.ID || k.Session != j.Session || k.Owner != j.Owner || k.OwnerProven != j.OwnerProven ||
			k.Origin != j.Origin || k.Priority != j.Priority || k.Subject != j.Subject || k.Ephemeral != j.Ephemeral ||
			!k.PublishedAt.Equal(j.PublishedAt) {
			t.Fatalf("after a schedule: got %+v want %+v", k, j)
		}
	})
}
