package worker

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/store"
)

// The state a short job passes through is not worth a write; that of a long one
// is, and no end waits.
func TestBoardLeavesOutWhatIsOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(nil, slog.New(slog.DiscardHandler))
		state := func(job string, k events.Kind) { b.put(store.JobView{Session: "s", Job: job, State: string(k)}) }
		pending := func() map[string]string {
			b.mu.Lock()
			defer b.mu.Unlock()
			out := map[string]string{}
			for key, v := range b.pending {
				out[key.ID] = v.State
			}
			return out
		}
		state("short", events.KindStarted)
		state("long", events.KindStarted)
		require.Empty(t, pending())
		state("short", events.Succeeded)
		require.Equal(t, map[string]string{"short": "succeeded"}, pending())
		require.Len(t, b.wake, 1)
		<-b.wake
		time.Sleep(linger + time.Millisecond)
		synctest.Wait()
		require.Equal(t, map[string]string{"short": "succeeded", "long": "started"}, pending())
		require.Len(t, b.wake, 1)
		require.Empty(t, b.passing)
	})
}
