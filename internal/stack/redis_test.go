package stack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestMain lets this binary be the parent that TestRedisDiesWithItsParent kills.
func TestMain(m *testing.M) {
	if os.Getenv("STACK_PARENT") == "" {
		os.Exit(m.Run())
	}
	r, err := StartRedis(RedisOptions{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(r.proc.Pid)
	select {}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	for _, embedded := range []bool{false, true} {
		t.Run(fmt.Sprintf("embedded=%v", embedded), func(t *testing.T) {
			t.Parallel()
			if !embedded {
				needRedis(t)
			}
			r, err := StartRedis(RedisOptions{Embedded: embedded})
			require.NoError(t, err)
			if want := map[bool]string{false: RedisServer, true: MiniRedis}[embedded]; r.Kind != want {
				t.Fatalf("kind %s, want %s", r.Kind, want)
			}
			c := client(t, r)
			require.NoError(t, c.Set(t.Context(), "k", "v", 20*time.Millisecond).Err())
			require.Eventually(t, func() bool { return errors.Is(c.Get(t.Context(), "k").Err(), redis.Nil) }, patience, 5*time.Millisecond, "keys do not expire")
			require.NoError(t, r.Stop())
			require.NoError(t, r.Stop())
			r.Kill()
			require.Error(t, c.Ping(t.Context()).Err())
		})
	}
}

func TestRedisKeepsItsData(t *testing.T) {
	t.Parallel()
	needRedis(t)
	dir := t.TempDir() + "/redis"
	r, err := StartRedis(RedisOptions{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, client(t, r).Set(t.Context(), "k", "kept", 0).Err())
	require.NoError(t, r.Stop())
	r, err = StartRedis(RedisOptions{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(r.Kill)
	require.Equal(t, "kept", client(t, r).Get(t.Context(), "k").Val())
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, e := range entries {
		require.NotContains(t, e.Name(), "dump", "a Redis without a Dir writes where it was started")
	}
}

func TestRedisFreezes(t *testing.T) {
	t.Parallel()
	needRedis(t)
	r, err := StartRedis(RedisOptions{})
	require.NoError(t, err)
	c := client(t, r)
	r.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Error(t, c.Ping(ctx).Err())
	r.Thaw()
	require.Eventually(t, func() bool { return c.Ping(t.Context()).Err() == nil }, patience, 5*time.Millisecond)
	r.Freeze()
	require.NoError(t, r.Stop(), "a frozen one stops too")
}

func TestRedisSaysWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	_, err := StartRedis(RedisOptions{Addr: "0.0.0.0:0"})
	require.ErrorContains(t, err, "not loopback")

	needRedis(t)
	_, err = StartRedis(RedisOptions{Args: []string{"--no-such-setting", "1"}})
	require.ErrorContains(t, err, "no-such-setting")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	_, err = StartRedis(RedisOptions{Addr: l.Addr().String()})
	require.ErrorContains(t, err, "Address already in use")
}

// Another Redis that holds the port must not be taken for ours.
func TestRedisIsNotTheOther(t *testing.T) {
	t.Parallel()
	needRedis(t)
	first, err := StartRedis(RedisOptions{})
	require.NoError(t, err)
	t.Cleanup(first.Kill)
	_, err = StartRedis(RedisOptions{Addr: first.Addr})
	require.Error(t, err)
	require.NoError(t, client(t, first).Ping(t.Context()).Err())
}

func TestRedisDiesWithItsParent(t *testing.T) {
	t.Parallel()
	needRedis(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "STACK_PARENT=1")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err, line)
	require.NoError(t, syscall.Kill(pid, 0))
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	require.Eventually(t, func() bool { return gone(pid) }, patience, 5*time.Millisecond, "redis-server outlives its parent")
}

// gone reports whether a process is dead, reaped or not.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

func client(t *testing.T, r *Redis) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: r.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func needRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("REQUIRE_REAL") == "1" {
			t.Fatal("redis-server is not on PATH and REQUIRE_REAL=1")
		}
		t.Skip("redis-server is not on PATH")
	}
}
