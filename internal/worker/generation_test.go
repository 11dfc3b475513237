package worker_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A view that nobody has given a name counts as just wiped, and every job would
// look through its session's log for ever.
func TestTheViewGetsAName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.worker()
	c := redis.NewClient(&redis.Options{Addr: w.redis.Addr})
	t.Cleanup(func() { _ = c.Close() })
	named := func() bool {
		return c.Exists(t.Context(), "sandjet:{g}:generation").Val() == 1
	}
	require.Eventually(t, named, eventually, tick, "a new view has no name")
	w.flushRedis()
	require.Eventually(t, named, eventually, tick, "a wiped view has no name")
}
