package natsx_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/stack"
)

func start(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoLog, o.NoSigs = "127.0.0.1", true, true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	s, err := server.NewServer(o)
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(patience))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// heldAddr is an address where nobody listens who is not told to, while the test runs.
func heldAddr(t *testing.T) string {
	t.Helper()
	addr, release, err := stack.HoldAddr()
	require.NoError(t, err)
	t.Cleanup(release)
	return addr
}

// The server comes up while the first connect waits for it.
func TestConnectWaitsForTheServer(t *testing.T) {
	t.Parallel()
	addr := heldAddr(t)
	type answer struct {
		nc  *nats.Conn
		err error
	}
	done := make(chan answer, 1)
	go func() {
		nc, err := natsx.Connect(short(t, patience), natsx.Config{URL: "nats://" + addr}, nil)
		done <- answer{nc, err}
	}()
	srv, err := stack.StartNATS(stack.NATSOptions{Addr: addr, StoreDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	a := next(t, done, "the connection")
	require.NoError(t, a.err)
	closeConn(a.nc)
}

func TestConnectGivesUpWithTheContext(t *testing.T) {
	t.Parallel()
	_, err := natsx.Connect(short(t, 300*time.Millisecond), natsx.Config{URL: "nats://me:hunter2@" + heldAddr(t)}, nil)
	require.ErrorIs(t, err, nats.ErrNoServers)
	require.ErrorContains(t, err, "nats://***@127.0.0.1")
	require.NotContains(t, err.Error(), "hunter2")
}

// What does not heal is said at once, without the credential.
func TestConnectRefused(t *testing.T) {
	t.Parallel()
	s := start(t, &server.Options{Username: "me", Password: "right"})
	for name, cfg := range map[string]natsx.Config{
		"password": {URL: fmt.Sprintf("nats://me:hunter2@%s", s.Addr())},
		"url":      {URL: "nats://me:hunter2@[::bad"},
		"creds":    {URL: s.ClientURL(), Creds: filepath.Join(t.TempDir(), "none")},
		"nkey":     {URL: s.ClientURL(), NKey: filepath.Join(t.TempDir(), "none")},
		"ca":       {URL: s.ClientURL(), CA: filepath.Join(t.TempDir(), "none")},
		"cert":     {URL: s.ClientURL(), Cert: "cert.pem"},
		"context":  {Context: "no-such-context"},
	} {
		_, err := natsx.Connect(t.Context(), cfg, nil)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "hunter2", name)
	}
}

func TestConnectByNKey(t *testing.T) {
	t.Parallel()
	kp, err := nkeys.CreateUser()
	require.NoError(t, err)
	pub, err := kp.PublicKey()
	require.NoError(t, err)
	seed, err := kp.Seed()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "seed")
	require.NoError(t, os.WriteFile(file, seed, 0o600))
	s := start(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: pub}}})
	nc, err := natsx.Connect(t.Context(), natsx.Config{URL: s.ClientURL(), NKey: file}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	closeConn(nc)
}

// The contexts of the nats command line tool; a URL given beside one wins.
func TestConnectByContext(t *testing.T) {
	s := start(t, &server.Options{Username: "me", Password: "right"})
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "nats", "context"), 0o700))
	write := func(name, url string) {
		body := fmt.Sprintf(`{"url":%q,"user":"me","password":"right"}`, url)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "nats", "context", name+".json"), []byte(body), 0o600))
	}
	write("good", s.ClientURL())
	write("moved", "nats://127.0.0.1:1")
	nc, err := natsx.Connect(t.Context(), natsx.Config{Context: "good"}, nil)
	require.NoError(t, err)
	closeConn(nc)
	nc, err = natsx.Connect(t.Context(), natsx.Config{Context: "moved", URL: s.ClientURL()}, nil)
	require.NoError(t, err)
	closeConn(nc)
}

// A connection that stood is made again, for as long as it takes.
func TestConnectAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addr := heldAddr(t)
	srv, err := stack.StartNATS(stack.NATSOptions{StoreDir: dir, Addr: addr})
	require.NoError(t, err)
	nc, err := natsx.Connect(t.Context(), natsx.Config{URL: srv.ClientURL()}, nil)
	require.NoError(t, err)
	defer closeConn(nc)
	require.Equal(t, -1, nc.Opts.MaxReconnect)
	up := nc.StatusChanged(nats.CONNECTED)
	srv.Shutdown()
	srv.WaitForShutdown()
	srv, err = stack.StartNATS(stack.NATSOptions{StoreDir: dir, Addr: addr})
	require.NoError(t, err)
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	next(t, up, "the connection")
}
