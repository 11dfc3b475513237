package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/store"
)

func TestCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{&query.Error{Code: query.CodeConflict, Description: "x"}, "409"},
		{errStopping, "503"},
		{fmt.Errorf("%w: %w", errStopping, context.Canceled), "503"},
		{events.ErrNotFound, "404"},
		{store.ErrNotFound, "404"},
		{jobs.ErrNoLetter, "404"},
		{jobs.ErrCutLetter, "409"},
		{store.ErrCursor, "400"},
		{store.ErrUnavailable, "503"},
		{context.DeadlineExceeded, "503"},
		{nats.ErrNoResponders, "503"},
		{nats.ErrConnectionClosed, "503"},
		{natsx.ErrNoAck, "503"},
		{&natsx.APIError{Code: 503, ErrCode: 10077, Description: "maximum bytes exceeded"}, "503"},
		{&natsx.APIError{Code: 400, ErrCode: 10071}, "500"},
		{&jetstream.APIError{Code: 503}, "503"},
		{jetstream.ErrStreamNotFound, "500"},
		{errors.New("surprise"), "500"},
	} {
		require.Equal(t, test.want, coded(fmt.Errorf("act: %w", test.err)).Code, "%v", test.err)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", clip("short", 5))
	long := clip(strings.Repeat("ä", 50), 20)
	require.LessOrEqual(t, len(long), 20)
	require.Equal(t, strings.Repeat("ä", 8)+"…", long)
}
