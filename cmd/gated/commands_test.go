package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// What the catalogue says is shown safely, with a line that can be typed.
func TestDescribeCommand(t *testing.T) {
	var out bytes.Buffer
	tl := testTool()
	tl.Stdout = &out
	require.NoError(t, tl.showCommand(api.Command{Name: "drop-db", Program: "/usr/bin/dropdb", Class: op.Destructive, State: api.CommandUnknown,
		Probe: "/usr/bin/psql", TimeoutSeconds: 60, Error: &api.Error{Code: refusal.Unavailable, Detail: "it is \x1b[31mgone"},
		Params: []api.CommandParam{{Name: "db", Type: "string", Doc: "string that matches [a-z]+, at most 63 bytes"},
			{Name: "force", Type: "bool", Doc: "true or false"}, {Name: "n", Type: "integer", Min: 2, Doc: "integer, 2 to 9"},
			{Name: "of", Type: "enum", Values: []string{"two words", "b"}, Doc: "one of two words, b"}, {Name: "to", Type: "path"}}}))
	require.Equal(t, `drop-db  destructive, runs /usr/bin/dropdb
    cannot run now: unavailable: "it is \x1b[31mgone"
    -p db=TEXT           string that matches [a-z]+, at most 63 bytes
    -p force=true|false  true or false
    -p n=NUMBER          integer, 2 to 9
    -p of=TEXT           one of two words, b
    -p to=PATH           -
  gated submit command.run drop-db -p db=TEXT -p force=true -p n=2 -p of='two words' -p to=PATH
  state        unknown
  looks first  /usr/bin/psql
  timeout      60 s
`, out.String())
}
