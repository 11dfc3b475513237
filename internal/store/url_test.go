package store

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestURLForms(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]any{
		"redis://127.0.0.1:1":                                   &redis.Client{},
		"rediss://u:p@host:1/3":                                 &redis.Client{},
		"unix:///run/redis.sock?db=1":                           &redis.Client{},
		"redis+sentinel://h:1/0?master_name=m&addr=h2:1":        &redis.Client{},
		"redis://h:1?master_name=m&addr=h2:1":                   &redis.Client{},
		"rediss+sentinel://:pw@h:1?master_name=m":               &redis.Client{},
		"redis://h:1?addr=h2:1&addr=h3:1":                       &redis.ClusterClient{},
		"redis+cluster://h:1":                                   &redis.ClusterClient{},
		"rediss+cluster://u:p@h:1?addr=h2:1&read_timeout=500ms": &redis.ClusterClient{},
	} {
		c, err := newClient(url)
		require.NoError(t, err, url)
		require.IsType(t, want, c, url)
		_ = c.Close()
	}
}

func TestURLDefaults(t *testing.T) {
	t.Parallel()
	c, err := newClient("redis://h:1")
	require.NoError(t, err)
	o := c.(*redis.Client).Options()
	require.Equal(t, 2*time.Second, o.DialTimeout)
	require.Equal(t, 2*time.Second, o.ReadTimeout)
	require.NoError(t, c.Close())
	c, err = newClient("redis://h:1?read_timeout=5s")
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, c.(*redis.Client).Options().ReadTimeout)
	require.NoError(t, c.Close())
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "127.0.0.1:6379", "http://:hidden@h:1", "redis://:hidden@h:x", "redis+what://:hidden@h:1",
		"redis+sentinel://:hidden@h:1", "redis://:hidden@h:1/notadb", "redis://:hidden@h:1?nonsense=1",
		"redis://:hid\x7fden@h:1", "redis+cluster://:hidden@h:1?nonsense=1",
		"redis://:hid/den@h:1", "redis://:hid?den=1@h:1", "redis://:hid#den@h:1", "redis://:hid%zzden@h:1", "hid://:hidden@h:1",
	} {
		_, err := newClient(url)
		require.Error(t, err, url)
		require.Contains(t, err.Error(), "want redis://", url)
		require.NotContains(t, err.Error(), "hid", url)
	}
}
