package stack

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestNATSKeepsItsStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stop := func(s *server.Server) { s.Shutdown(); s.WaitForShutdown() }

	s, err := StartNATS(NATSOptions{StoreDir: dir})
	require.NoError(t, err)
	js := connect(t, s)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s", []byte("kept"))
	require.NoError(t, err)
	stop(s)

	s, err = StartNATS(NATSOptions{StoreDir: dir})
	require.NoError(t, err)
	defer stop(s)
	stream, err := connect(t, s).Stream(t.Context(), "S")
	require.NoError(t, err)
	msg, err := stream.GetLastMsgForSubject(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, "kept", string(msg.Data))
}

func TestNATSRefusesWhatIsNotLoopback(t *testing.T) {
	t.Parallel()
	_, err := StartNATS(NATSOptions{Addr: "0.0.0.0:0", StoreDir: t.TempDir()})
	require.ErrorContains(t, err, "not loopback")
	_, err = StartNATS(NATSOptions{})
	require.ErrorContains(t, err, "no store directory")
}

func connect(t *testing.T, s *server.Server) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}
