package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The cap that no stream shows, because the queue keeps it, gets there too.
func TestQueueIsToldItsCaps(t *testing.T) {
	t.Parallel()
	a := App{cfg: Config{JobsCap: 1, SchedulesCap: 2, DeadCap: 3, DeadAge: time.Hour}}
	got := a.queueConfig()
	require.Equal(t, [3]int64{1, 2, 3}, [3]int64{got.JobsMaxBytes, got.SchedulesMaxBytes, got.DeadMaxBytes})
	require.Equal(t, time.Hour, got.DeadMaxAge)
}
