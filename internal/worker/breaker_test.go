package worker

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
)

func testBreakers() *breakers {
	return newBreakers(slog.New(slog.DiscardHandler), newMetrics(prometheus.NewRegistry()))
}

// call makes one call that ends with err, and reports whether it went out.
func (b *breakers) try(class e2b.Class, sandbox string, err error) bool {
	done, _ := b.admit(class, sandbox)
	if done != nil {
		done(err)
	}
	return done != nil
}

var errDown = &e2b.Error{Op: "create", Kind: e2b.ErrUnavailable, Status: 503}

// What trips a class and what does not: refusals, quotas and rate limits show that
// E2B answers, and our own ends say nothing.
func TestWhatTripsABreaker(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err   error
		trips bool
	}{
		"503":                {errDown, true},
		"no answer":          {&e2b.Error{Kind: e2b.ErrUnavailable}, true},
		"stalled":            {&e2b.Error{Kind: e2b.ErrStalled}, true},
		"502":                {&e2b.Error{Kind: e2b.ErrUnavailable, Status: 502}, true},
		"400":                {&e2b.Error{Kind: e2b.ErrInvalid, Status: 400}, false},
		"401":                {&e2b.Error{Kind: e2b.ErrUnauthorized, Status: 401}, false},
		"403":                {&e2b.Error{Kind: e2b.ErrForbidden, Status: 403}, false},
		"404":                {&e2b.Error{Kind: e2b.ErrNotFound, Status: 404}, false},
		"409":                {&e2b.Error{Kind: e2b.ErrConflict, Status: 409}, false},
		"quota":              {&e2b.Error{Kind: e2b.ErrQuota, Status: 429}, false},
		"rate":               {&e2b.Error{Kind: e2b.ErrRateLimited, Status: 429}, false},
		"page of a proxy":    {&e2b.Error{Kind: e2b.ErrBadAnswer, Status: 404}, false},
		"given up by caller": {&e2b.Error{Err: context.Canceled}, false},
		"success":            {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testBreakers()
			for range 3 * tripAfter {
				b.try(e2b.ClassStart, "", tc.err)
			}
			require.Equal(t, !tc.trips, b.try(e2b.ClassStart, "", nil))
			require.True(t, b.try(e2b.ClassControl, "", nil), "another class")
		})
	}
}

// One sick sandbox is no outage; two are, unless another one answers between.
func TestSickSandboxTripsNothing(t *testing.T) {
	t.Parallel()
	down := &e2b.Error{Kind: e2b.ErrUnavailable}
	b := testBreakers()
	for range 3 * tripAfter {
		require.True(t, b.try(e2b.ClassData, "a", down))
	}
	require.True(t, b.try(e2b.ClassData, "b", nil))
	for range tripAfter - 1 {
		require.True(t, b.try(e2b.ClassData, "a", down))
	}
	require.True(t, b.try(e2b.ClassData, "c", down))
	require.False(t, b.try(e2b.ClassData, "b", nil))

	b = testBreakers()
	for range 3 * tripAfter { // E2B's own word on each sandbox
		require.True(t, b.try(e2b.ClassData, "a", &e2b.Error{Kind: e2b.ErrSandboxGone, Status: 502}))
		require.True(t, b.try(e2b.ClassData, "b", &e2b.Error{Kind: e2b.ErrUnavailable, Status: 502}))
	}
}

// While a class is held back one call at a time may try, after each rest; its
// success lets all through again, its failure none.
func TestBreakerProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := testBreakers()
		for range tripAfter {
			require.Zero(t, b.wait(e2b.ClassStart))
			require.True(t, b.try(e2b.ClassStart, "", errDown))
		}
		for range 3 {
			require.False(t, b.try(e2b.ClassStart, "", nil))
			require.Equal(t, breakerRest, b.wait(e2b.ClassStart))
			require.Equal(t, "open", b.states()["start"])
			err := b.heldBack(e2b.ClassStart)
			require.ErrorIs(t, err, e2b.ErrHeldBack)
			v := classify(err)
			require.Equal(t, "unavailable", string(v.class))
			require.Equal(t, breakerRest, v.after)

			time.Sleep(breakerRest + time.Millisecond)
			require.NoError(t, b.heldBack(e2b.ClassStart))
			probe, _ := b.admit(e2b.ClassStart, "")
			require.NotNil(t, probe)
			require.False(t, b.try(e2b.ClassStart, "", nil), "a second one beside the probe")
			require.Equal(t, probeRest, b.wait(e2b.ClassStart))
			probe(errDown)
		}
		time.Sleep(breakerRest + time.Millisecond)
		probe, _ := b.admit(e2b.ClassStart, "")
		probe(&e2b.Error{Err: context.Canceled})
		require.True(t, b.try(e2b.ClassStart, "", nil), "a probe that was given up says nothing")
		require.Equal(t, "closed", b.states()["start"])
		require.True(t, b.try(e2b.ClassStart, "", nil))
	})
}

// A call that is held back is told apart, and was not sent.
func TestHeldBackIsNoUnavailable(t *testing.T) {
	t.Parallel()
	client, err := e2b.New(e2b.Config{
		APIKey: func() (string, error) { return "e2b_x", nil }, APIURL: "http://127.0.0.1:1", SandboxURL: "http://127.0.0.1:1",
		Admit: func(class e2b.Class, sandbox string) (func(error), time.Duration) {
			require.Contains(t, []e2b.Class{e2b.ClassStart, e2b.ClassControl, e2b.ClassData}, class)
			return nil, 3 * time.Second
		},
	})
	require.NoError(t, err)
	_, created := client.Create(t.Context(), e2b.CreateRequest{TemplateID: "base"})
	_, got := client.Get(t.Context(), "iabc")
	_, ran := client.Open(e2b.Ref{ID: "iabc"}).Command("true").Output(t.Context())
	for _, err := range []error{created, got, ran} {
		require.ErrorIs(t, err, e2b.ErrHeldBack)
		require.NotErrorIs(t, err, e2b.ErrUnavailable)
		require.NotErrorIs(t, err, e2b.ErrUnknown)
		var api *e2b.Error
		require.ErrorAs(t, err, &api)
		require.Equal(t, 3*time.Second, api.RetryAfter)
	}
	require.True(t, mendable(ran))
}
