package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

func TestStatusLine(t *testing.T) {
	t.Parallel()
	start := time.Now()
	p := newProgress(start)
	require.Equal(t, "[0s] queued", p.Line(start))
	for _, tt := range []struct {
		kind    events.Kind
		payload any
		want    string
	}{
		{events.KindAccepted, events.Accepted{}, "accepted"},
		{events.KindWaiting, events.Waiting{Why: events.WaitLane, Ahead: 2}, "waiting for 2 earlier jobs of the session"},
		{events.KindWaiting, events.Waiting{Why: events.WaitQuota}, "waiting for a free sandbox"},
		{events.KindWaiting, events.Waiting{Why: "tide", Detail: "low"}, "waiting for tide: low"},
		{events.KindClaimed, events.Claimed{Worker: "w1", Attempt: 1}, "taken by w1"},
		{events.KindClaimed, events.Claimed{Worker: "w1", Attempt: 2}, "taken by w1, attempt 2"},
		{events.KindStarted, events.Started{SandboxID: "i1", Attempt: 1}, "running, sandbox i1"},
		{events.KindProgress, events.Progress{Percent: 42.4, Message: "linking"}, "42% linking"},
		{events.KindProgress, events.Progress{Message: "linking"}, "linking"},
		{events.KindStep, events.Step{Name: "clone", State: "begun"}, "clone begun"},
		{events.KindReattached, events.Reattached{Worker: "w2"}, "running, joined by w2"},
		{events.KindRetrying, events.Retrying{Class: "transport", Reason: "reset", Attempt: 1}, "attempt 1 failed (transport), next in 0s: reset"},
		{events.KindInterrupted, events.Interrupted{Reason: "deploy"}, "handed over: deploy"},
		{events.KindCancelRequested, events.CancelRequested{}, "cancelling"},
	} {
		data, err := json.Marshal(tt.payload)
		require.NoError(t, err)
		p.See(events.Event{Kind: tt.kind, Data: data})
		require.Equal(t, "[1m5s] "+tt.want, p.Line(start.Add(65*time.Second)))
	}
	before := p.Line(start)
	p.See(events.Event{Kind: events.Stdout, Data: []byte("x")})
	p.See(events.Event{Kind: events.KindProgress, Data: []byte("not JSON")})
	require.Equal(t, before, p.Line(start), "output and nonsense change nothing")
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                                     "0s",
		59*time.Second + 999*time.Millisecond: "59s",
		-3 * time.Second:                      "-3s",
		time.Minute:                           "1m",
		9*time.Minute + 59*time.Second:        "9m59s",
		10*time.Minute + 59*time.Second:       "10m",
		time.Hour:                             "1h",
		10 * time.Hour:                        "10h",
		3*time.Hour + 5*time.Minute:           "3h5m",
		47*time.Hour + 59*time.Minute:         "47h59m",
		6*24*time.Hour + 23*time.Hour:         "6d",
	} {
		require.Equal(t, want, short(d), "%s", d)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB", 5000 << 40: "5000.0 TiB"} {
		require.Equal(t, want, size(n))
	}
}
