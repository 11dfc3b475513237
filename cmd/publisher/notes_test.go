package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNotes(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	a := &App{console: newConsole(&b, &b, false)}
	log := a.logger()
	log.Debug("unseen")
	log.Warn("nats connection lost", "err", errors.New("EOF"))
	log.With("server", "x").WithGroup("g").Info("nats connected again")
	require.Equal(t, "publisher: nats connection lost: EOF\npublisher: nats connected again: x\n", b.String())
}
