package gate_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// ended dispatches a new step and records an outcome. It returns the step as it is
// shown and the entry of its end.
func (w *world) ended(name string, out gate.Outcome) (op.Step, audit.Entry) {
	w.t.Helper()
	w.back.put(name)
	j := w.mustSubmit(ask("guest.stop", name))
	w.use(j.Steps[0].ID)
	if !out.Unknown {
		after := w.back.get(name)
		out.After = &after
	}
	must.Get(w.gate.Record(w.ctx, j.Steps[0].ID, out))(w.t)
	shown := must.Get(w.gate.ShownJob(w.ctx, j.ID))(w.t)
	es := must.Get(w.gate.Events(w.ctx, 0, 10000))(w.t)
	return shown.Steps[0], es[len(es)-1]
}

// The output of a step is stored with any end of the step, and the log has its
// digest. It is read only when the one job is shown.
func TestOutputIsKept(t *testing.T) {
	w := newWorld(t)
	broke := errors.New("it broke")
	long := strings.Repeat("é", gate.MaxOutput/2)
	for i, c := range []struct {
		out  gate.Outcome
		end  op.State
		kept string
	}{
		{gate.Outcome{Output: "done\n"}, op.StateSucceeded, "done\n"},
		{gate.Outcome{Output: "no\n", Err: broke}, op.StateFailed, "no\n"},
		{gate.Outcome{Output: "half\n", Unknown: true}, op.StateInterrupted, "half\n"},
		{gate.Outcome{Output: "half\n", Err: broke, Transient: true}, op.StatePlanned, ""},
		{gate.Outcome{}, op.StateSucceeded, ""},
		{gate.Outcome{Output: "a\xff\x00\x1b[31mb"}, op.StateSucceeded, "a\uFFFD\x00\x1b[31mb"},
		{gate.Outcome{Output: long}, op.StateSucceeded, long},
		{gate.Outcome{Output: "x" + long}, op.StateSucceeded, "x" + long[:len(long)-2]},
		{gate.Outcome{Output: strings.Repeat("\xffx", gate.MaxOutput)}, op.StateSucceeded, strings.Repeat("\uFFFDx", gate.MaxOutput/4)},
	} {
		s, e := w.ended("web"+string(rune('a'+i)), c.out)
		require.Equal(t, c.end, s.State)
		require.Equal(t, c.kept, s.Output)
		require.True(t, utf8.ValidString(s.Output))
		if c.kept == "" {
			require.Empty(t, e.OutputSHA256)
		} else {
			require.Equal(t, op.SHA256([]byte(c.kept)), e.OutputSHA256)
		}
		require.Empty(t, w.job(s.ID.Job).Steps[0].Output)
	}
	js := must.Get(w.gate.Jobs(w.ctx, gate.JobFilter{}))(t)
	for _, j := range js {
		require.Empty(t, j.Steps[0].Output)
	}
}

// If a back end wrongly reports success, its output is stored too.
func TestOutputOfALieIsKept(t *testing.T) {
	w := newWorld(t, "web")
	j := w.mustSubmit(ask("guest.stop", "web"))
	w.use(j.Steps[0].ID)
	after := op.Observed{Target: j.Steps[0].Target}
	must.Get(w.gate.Record(w.ctx, j.Steps[0].ID, gate.Outcome{Output: "all is well", After: &after}))(t)
	shown := must.Get(w.gate.ShownJob(w.ctx, j.ID))(t)
	require.Equal(t, op.StateFailed, shown.State())
	require.Equal(t, "all is well", shown.Steps[0].Output)
}
