package store

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/sandjet/sandjet/internal/wire"
)

// keys builds every key of the store, from the namespace's prefix. What stands
// in braces is the hash tag: keys with the same tag live on one cluster node,
// and only those may meet in a script.
//
//	sandjet:{<session>}:rec     string  "<seq> <record>"; destroyed ones expire
//	sandjet:{<session>}:lane    zset    exclusive job that waits -> origin sequence
//	sandjet:{<session>}:jobs    hash    job -> "<busy until> <hold until> <holder>"; "@" -> who has the turn
//	sandjet:{<session>}:pause   string  job that pauses the session; expires
//	sandjet:{<session>}:idle    string  for people: its TTL is the time to the pause
//	sandjet:{g}:due:<kind>      zset    session -> ms when it is due
//	sandjet:{g}:slots           zset    session -> ms when its lease ends
//	sandjet:{g}:slots:granted   zset    session that was given a slot -> ms until it must have come for it
//	sandjet:{g}:slots:owners    hash    session with a slot or a grant -> owner, "@" for none
//	sandjet:{g}:slots:held      hash    owner -> how many of them
//	sandjet:{g}:slots:calls     hash    session that was granted -> "<ms of the next call> <job> ..."
//	sandjet:{g}:slots:learned   string  "<slots that E2B allowed> <ms when it said so>"; expires
//	sandjet:{g}:slots:leaving   zset    session that is paused to make room -> ms when that is given up
//	sandjet:{g}:line            hash    session that waits for a slot -> "<ms> <owner> <job> ..."
//	sandjet:{g}:line:turns      zset    owner with somebody in line -> turn
//	sandjet:{g}:line:of:<owner> zset    session -> origin sequence of its job
//	sandjet:{g}:rate:<name>     string  µs of the theoretical arrival time; expires
//	sandjet:{g}:pause:<name>    string  how many were told to wait for the end of a pause; expires
//	sandjet:{g}:lease:<name>    string  "<token> <holder>"; expires
//	sandjet:{g}:unowned         hash    sandbox -> "<ms first seen without an owner> <how often in a row>"; expires
//	sandjet:{g}:generation      string  "<id> <ms of birth>", and " filled" once it is
//	sandjet:{g}:lanes           string  the filling by which the lanes are known
//	sandjet:{g}:tide:<durable>  hash    w, s -> consumer and stream sequence up to which all deliveries are marked
//	sandjet:{g}:early:<durable> zset    "<consumer seq>:<stream seq>" -> consumer sequence: marks behind a gap
//	sandjet:{u:<hash>}          string  "<session>/<job>" that holds a unique key of the jobs without an owner; expires
//	sandjet:{u:<owner>:<hash>}  string  the same of a proven owner's
//	sandjet:{jobs}:view         hash    "<session>/<job>" -> "<seq> <ms of put> <origin> <json>"
//	sandjet:{jobs}:order        zset    "<session>/<job>" -> origin sequence
//	sandjet:{jobs}:of:<session> zset    job -> origin sequence
type keys struct{ prefix string }

func newKeys(ns wire.Namespace) keys { return keys{ns.Key() + ":"} }

// ofSession is the keys of one session.
type ofSession struct{ rec, lane, jobs, pause, idle string }

// session builds the keys of a session, all in one string.
func (k keys) session(id string) ofSession {
	base := k.prefix + "{" + id + "}:"
	all := base + "rec" + base + "lane" + base + "jobs" + base + "pause" + base + "idle"
	cut := func(n int) (key string) {
		key, all = all[:len(base)+n], all[len(base)+n:]
		return key
	}
	return ofSession{rec: cut(3), lane: cut(4), jobs: cut(4), pause: cut(5), idle: cut(4)}
}

func (k keys) record(session string) string { return k.prefix + "{" + session + "}:rec" }

func (k keys) due(kind Deadline) string     { return k.prefix + "{g}:due:" + string(kind) }
func (k keys) slots() string                { return k.prefix + "{g}:slots" }
func (k keys) leaving() string              { return k.prefix + "{g}:slots:leaving" }
func (k keys) lineOf() string               { return k.prefix + "{g}:line:of:" }
func (k keys) rate(name string) string      { return k.prefix + "{g}:rate:" + name }
func (k keys) ratePause(name string) string { return k.prefix + "{g}:pause:" + name }
func (k keys) lease(name string) string     { return k.prefix + "{g}:lease:" + name }
func (k keys) unowned() string              { return k.prefix + "{g}:unowned" }
func (k keys) generation() string           { return k.prefix + "{g}:generation" }
func (k keys) lanes() string                { return k.prefix + "{g}:lanes" }
func (k keys) tide(durable string) string   { return k.prefix + "{g}:tide:" + durable }
func (k keys) early(durable string) string  { return k.prefix + "{g}:early:" + durable }
func (k keys) view() string                 { return k.prefix + "{jobs}:view" }
func (k keys) order() string                { return k.prefix + "{jobs}:order" }
func (k keys) jobsOf(session string) string { return k.prefix + "{jobs}:of:" + session }

// line is all that the scripts of slots and line work on, in the order of
// slots.lua.
func (k keys) line() []string {
	s, l := k.slots(), k.prefix+"{g}:line"
	return []string{s, s + ":granted", s + ":owners", s + ":held", l, l + ":turns", s + ":calls", s + ":learned", k.leaving()}
}

// unique hashes the caller's key: it may hold anything, at any length.
func (k keys) unique(owner, key string) string {
	sum := sha256.Sum256([]byte(key))
	if owner != "" {
		return k.prefix + "{u:" + owner + ":" + hex.EncodeToString(sum[:16]) + "}"
	}
	return k.prefix + "{u:" + hex.EncodeToString(sum[:16]) + "}"
}

// records is the pattern of all record keys, sessionOf the way back.
func (k keys) records() string { return k.prefix + "{*}:rec" }

func (k keys) sessionOf(recordKey string) string {
	s := strings.TrimPrefix(recordKey, k.prefix+"{")
	return strings.TrimSuffix(s, "}:rec")
}
