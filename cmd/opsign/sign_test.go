package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestWritePair(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "op.json")
	names := func() []string {
		found := must.Get(os.ReadDir(dir))(t)
		out := []string{}
		for _, f := range found {
			out = append(out, f.Name())
		}
		return out
	}
	require.NoError(t, writePair(path, []byte("payload"), path+".sig", []byte("signature")))
	require.Equal(t, []string{"op.json", "op.json.sig"}, names())
	for name, want := range map[string]string{path: "payload", path + ".sig": "signature"} {
		got := must.Get(os.ReadFile(name))(t)
		require.Equal(t, want, string(got))
		info := must.Get(os.Stat(name))(t)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}

	// Either of the two is enough to write neither, and nothing is left behind.
	for _, taken := range []string{path, path + ".sig"} {
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.RemoveAll(path+".sig"))
		require.NoError(t, os.WriteFile(taken, []byte("mine"), 0o600))
		require.ErrorIs(t, free(path, path+".sig"), refusal.Conflict)
		require.ErrorIs(t, writePair(path, []byte("payload"), path+".sig", []byte("signature")), refusal.Conflict)
		require.Equal(t, []string{filepath.Base(taken)}, names())
		got := must.Get(os.ReadFile(taken))(t)
		require.Equal(t, "mine", string(got))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	require.NoError(t, free(filepath.Join(dir, "new")))
	// A link that leads nowhere is something, too.
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	require.ErrorIs(t, free(filepath.Join(dir, "link")), refusal.Conflict)
	err := writePair(filepath.Join(dir, "none", "x"), nil, filepath.Join(dir, "none", "x.sig"), nil)
	require.Equal(t, api.ExitUsage, api.Exit(err))
}
