package ha

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

// TestDemo is what make demo-ha plays: the active member and the primary server are killed while an operation that was
// signed is under way.
func TestDemo(t *testing.T) {
	w := newWorld(t)
	w.say("1. A gate with a ledger on a PostgreSQL pair, and a second member")
	a := w.first()
	a.serve(api.RoleActive)
	b := w.join("node2", a)
	b.serve(api.RoleStandby)
	id := a.status().Gate
	w.say("   gate %s: node1 decides, node2 stands by", id)

	w.say("2. Two guests, and an operation on one of them that waits for a signature")
	require.Equal(t, op.StateSucceeded, a.submit("guest.create", "web").State)
	require.Equal(t, op.StateSucceeded, a.submit("guest.create", "db").State)
	j := a.submit("guest.destroy", "web")
	require.Equal(t, op.StatePending, j.State)
	require.NotZero(t, w.cluster.VMID("web"))
	before := a.entries()

	w.say("3. Alice signs. While the cluster destroys the guest, the active member and the primary are killed")
	held := w.cluster.Hold("qmdestroy")
	a.approve(*j.Request)
	<-held.Asked() // so the active member recorded the task's id
	signed := a.entries()
	a.kill()
	w.pair.First.Kill(t)
	killed := time.Now()
	held.Release()

	w.say("4. The standby server is promoted, and gets a standby of its own")
	w.pair.Second.Promote(t)
	w.pair.Second.Standby(t, "third", w.pair.Second.Port)
	w.pair.Second.Set(t, "synchronous_standby_names", "third")
	w.pair.Second.Synchronous(t)
	promoted := time.Now()
	b.becomes(api.RoleActive)
	w.say("   node2 decides %s after the kill, %s after the promotion", time.Since(killed).Round(100*time.Millisecond), time.Since(promoted).Round(100*time.Millisecond))

	w.say("5. Nothing is lost, nothing happens twice")
	require.Equal(t, id, b.status().Gate)
	require.Equal(t, op.StateSucceeded, b.await(j.ID).State)
	require.Zero(t, w.cluster.VMID("web"))
	require.NotZero(t, w.cluster.VMID("db"))
	require.Len(t, held.UPIDs(), 1, "the cluster was asked once")
	after := b.entries()
	require.Greater(t, len(after), len(signed))
	require.Equal(t, signed, after[:len(signed)], "the same log goes on")
	require.Greater(t, len(signed), len(before))
	request := must.Get(b.client.Request(t.Context(), *j.Request))(t)
	require.Equal(t, op.StateSucceeded, request.State)

	w.say("6. node1 starts again: it is a standby now")
	a.serve(api.RoleStandby)
	require.Equal(t, "node2", a.status().Member.Active)
	w.run("gated", "member", "ledger", "verify", "--state", a.state)
	w.run("gated", "audit", "verify", "--socket", b.socket)
	w.run("gated", "member", "takeover", "--socket", a.socket)
	w.say("   and an operator has it decide: %s", a.status().Member.Role)
	require.Equal(t, op.StateSucceeded, a.submit("guest.create", "new").State)

	w.say("7. Alice names both members, and opsign finds the one that decides. Her witness of the log goes on")
	j = a.submit("guest.destroy", "db")
	both := b.socket + "," + a.socket
	w.run("opsign", "list", "--json", "--socket", both)
	w.run("opsign", "show", *j.Request, "--socket", both)
	fmt.Print(w.run("opsign", "approve", *j.Request, "--key", w.key, "--yes", "--socket", both))
	require.Equal(t, op.StateSucceeded, a.await(j.ID).State)
	require.Zero(t, w.cluster.VMID("db"))
}
