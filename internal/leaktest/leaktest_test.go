package leaktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One that ends late is none that is left; one that does not end is shown.
func TestFind(t *testing.T) {
	late, never := make(chan struct{}), make(chan struct{})
	go stay(late)
	time.AfterFunc(2*time.Second, func() { close(late) }) // goleak alone has given up by then
	require.NoError(t, Find("testing.(*T).Run"))

	go stay(never)
	require.ErrorContains(t, find(time.Millisecond, "testing.(*T).Run"), "leaktest.stay")
	require.NoError(t, find(time.Millisecond, "testing.(*T).Run", "github.com/sandjet/sandjet/internal/leaktest.stay"))
	close(never)
	require.NoError(t, Find("testing.(*T).Run"))
}

func stay(until <-chan struct{}) { <-until }
