package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"redis://127.0.0.1:1/0", "rediss://u:p@h:1", "unix:///tmp/s", "redis+cluster://h:1?addr=i:1", "redis+sentinel://h:1?master_name=m",
	} {
		require.NoError(t, CheckURL(good), good)
	}
	for _, bad := range []string{"secret", "http://secret@h", "redis://u:secret@h:1/secret", "redis://:secret@h:port", "redis+sentinel://secret@h:1", "redis://:secret/word@h:1"} {
		err := CheckURL(bad)
		require.ErrorContains(t, err, "want redis://", bad)
		require.NotContains(t, err.Error(), "secret", bad)
	}
}
