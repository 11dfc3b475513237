package rig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sandjet/sandjet/internal/stack"
)

// Redis is a redis-server that keeps its data on disk.
type Redis struct {
	dir string

	mu sync.Mutex
	s  *stack.Redis
}

func startRedis(dir string) (*Redis, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	s, err := stack.StartRedis(stack.RedisOptions{Addr: addr, Dir: dir})
	if err != nil {
		return nil, err
	}
	if s.Kind != stack.RedisServer {
		_ = s.Stop()
		return nil, errors.New("redis-server is not on PATH: a campaign needs the real one")
	}
	return &Redis{dir: dir, s: s}, nil
}

func (r *Redis) server() *stack.Redis {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.s
}

// Addr is where it listens, also after a restart.
func (r *Redis) Addr() string { return r.server().Addr }

// Client opens a client of it.
func (r *Redis) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: r.Addr(), ReadTimeout: 2 * time.Second, MaxRetries: 1})
}

// Kill ends it as a crash would.
func (r *Redis) Kill() { r.server().Kill() }

// Freeze and Thaw stop it where it stands and let it go on.
func (r *Redis) Freeze() { r.server().Freeze() }

// Thaw ends Freeze.
func (r *Redis) Thaw() { r.server().Thaw() }

// Start starts it again after Kill, with what it had on disk or without.
func (r *Redis) Start(empty bool) error {
	addr := r.Addr()
	if empty {
		if err := os.RemoveAll(filepath.Join(r.dir, "appendonlydir")); err != nil {
			return err
		}
	}
	var s *stack.Redis
	var err error
	for range 20 { // the port may take a moment to be free
		if s, err = stack.StartRedis(stack.RedisOptions{Addr: addr, Dir: r.dir}); err == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.s = s
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

// Wipe takes everything out of it and reports whether there was anything.
func (r *Redis) Wipe(ctx context.Context) (bool, error) {
	c := r.Client()
	defer c.Close()
	n, err := c.DBSize(ctx).Result()
	if err != nil {
		return false, err
	}
	return n > 0, c.FlushAll(ctx).Err()
}

// Answers reports whether it answers within a moment.
func (r *Redis) Answers(within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: r.Addr(), ReadTimeout: within, DialTimeout: within, MaxRetries: -1})
	defer c.Close()
	return c.Ping(ctx).Err() == nil
}

func (r *Redis) close() {
	r.Thaw()
	r.Kill()
}
