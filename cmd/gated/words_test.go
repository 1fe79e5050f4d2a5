package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/op"
	"gated/internal/signers"
)

func TestAsk(t *testing.T) {
	a, err := ask("guest.create", "web-1", cli.Pairs{"memory=1GiB", "labels.tier=prod"})
	require.NoError(t, err)
	require.Equal(t, op.Ask{Op: "guest.create", Target: op.Target{Kind: "guest", Name: "web-1"},
		Params: op.Params{"memory": int64(1024), "labels": map[string]any{"tier": "prod"}}}, a)
	a, err = ask("guest.start", "guest/web-1", nil)
	require.NoError(t, err)
	require.Equal(t, "guest/web-1", a.Target.String())

	// What only the gate can refuse goes to it.
	a, err = ask("guest.fly", "web-1", cli.Pairs{"memory=1GiB"})
	require.NoError(t, err)
	require.Equal(t, op.Params{"memory": "1GiB"}, a.Params)

	for _, c := range []struct {
		name, target string
		code         op.Code
	}{
		{"start", "web-1", op.UnknownOp}, {"Guest.start", "web-1", op.UnknownOp}, {"guest.start", "web-*", op.Malformed},
		{"guest.start", "../web-1", op.Malformed}, {"guest.start", "", op.Malformed},
	} {
		_, err := ask(c.name, c.target, nil)
		require.ErrorIs(t, err, c.code, c)
	}
}

func TestKeyArgs(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "a:b.pub")
	require.NoError(t, os.WriteFile(odd, nil, 0o600))
	require.Equal(t, []signers.KeyArg{{Path: "k.pub", Principal: "alice"}, {Path: "k.pub"}, {Path: odd},
		{Path: odd, Principal: "carol"}, {Path: "k.pub"}},
		keyArgs([]string{"k.pub:alice", "k.pub", odd, odd + ":carol", "k.pub:"}))
}

func TestDocumentsOfADirectory(t *testing.T) {
	dir := t.TempDir()
	const text = "apiVersion: gated/v1\nhost: h\nguests:\n  - name: a\n"
	for _, name := range []string{"b.yml", "a.yaml", ".hidden.yaml", "notes.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	docs, err := testTool().documents(dir, "")
	require.NoError(t, err)
	require.Len(t, docs, 2)
	require.Equal(t, "a", docs[0].set)
	require.Equal(t, "b", docs[1].set)
	require.Equal(t, "h", docs[1].Host)

	_, err = testTool().documents(dir, "one")
	require.Equal(t, api.ExitUsage, api.Exit(err))
	_, err = testTool().documents(t.TempDir(), "")
	require.Equal(t, api.ExitUsage, api.Exit(err))
	_, err = testTool().documents(filepath.Join(dir, "none"), "")
	require.Equal(t, api.ExitUsage, api.Exit(err))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("host: [\n"), 0o600))
	_, err = testTool().documents(dir, "")
	require.ErrorIs(t, err, op.Malformed)
	require.ErrorContains(t, err, "a.yaml:")
}

func TestDocumentSizes(t *testing.T) {
	tl := testTool()
	tl.stdin = bytes.NewReader(make([]byte, maxDocument+1))
	_, err := tl.documents("-", "s")
	require.ErrorIs(t, err, op.Oversized)
	tl.stdin = strings.NewReader("apiVersion: gated/v1\nhost: h\nguests: []\n#" + strings.Repeat(" ", maxDocument-43) + "\n")
	_, err = tl.documents("-", "s")
	require.NotErrorIs(t, err, op.Oversized)
}

func TestTheWorseExitCode(t *testing.T) {
	require.Equal(t, 1, worseExit(3, 1))
	require.Equal(t, 1, worseExit(1, 3))
	require.Equal(t, 3, worseExit(0, 3))
	require.Equal(t, 3, worseExit(3, 0))
}

func TestWaitsLooksAtEveryStep(t *testing.T) {
	require.True(t, waits(api.Job{State: op.StatePlanned, Steps: []api.Step{{State: op.StatePlanned}, {State: op.StatePending}}}))
	require.False(t, waits(api.Job{State: op.StatePlanned, Steps: []api.Step{{State: op.StatePlanned}}}))
}

func TestStatusEndsWithWhatWaits(t *testing.T) {
	var out bytes.Buffer
	tl := testTool()
	tl.Stdout = &out
	require.NoError(t, tl.showStatus(api.Status{Host: "h", Isolation: "none", Remedies: []string{"a", "b"}, Waiting: 2,
		Health: []api.Health{{Name: "clock", Detail: "went back"}}}))
	require.True(t, strings.HasSuffix(out.String(), "\n2 waiting: opsign list\n"))
	require.Contains(t, out.String(), "isolation: none\n  remedy: a\n  remedy: b\n")
	require.Contains(t, out.String(), "BAD  went back")
}
