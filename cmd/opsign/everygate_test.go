package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
)

// Gates that accept and never answer cost the list their time once, not once each, and are told.
func TestGatesThatHangKeepNobodyWaiting(t *testing.T) {
	dir := t.TempDir()
	var known strings.Builder
	for i := range 3 {
		path := filepath.Join(dir, fmt.Sprintf("s%d", i))
		l := must.Get(net.Listen("unix", path))(t)
		t.Cleanup(func() { require.NoError(t, l.Close()) })
		fmt.Fprintf(&known, "unix:%s pve%d %032d\n", path, i, i)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "gated"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gated", "known_gates"), []byte(known.String()), 0o600))
	var out bytes.Buffer
	tl := testTool()
	tl.Stdout, tl.gateTime = &out, 200*time.Millisecond
	tl.Getenv = func(name string) string {
		return map[string]string{"XDG_CONFIG_HOME": dir, "XDG_STATE_HOME": dir}[name]
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.Equal(t, api.ExitUnreachable, tl.run(ctx, []string{"list", "--all-gates"}))
	require.NoError(t, ctx.Err(), "gateTime ends the wait for each")
	require.Equal(t, 3, strings.Count(out.String(), "\n  no answer: unavailable: "), out.String())
	require.Less(t, strings.Index(out.String(), "pve0"), strings.Index(out.String(), "pve2"), "in the order of the file")
}
