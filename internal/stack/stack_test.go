package stack

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestStackStartsAllOnLoopbackAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Options{})
	require.NoError(t, err)
	require.True(t, s.Temporary)

	var names []string
	for _, v := range s.Env() {
		names = append(names, v.Name)
		require.NotEmpty(t, v.Value, v.Name)
		if strings.HasSuffix(v.Name, "_URL") {
			require.Contains(t, v.Value, "//127.0.0.1:", v.Name)
		}
	}
	require.Equal(t, []string{"NATS_URL", "REDIS_URL", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_API_KEY"}, names)

	_, err = connect(t, s.NATS).AccountInfo(t.Context())
	require.NoError(t, err, "NATS with JetStream answers")
	require.NoError(t, redisPing(t, s))
	res, err := http.Get(s.E2BURL() + "/health")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Less(t, res.StatusCode, 300)

	addrs := []string{s.NATS.Addr().String(), s.Redis.Addr, s.E2B.Addr()}
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, s.Stop(t.Context()), "a second stop does nothing")
	for _, addr := range addrs {
		_, err := net.Dial("tcp", addr)
		require.Error(t, err, "%s is closed", addr)
	}
	require.NoDirExists(t, s.DataDir)
}

func TestStackKeepsItsDataFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Start(t.Context(), Options{DataDir: dir})
	require.NoError(t, err)
	key := s.E2BEnv()[2]
	_, err = connect(t, s.NATS).CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)

	_, err = Start(t.Context(), Options{DataDir: dir})
	require.ErrorContains(t, err, "another stack is using it")
	require.NoError(t, redisPing(t, s), "the first one goes on")
	require.NoError(t, s.Stop(t.Context()))

	s, err = Start(t.Context(), Options{DataDir: dir})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) }()
	_, err = connect(t, s.NATS).Stream(t.Context(), "S")
	require.NoError(t, err)
	require.Equal(t, key, s.E2BEnv()[2], "publishers keep their key")
	info, err := os.Stat(filepath.Join(dir, "e2b-api-key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// A part that does not start takes those before it down with it.
func TestStackThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()

	dir := t.TempDir()
	_, err = Start(t.Context(), Options{DataDir: dir, E2BAddr: taken.Addr().String()})
	require.ErrorContains(t, err, "address already in use")

	s, err := Start(t.Context(), Options{DataDir: dir})
	require.NoError(t, err, "the folder is free again")
	require.NoError(t, s.Stop(t.Context()))
}

func TestE2BAlone(t *testing.T) {
	t.Parallel()
	s, err := StartE2B(t.Context(), Options{})
	require.NoError(t, err)
	require.Len(t, s.E2BEnv(), 3)
	require.NoError(t, s.Stop(t.Context()))

	// Alone it is the server that says which addresses are safe.
	s, err = StartE2B(t.Context(), Options{E2BAddr: "0.0.0.0:0", E2B: E2BOptions{Insecure: true}})
	require.NoError(t, err)
	require.NoError(t, s.Stop(t.Context()))
}

func redisPing(t *testing.T, s *Stack) error {
	t.Helper()
	o, err := redis.ParseURL(s.RedisURL())
	require.NoError(t, err)
	c := redis.NewClient(o)
	defer c.Close()
	return c.Ping(t.Context()).Err()
}
