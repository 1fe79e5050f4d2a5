package gate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// Why each person approved is kept with the person's signature and in the log. It decides nothing.
func TestReasonsOfApprovals(t *testing.T) {
	w := people(t, two())
	r := w.request(ask("guest.destroy", "g"))
	e := w.signedBy(r.Payload, op.Operational, alice)
	e.Reason = "OPS-1234"
	must.Get(w.gate.Approve(w.ctx, hub, r.ID, e))(t)
	must.Get(w.approveAs(r, op.Operational, bob))(t)
	r = must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	require.Equal(t, map[string]string{"alice": "OPS-1234", "bob": ""},
		map[string]string{r.Signatures[0].Principal: r.Signatures[0].Reason, r.Signatures[1].Principal: r.Signatures[1].Reason})
	said := map[audit.Kind]string{}
	for _, entry := range must.Get(w.gate.Events(w.ctx, 0, 10000))(t) {
		said[entry.Kind] = entry.Reason
	}
	require.Equal(t, "OPS-1234", said[audit.Signed])
	require.Empty(t, said[audit.Approved], "bob said nothing")
	w.verifyLog()
}
