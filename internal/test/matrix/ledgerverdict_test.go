package matrix_test

import (
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/test/must"
)

// arm takes the snapshot: all before it is set-up, all after it the attack.
func (g *ledgerGate) arm() {
	g.t.Helper()
	g.before, g.changes = g.seen(), g.cluster.Counts().Change
}

// seen is every guest that the rows know.
func (g *ledgerGate) seen() map[string]seenGuest {
	out := map[string]seenGuest{}
	for _, name := range []string{"victim", "bystander"} {
		if id := g.cluster.VMID(name); id != 0 {
			out[name] = seenGuest{g.cluster.Guest(id), g.cluster.Volumes(id)}
		}
	}
	return out
}

// verdict asserts what has to hold after every attack on two members.
func (g *ledgerGate) verdict(r ledgerRow, err error) {
	t := g.t
	require.NotNil(t, g.before, "the row took no snapshot")
	require.Error(t, err, "ACCEPTED: %s", r.what)
	require.Equal(t, r.want, refusal.CodeOf(err), "%v", err)
	g.untouched()
	if g.repair != nil {
		g.repair()
	}
	if g.decides == nil {
		g.decides = g.first
	}
	g.decides.becomes(api.RoleActive)
	g.untouched() // whatever the attack left to run must change nothing either
	g.concludes()
	for _, m := range g.all {
		m.end()
		if m.joined() {
			require.Empty(t, must.Get(life.Fsck(t.Context(), m.state))(t).Problems, m.name)
		}
	}
}

// untouched asserts that the cluster was asked for no change, and that the guests are what they were.
func (g *ledgerGate) untouched() {
	g.t.Helper()
	require.Equal(g.t, g.changes+g.asked, g.cluster.Counts().Change, "the cluster was asked for a change")
	now := g.seen()
	for name, was := range g.before {
		if !g.touched[name] {
			require.Equal(g.t, was, now[name], "%s was changed", name)
		}
	}
}

// concludes proves that signed work goes on with the member that decides in the end: a destroy is approved for real, runs
// once, and reaches nothing but its target.
func (g *ledgerGate) concludes() {
	t, m := g.t, g.decides
	r := must.Get(m.client.Request(t.Context(), g.request))(t)
	if r.State != op.StatePending { // the row's approval was used
		if g.cluster.VMID("victim") == 0 {
			require.Equal(t, op.StateSucceeded, m.submit("guest.create", "victim").State)
		}
		g.request = *m.submit("guest.destroy", "victim").Request
		g.signed = g.envelope(m, g.request)
	}
	others := g.seen()
	require.NoError(t, m.approve())
	require.Equal(t, op.StateSucceeded, m.jobOf(g.request).State, "%s", m.logged())
	delete(others, "victim")
	require.Equal(t, others, g.seen(), "a signed step reached others, or did not reach its target")
	require.ErrorIs(t, m.approve(), refusal.Replayed)
}
