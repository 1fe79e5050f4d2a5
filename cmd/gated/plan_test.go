package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestDocumentsOfADirectory(t *testing.T) {
	dir := t.TempDir()
	const text = "apiVersion: gated/v1\nhost: h\nguests:\n  - name: a\n"
	for _, name := range []string{"b.yml", "a.yaml", ".hidden.yaml", "notes.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	docs := must.Get(testTool().documents(dir, ""))(t)
	require.Len(t, docs, 2)
	require.Equal(t, "a", docs[0].set)
	require.Equal(t, "b", docs[1].set)
	require.Equal(t, "h", docs[1].Host)

	_, err := testTool().documents(dir, "one")
	require.Equal(t, api.ExitUsage, api.Exit(err))
	_, err = testTool().documents(t.TempDir(), "")
	require.Equal(t, api.ExitUsage, api.Exit(err))
	_, err = testTool().documents(filepath.Join(dir, "none"), "")
	require.Equal(t, api.ExitUsage, api.Exit(err))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("host: [\n"), 0o600))
	_, err = testTool().documents(dir, "")
	require.ErrorIs(t, err, refusal.Malformed)
	require.ErrorContains(t, err, "a.yaml:")
}

func TestDocumentSizes(t *testing.T) {
	tl := testTool()
	tl.stdin = bytes.NewReader(make([]byte, maxDocument+1))
	must.Fail(tl.documents("-", "s"))(t, refusal.Oversized)
	tl.stdin = strings.NewReader("apiVersion: gated/v1\nhost: h\nguests: []\n#" + strings.Repeat(" ", maxDocument-43) + "\n")
	_, err := tl.documents("-", "s")
	require.NotErrorIs(t, err, refusal.Oversized)
}
