package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
)

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
