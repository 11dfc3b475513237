package store

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/session"
)

// hashSlot is what Redis Cluster computes: CRC16 (XMODEM) of what stands in the
// first braces, or of the whole key.
func hashSlot(key string) uint16 {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if n := strings.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1 : i+1+n]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}

func TestHashSlot(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 12739, hashSlot("123456789"))
	require.Equal(t, hashSlot("user1000"), hashSlot("{user1000}.following"))
	require.NotEqual(t, hashSlot("a{}b"), hashSlot("c{}d"))
}

// TestKeysShareASlot makes every call once and looks at what was sent: the keys
// of one command lie in one slot, and there is no transaction.
func TestKeysShareASlot(t *testing.T) {
	t.Parallel()
	s := open(t, sharedURL(t, onMini))
	sp := &spy{}
	s.client.AddHook(sp)
	everything(t, s)

	ran := map[string]bool{}
	for _, cmd := range sp.seen {
		keys := keysOf(cmd)
		for _, k := range keys {
			require.True(t, strings.HasPrefix(k, s.keys.prefix), "%s is not in the namespace", k)
			require.Equal(t, hashSlot(keys[0]), hashSlot(k), "%v", cmd.Args())
		}
		require.NotContains(t, []string{"multi", "exec", "mget", "mset"}, cmd.Name())
		if cmd.Name() == "evalsha" {
			ran[word(cmd.Args()[1])] = true
		}
	}
	for _, sc := range scripts {
		require.True(t, ran[sc.sha], "script %s is not covered", sc.name)
	}
}

func keysOf(cmd redis.Cmder) []string {
	args := cmd.Args()
	text := func(args []any) []string {
		var keys []string
		for _, a := range args {
			keys = append(keys, word(a))
		}
		return keys
	}
	switch cmd.Name() {
	case "evalsha", "eval":
		return text(args[3 : 3+args[2].(int)])
	case "del", "exists":
		return text(args[1:])
	case "ping", "scan", "script", "info":
		return nil
	}
	return text(args[1:2])
}

func word(arg any) string {
	if s, ok := arg.(*string); ok {
		return *s
	}
	return fmt.Sprint(arg)
}

// everything makes each call of the store once.
func everything(t *testing.T, s *Store) {
	ctx := t.Context()
	e := job("s", "j", 1)
	ok := func(err error) { t.Helper(); require.NoError(t, err) }
	enter(t, s, e, long)
	ok(s.Renew(ctx, []Entry{e, job("s2", "j", 2)}, long))
	_, err := s.Park(ctx, e, time.Minute)
	ok(err)
	_, err = s.Depart(ctx, e, time.Minute)
	ok(err)
	_, err = s.Place(ctx, Place{Session: "s", Job: "p", Origin: 3}, Place{Session: "s2", Job: "p", Origin: 4, Away: true})
	ok(err)
	_, err = s.Mark(ctx, "worker", Mark{2, 2}, Mark{1, 1})
	ok(err)
	ok(s.MarkUpto(ctx, "worker", Mark{9, 9}))
	filling, _, err := s.BeginLanes(ctx, "me", long)
	ok(err)
	_, err = s.EndLanes(ctx, filling, "me")
	ok(err)
	_, err = s.Leave(ctx, e, time.Minute)
	ok(err)
	_, _, err = s.Busy(ctx, "s")
	ok(err)
	_, err = s.BeginPause(ctx, e, time.Minute, true)
	ok(err)
	ok(s.EndPause(ctx, e))
	ok(s.PutSession(ctx, session.Record{Session: "s"}, 1))
	_, _, err = s.Session(ctx, "s")
	ok(err)
	_, _, err = s.Sessions(ctx, Filter{}, "", 10)
	ok(err)
	ok(s.SetDeadline(ctx, Idle, "s", -time.Hour))
	ok(s.SetDeadline(ctx, Stale, "s", -time.Hour))
	due, err := s.ClaimDue(ctx, Stale, 1, long)
	ok(err)
	ok(s.Done(ctx, Stale, due[0]))
	ok(s.ClearDeadline(ctx, Idle, "s"))
	_, err = s.Next(ctx, Idle, 10)
	ok(err)
	ok(s.DropSession(ctx, "s"))
	ask := SlotAsk{Session: "s", Job: "j"}
	_, err = s.TakeSlot(ctx, ask, long)
	ok(err)
	_, err = s.RefuseSlot(ctx, ask, long)
	ok(err)
	_, err = s.QuitLine(ctx, "s", "j")
	ok(err)
	ok(s.KeepSlots(ctx, SlotOf{Session: "s"}))
	_, _, err = s.SweepSlots(ctx, time.Millisecond, 10)
	ok(err)
	_, err = s.SlotWants(ctx)
	ok(err)
	_, err = s.MarkLeaving(ctx, "s", long)
	ok(err)
	ok(s.UnmarkLeaving(ctx, "s"))
	_, err = s.Slots(ctx)
	ok(err)
	_, err = s.ReleaseSlot(ctx, "s")
	ok(err)
	_, err = s.TakeRate(ctx, "r", "p", 1, 1)
	ok(err)
	ok(s.PauseRate(ctx, "p", time.Minute))
	_, _, err = s.Lease(ctx, "l", "me", long)
	ok(err)
	ok(s.ReleaseLease(ctx, "l", "me"))
	_, err = s.Sight(ctx, "i1")
	ok(err)
	_, err = s.Sightings(ctx, "i1")
	ok(err)
	_, _, err = s.Unique(ctx, "o", "k", "s", "j", long)
	ok(err)
	ok(s.ReleaseUnique(ctx, "o", "k", "s", "j"))
	ok(s.PutJob(ctx, JobView{Session: "s", Job: "j"}))
	_, err = s.Job(ctx, "s", "j")
	ok(err)
	_, _, err = s.Jobs(ctx, JobFilter{Session: "s"}, "", 10)
	ok(err)
	_, _, err = s.Jobs(ctx, JobFilter{}, "", 10)
	ok(err)
	_, err = s.FindJob(ctx, "j")
	ok(err)
	g, err := s.Generation(ctx)
	ok(err)
	_, err = s.MarkFilled(ctx, g.ID)
	ok(err)
	ok(s.FillSessions(ctx, []Stated{{session.Record{Session: "s", State: session.Paused}, 1}}, clocksOf))
	ok(s.dropClocks(ctx, "s", 1, Clocks{}))
}

