package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
