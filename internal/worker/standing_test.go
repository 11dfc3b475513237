package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
)

// What a holder's silence means depends on when its message came back.
func TestCrashesAreCounted(t *testing.T) {
	t.Parallel()
	const wait = 30 * time.Second
	for name, tc := range map[string]struct {
		after time.Duration // from the last claim to this one
		let   bool          // the last holder said that it let go
		want  int
	}{
		"given back without a word":        {after: 5 * time.Second, want: 0},
		"vanished at once":                 {after: wait, want: 2},
		"vanished at once, delivered late": {after: wait - 2*time.Second, want: 2},
		"vanished before its second beat":  {after: wait + 9*time.Second, want: 2},
		"vanished later":                   {after: wait + 11*time.Second, want: 0},
		"let go":                           {after: wait, let: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h events.History
			now := time.Now()
			h.Claimed.Seq, h.Claimed.Time = 7, now.Add(-tc.after)
			h.Claimed.Value = events.Claimed{Attempt: 2, Crashes: 1}
			if tc.let {
				h.Interrupted.Seq = 8
			}
			next := succeed(h, wait, now)
			require.Equal(t, tc.want, next.Crashes)
			require.Equal(t, 2, next.Attempt)
			require.Equal(t, !tc.let, next.Takeover)
		})
	}
}