// TestScriptsNameTheirKeys reads the Lua: a script touches KEYS, or names made
// from them, and each says what it takes and gives.
func TestScriptsNameTheirKeys(t *testing.T) {
	t.Parallel()
	call := regexp.MustCompile(`redis\.call\('([A-Z]+)'(?:, ([^,)]+))?`)
	files, err := os.ReadDir("lua")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile("lua/" + f.Name())
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "-- "+f.Name()), f.Name())
		if f.Name() != "lane.lua" && f.Name() != "slots.lua" {
			require.Contains(t, string(text), "\n-- Result: ", f.Name())
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			switch key := m[2]; {
			case m[1] == "TIME", strings.HasPrefix(key, "KEYS["), key == "lane", key == "jobs", key == "key":
			case strings.HasPrefix(f.Name(), "slot") && slices.Contains(slotKeys, key): // said in the head of slots.lua
			case f.Name() == "job_put.lua" && strings.HasPrefix(key, "ARGV[9] .."): // said in its head; same tag
			default:
				t.Errorf("%s: %s of %s", f.Name(), m[1], key)
			}
		}
	}
}

// slotKeys are the names that slots.lua gives to its keys.
var slotKeys = []string{
	"slots", "granted", "ownerOf", "held", "line", "turns", "calls", "learned", "leaving", "of .. owner", "of .. other",
}

func TestKeysAreTheNamespaces(t *testing.T) {
	t.Parallel()
	require.Equal(t, "sandjet:{s}:idle", newKeys("").session("s").idle)
	require.Equal(t, ofSession{
		rec: "sandjet:{s}:rec", lane: "sandjet:{s}:lane", jobs: "sandjet:{s}:jobs", pause: "sandjet:{s}:pause", idle: "sandjet:{s}:idle",
	}, newKeys("").session("s"))
	require.Equal(t, "staging:sandjet:{s}:rec", newKeys("staging").record("s"))
	require.Equal(t, "s", newKeys("staging").sessionOf("staging:sandjet:{s}:rec"))
	require.NotEqual(t, newKeys("").unique("", "a"), newKeys("").unique("", "b"))
	require.NotEqual(t, newKeys("").unique("o", "a"), newKeys("").unique("o", "b"))
	require.NotEqual(t, newKeys("").unique("o", "a"), newKeys("").unique("p", "a"))
	require.NotEqual(t, newKeys("").unique("o", "a"), newKeys("").unique("", "a"))
}
