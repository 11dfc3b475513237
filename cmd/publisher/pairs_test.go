package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/wire"
)

func TestSecretRefs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		items []string
		want  map[string]string
		err   string
	}{
		"none":   {},
		"name":   {items: []string{"github-token"}, want: map[string]string{"GITHUB_TOKEN": "github-token"}},
		"both":   {items: []string{"T=db.main", "db.main"}, want: map[string]string{"T": "db.main", "DB_MAIN": "db.main"}},
		"twice":  {items: []string{"a-b", "A_B=c"}, err: "A_B: given twice"},
		"no var": {items: []string{"=c"}, err: "want K=V or the name of a secret"},
		"empty":  {items: []string{""}, err: "want K=V or the name of a secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := secretRefs(tc.items)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestPairs(t *testing.T) {
	t.Parallel()
	env := func(k string) (string, bool) { return "ours", k == "SET" }
	got, err := pairs("env", []string{"A=1", "B=", "C=x=y", "SET"}, env)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"A": "1", "B": "", "C": "x=y", "SET": "ours"}, got)
	for _, bad := range [][]string{{"=x"}, {"UNSET"}, {"A=1", "A=2"}, {""}} {
		_, err := pairs("env", bad, env)
		require.Error(t, err, "%q", bad)
	}
	_, err = pairs("label", []string{"SET"}, nil)
	require.EqualError(t, err, `--label "SET": want K=V`)
	got, err = pairs("env", nil, env)
	require.NoError(t, err)
	require.Nil(t, got)
}

func TestNewIDIsAnID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id := newID()
		require.True(t, wire.ValidID(id), id)
		require.False(t, seen[id])
		seen[id] = true
	}
}
