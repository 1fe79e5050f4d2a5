package main

import (
	"os"
	"path/filepath"
	"testing"

	"gated/internal/people/pubkey"

	"github.com/stretchr/testify/require"
)

func TestKeyArgs(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "a:b.pub")
	require.NoError(t, os.WriteFile(odd, nil, 0o600))
	require.Equal(t, []pubkey.Arg{{Path: "k.pub", Principal: "alice"}, {Path: "k.pub"}, {Path: odd},
		{Path: odd, Principal: "carol"}, {Path: "k.pub"}},
		keyArgs([]string{"k.pub:alice", "k.pub", odd, odd + ":carol", "k.pub:"}))
}
