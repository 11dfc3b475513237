package jobs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fates is the whole table: what becomes of a job of three attempts after the
// first, after the last, and after the first when the job asks for more.
var fates = []struct {
	class               Class
	first, last, asked  Fate
	firstPays, lastPays bool
	min, max            time.Duration // of the first delay
}{
	{ClassOK, Succeed, Succeed, Succeed, true, true, 0, 0},
	{ClassCommandFailed, Fail, Fail, Retry, true, true, 0, 0},
	{ClassCommandTimeout, Fail, Fail, Retry, true, true, 0, 0},
	{ClassSilentTimeout, Fail, Fail, Retry, true, true, 0, 0},
	{ClassCancelled, Cancel, Cancel, Cancel, true, true, 0, 0},
	{ClassExpired, Fail, Fail, Fail, false, false, 0, 0},
	{ClassDuplicate, Fail, Fail, Fail, false, false, 0, 0},

	{ClassInvalid, Die, Die, Die, false, false, 0, 0},
	{ClassForbidden, Die, Die, Die, false, false, 0, 0},
	{ClassPolicy, Die, Die, Die, false, false, 0, 0},
	{ClassAuth, Die, Die, Die, false, false, 0, 0},
	{ClassNotFound, Die, Die, Die, false, false, 0, 0},
	{ClassQuarantined, Die, Die, Die, false, false, 0, 0},
	{ClassUndelivered, Die, Die, Die, false, false, 0, 0},
	{ClassFull, Die, Die, Die, false, false, 0, 0},

	{ClassLane, Wait, Wait, Wait, false, false, 15 * time.Second, 45 * time.Second},
	{ClassDelay, Wait, Wait, Wait, false, false, 500 * time.Millisecond, 1500 * time.Millisecond},
	{ClassVersion, Wait, Wait, Wait, false, false, 7500 * time.Millisecond, 22500 * time.Millisecond},
	{ClassQuota, Wait, Wait, Wait, false, false, 5 * time.Second, 15 * time.Second},
	{ClassRate, Wait, Wait, Wait, false, false, 500 * time.Millisecond, 1500 * time.Millisecond},
	{ClassTransitioning, Wait, Wait, Wait, false, false, 500 * time.Millisecond, 1500 * time.Millisecond},
	{ClassUnavailable, Wait, Wait, Wait, false, false, 2500 * time.Millisecond, 7500 * time.Millisecond},
	{ClassInterrupted, Wait, Wait, Wait, false, false, 25 * time.Millisecond, 75 * time.Millisecond},

	{ClassSandboxLost, Retry, Die, Retry, true, true, 500 * time.Millisecond, 1500 * time.Millisecond},
	{ClassTransport, Retry, Die, Retry, true, true, 500 * time.Millisecond, 1500 * time.Millisecond},
	{ClassGitConflict, Retry, Die, Retry, true, true, 500 * time.Millisecond, 1500 * time.Millisecond},
	{ClassGitAuth, Retry, Die, Retry, true, true, 500 * time.Millisecond, 1500 * time.Millisecond},
	{ClassInternal, Retry, Die, Retry, true, true, 500 * time.Millisecond, 1500 * time.Millisecond},
	{"a class of the future", Retry, Die, Retry, true, true, 500 * time.Millisecond, 1500 * time.Millisecond},
}

func TestDecide(t *testing.T) {
	t.Parallel()
	seen := map[Class]bool{}
	for _, tc := range fates {
		seen[tc.class] = true
		t.Run(string(tc.class), func(t *testing.T) {
			t.Parallel()
			first, last := Decide(tc.class, 1, 3, false), Decide(tc.class, 3, 3, false)
			require.Equal(t, tc.first, first.Fate)
			require.Equal(t, tc.last, last.Fate)
			require.Equal(t, tc.asked, Decide(tc.class, 1, 3, true).Fate)
			require.Equal(t, tc.last, Decide(tc.class, 3, 3, true).Fate, "asking does not make more attempts")
			require.Equal(t, tc.last, Decide(tc.class, 4, 3, true).Fate)
			require.Equal(t, tc.firstPays, first.SpendsAttempt)
			require.Equal(t, tc.lastPays, last.SpendsAttempt)
			require.GreaterOrEqual(t, first.Delay, tc.min)
			require.LessOrEqual(t, first.Delay, tc.max)
			require.Equal(t, first.Fate.Terminal(), first.Delay == 0)
			require.Equal(t, Decide(tc.class, 2, 3, false).Fate, Decide(tc.class, 2, 0, false).Fate, "three attempts unless told")
			require.Equal(t, Decide(tc.class, 3, 3, false).Fate, Decide(tc.class, 3, 0, false).Fate)
			if tc.last == Die && seen[tc.class] && tc.class != "a class of the future" {
				require.NotEmpty(t, tc.class.Says(), "an operator is told what to do")
			} else {
				require.Empty(t, tc.class.Says())
			}
		})
	}
	for _, c := range Classes() {
		require.True(t, seen[c], "%s is not in the table", c)
		require.Contains(t, groups, c)
	}
	require.Len(t, groups, len(Classes()))
	require.Len(t, fates, len(Classes())+1)
}

func TestDecisionAtLeast(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Minute, Decision{Fate: Wait, Delay: time.Second}.AtLeast(time.Minute).Delay)
	require.Equal(t, time.Hour, Decision{Fate: Retry, Delay: time.Hour}.AtLeast(time.Minute).Delay)
	require.Zero(t, Decision{Fate: Die}.AtLeast(time.Minute).Delay)
}

func TestDelay(t *testing.T) {
	t.Parallel()
	for attempt, middle := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second,
		8: 128 * time.Second, 9: 256 * time.Second, 10: maxDelay, 11: maxDelay, 1_000_000: maxDelay,
	} {
		lo, hi := maxDelay*2, time.Duration(0)
		for range 1000 {
			d := Delay(attempt)
			lo, hi = min(lo, d), max(hi, d)
		}
		require.GreaterOrEqual(t, lo, middle/2, "attempt %d", attempt)
		require.LessOrEqual(t, hi, middle*3/2+1, "attempt %d", attempt)
		require.Less(t, lo, middle*3/4, "attempt %d has no jitter", attempt)
		require.Greater(t, hi, middle*5/4, "attempt %d has no jitter", attempt)
	}
	require.Zero(t, Jitter(0))
	require.Zero(t, Jitter(-time.Second))
}

func TestHoldFor(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]Hold{
		-time.Second: Park, 0: Park, MaxPark: Park,
		MaxPark + 1: GiveBack, MaxHold: GiveBack,
		MaxHold + 1: Reschedule, 24 * time.Hour: Reschedule,
	} {
		require.Equal(t, want, HoldFor(wait), "%s should be %s", wait, want)
	}
}
