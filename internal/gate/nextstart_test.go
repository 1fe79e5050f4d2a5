package gate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/gate"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// TestAnotherProgramSaysWhichStepStartsIt: the first later step of the job that starts this guest, in each answer with the request, also
// after it was issued anew. A start in the same job asks nobody, so nobody could change the program back before it.
func TestAnotherProgramSaysWhichStepStartsIt(t *testing.T) {
	w := newWorld(t, "db", "web", "same")
	w.back.set(w.back.get("db"), op.Params{"command": "site", "memory": int64(5), "protected": true})
	w.back.set(w.back.get("same"), op.Params{"command": "web", "protected": true})
	swap, start := ask("guest.set-config", "db", "command", "web"), ask("guest.start", "db")
	same := ask("guest.set-config", "same", "command", "web", "protected", false)
	for _, c := range []struct {
		steps []op.Ask
		at    int
		want  string
	}{
		{[]op.Ask{swap}, 0, op.NoStart},
		{[]op.Ask{swap, start}, 0, "by %.2 of this job"},
		{[]op.Ask{swap, ask("guest.stop", "db"), ask("guest.restart", "db"), start}, 0, "by %.3 of this job"},
		{[]op.Ask{start, swap}, 1, op.NoStart},
		{[]op.Ask{swap, ask("guest.start", "web"), ask("guest.stop", "db")}, 0, op.NoStart},
		{[]op.Ask{same, ask("guest.start", "same")}, 0, op.SameProgram},
		{[]op.Ask{ask("guest.set-config", "db", "protected", false), start}, 0, ""},
		{[]op.Ask{ask("guest.wipe", "db"), start}, 0, ""},
	} {
		j := w.mustSubmit(c.steps...)
		id := j.Steps[c.at].ID
		want := c.want
		if len(want) > 4 && want[3] == '%' {
			want = "by " + id.Job.String() + want[4:]
		}
		said := func() {
			t.Helper()
			for _, r := range append(must.Get(w.gate.Requests(w.ctx, op.StatePending))(t), must.Get(w.gate.Request(w.ctx, id))(t), must.Get(w.gate.Shown(w.ctx, id))(t)) {
				if r.ID == id {
					require.Equal(t, want, factOf(r, op.FactStart), c.steps)
				}
			}
		}
		said()
		before := must.Get(w.gate.Request(w.ctx, id))(t)
		w.Pass(policy.MaxValidity + gate.Skew + time.Second)
		require.NoError(t, w.gate.Tick(w.ctx))
		require.NotEqual(t, before.Nonce, must.Get(w.gate.Request(w.ctx, id))(t).Nonce, "it was issued anew")
		said()
		must.Get(w.gate.Cancel(w.ctx, hub, j.ID))(t)
	}
	r := must.Get(w.offline(alice.envelope(t, w.payload(swap))))(t)
	require.Equal(t, op.NoStart, factOf(must.Get(w.gate.Request(w.ctx, r.ID))(t), op.FactStart), "its job has this step alone")
}
