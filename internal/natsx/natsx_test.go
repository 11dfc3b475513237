package natsx_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/leaktest"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/stack"
)

func TestMain(m *testing.M) { leaktest.Main(m, nil) }

// bundle is a server of its own with a connection to it.
type bundle struct {
	srv *server.Server
	nc  *nats.Conn
	js  jetstream.JetStream
}

func setup(t testing.TB) *bundle {
	t.Helper()
	srv, err := stack.StartNATS(stack.NATSOptions{StoreDir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	nc, err := natsx.Connect(t.Context(), natsx.Config{URL: srv.ClientURL(), Name: t.Name()}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { closeConn(nc) })
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return &bundle{srv, nc, js}
}

// closeConn closes nc and waits until its goroutines are gone.
func closeConn(nc *nats.Conn) {
	closed := nc.StatusChanged(nats.CLOSED)
	if nc.IsClosed() {
		return
	}
	nc.Close()
	<-closed
}

// patience is how long tests wait for what must come, on a machine that has much else
// to do.
const patience = 60 * time.Second

// next waits for what comes on a channel.
func next[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing comes", what)
		panic("unreachable")
	}
}

func (b *bundle) stream(t testing.TB, cfg jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	s, err := natsx.EnsureStream(t.Context(), b.js, cfg)
	require.NoError(t, err)
	return s
}

func (b *bundle) publisher(t testing.TB, opts ...natsx.Option) *natsx.Publisher {
	t.Helper()
	p, err := natsx.NewPublisher(b.nc, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func msg(subject, id string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = []byte("x")
	if id != "" {
		m.Header.Set(nats.MsgIdHdr, id)
	}
	return m
}

func short(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
