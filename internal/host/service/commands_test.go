package service

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/command/catalogue"
	"gated/internal/test/must"
)

// programs are what is there of some commands.
type programs map[string]op.Incarnation

func (p programs) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	inc, ok := p[l.Target.Name]
	if !ok {
		return op.Observed{}, refusal.New(refusal.Unavailable, "/opt/gone: no such file")
	}
	return op.Observed{Target: l.Target, Present: true, Incarnation: inc}, nil
}

// The catalogue is shown whole, also where one of its programs is gone; nothing
// of the environment is.
func TestCommands(t *testing.T) {
	c := Commands{entries: map[string]catalogue.Entry{
		"gone": {Argv: []string{"/opt/gone"}, Benign: true},
		"drop-db": {Argv: []string{"/usr/bin/dropdb", "--", "{db}"}, Probe: []string{"/usr/bin/psql", "-l"}, User: "postgres",
			Timeout: time.Minute, Env: map[string]string{"PGPASSFILE": "/etc/secret"},
			Params: map[string]catalogue.Param{"db": {Type: catalogue.Enum, Values: []string{"a", "b"}}, "at": {Type: catalogue.Integer, Min: 1, Max: 3}}},
	}, looks: programs{"drop-db": "cmd:1"}}
	all := must.Get(c.Commands(t.Context()))(t)
	drop := api.Command{Name: "drop-db", Program: "/usr/bin/dropdb", Probe: "/usr/bin/psql", User: "postgres", TimeoutSeconds: 60,
		Class: op.Destructive, State: api.CommandOK, Incarnation: "cmd:1", Params: []api.CommandParam{
			{Name: "at", Type: "integer", Doc: "integer, 1 to 3", Min: 1, Max: 3},
			{Name: "db", Type: "enum", Doc: "one of a, b", Values: []string{"a", "b"}}}}
	require.Equal(t, []api.Command{drop, {Name: "gone", Program: "/opt/gone", Class: op.Benign, State: api.CommandUnknown,
		Params: []api.CommandParam{}, Error: &api.Error{Code: refusal.Unavailable, Detail: "/opt/gone: no such file"}}}, all)
	require.Equal(t, drop, must.Get(c.Command(t.Context(), "drop-db"))(t))
	must.Fail(c.Command(t.Context(), "drop"))(t, refusal.UnknownTarget)
}
