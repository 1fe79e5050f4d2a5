package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// Behind sudo, the user who called it is asked about, unless a flag says who may ask.
func TestWhoMayAsk(t *testing.T) {
	alice := person{"alice", "/home/alice"}
	for name, c := range map[string]struct {
		asks   bool
		person person
		flags  setupFlags
		typed  string
		want   []string
		asked  bool
	}{
		"yes":              {asks: true, person: alice, typed: "y\n", want: []string{"alice"}, asked: true},
		"no":               {asks: true, person: alice, typed: "\n", asked: true},
		"a flag":           {asks: true, person: alice, flags: setupFlags{users: []string{"bob"}}, want: []string{"bob"}},
		"without terminal": {person: alice, typed: "y\n"},
		"root's own login": {asks: true, person: person{home: "/root"}, typed: "y\n"},
		"a gate of one":    {asks: true, person: alice, flags: setupFlags{own: true}, typed: "y\n"},
	} {
		var said strings.Builder
		tool := &tool{Tool: cli.Tool{Stderr: &said}}
		f := c.flags
		require.NoError(t, tool.confirmUser(t.Context(), bufio.NewReader(strings.NewReader(c.typed)), c.asks, c.person, &f), name)
		require.Equal(t, c.want, f.users, name)
		require.Equal(t, c.asked, strings.Contains(said.String(), "May alice ask the gate for steps"), name)
	}
}

// Whoever joins the group is told that a login of before does not have it.
func TestNextSaysWhoLogsInAgain(t *testing.T) {
	out := setupFlags{users: []string{"alice", "bob\x1b"}}.next(setupFound{})
	require.Equal(t, `# alice, "bob\x1b": log in again first, which takes the group gated over`, out[1])
	require.Equal(t, out[2:], setupFlags{}.next(setupFound{})[1:], "what is typed stays")
	agents := setupFlags{own: true, service: true}.next(setupFound{Agents: []string{"claude-code"}})
	require.Equal(t, out[2:], agents[2:], "also beside the hooks of an agent's product")
	require.Contains(t, out[len(out)-1], "opsign approve ")
}

// A set-up that waits for the gate ends with the gate's own reason, where it has one.
func TestWhyAGateIsUnwell(t *testing.T) {
	require.Empty(t, unwell(api.Status{Health: []api.Health{{Name: "disk", OK: true}}}, nil))
	require.Equal(t, "disk: full", unwell(api.Status{Health: []api.Health{{Name: "disk", Detail: "full"}}}, nil))
	require.Equal(t, "the daemon cannot start: x", unwell(api.Status{}, refusal.New(refusal.Unavailable, "the daemon cannot start: x")))
	require.Equal(t, "it does not answer", unwell(api.Status{}, &client.Unreachable{}))
}
