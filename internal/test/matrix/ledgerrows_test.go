package matrix_test

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/ledger"
	"gated/internal/ledger/memory"
	"gated/internal/test/must"
)

// takesOver cuts the first member off from the ledger, and waits until the second one decides.
func (g *ledgerGate) takesOver() {
	g.t.Helper()
	g.second.follows(g.first)
	g.first.engine.Partition(true)
	g.second.becomes(api.RoleActive)
	g.decides = g.second
}

// back lets the first member hear that another one took over, which ends it.
func (g *ledgerGate) back() {
	g.t.Helper()
	g.first.engine.Partition(false)
	g.first.fenced()
}

// destroyed has the first member destroy the victim, as alice signed.
func (g *ledgerGate) destroyed() {
	g.t.Helper()
	require.NoError(g.t, g.first.approve())
	require.Equal(g.t, op.StateSucceeded, g.first.jobOf(g.request).State)
	require.Zero(g.t, g.cluster.VMID("victim"))
}

// awaitLog waits until the member logged a text.
func (m *memberDaemon) awaitLog(text string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool { return strings.Contains(m.logged(), text) }, time.Minute, 10*time.Millisecond, "%s did not log %q:\n%s", m.name, text, m.logged())
}

// held is why an active member may not act now, nil if it may.
func (m *memberDaemon) held() error {
	m.t.Helper()
	if e := must.Get(m.client.Status(m.t.Context()))(m.t).Member.Error; e != nil {
		return refusal.New(e.Code, "%s", e.Detail)
	}
	return nil
}

// takeoverRows are attacks by what two members may do against each other.
var takeoverRows = []ledgerRow{
	{id: "L07a", what: "an approval that one member accepted is handed in to the one that took over", want: refusal.Replayed, run: func(g *ledgerGate) error {
		g.destroyed()
		g.takesOver()
		g.arm()
		g.repair = g.back
		return g.second.approve()
	}},
	{id: "L07b", what: "the same, and the guest was made again under its name meanwhile", want: refusal.Replayed, run: func(g *ledgerGate) error {
		g.destroyed()
		require.Equal(g.t, op.StateSucceeded, g.first.submit("guest.create", "victim").State)
		g.takesOver()
		g.arm()
		g.repair = g.back
		return g.second.approve()
	}},
	{id: "L07c", what: "an approval that was kept, and whose answer was lost with the member, is handed in again", want: refusal.Replayed, run: func(g *ledgerGate) error {
		g.second.follows(g.first)
		g.first.loses.Store(true)
		told := make(chan error, 1)
		go func() { told <- g.first.approve() }()
		g.second.becomes(api.RoleActive)
		g.decides = g.second
		require.Equal(g.t, op.StateSucceeded, g.second.jobOf(g.request).State, "the approval was kept, so it counts")
		require.Zero(g.t, g.cluster.VMID("victim"))
		g.arm()
		err := g.second.approve()
		g.repair = func() {
			g.back()
			<-told // whatever it heard, it is the truth
		}
		return err
	}},
	{id: "L08a", what: "a signed step is at the cluster when another member takes over, and fails there: it runs again", want: refusal.Code(op.StateFailed), run: func(g *ledgerGate) error {
		held := g.cluster.Hold("qmdestroy")
		g.arm()
		require.NoError(g.t, g.first.approve())
		<-held.Asked() // so the first member recorded the task's id
		g.takesOver()
		held.Fail("a disk is busy")
		job := g.second.jobOf(g.request)
		// What the step changed before its last call is changed back.
		require.Eventually(g.t, func() bool { return reflect.DeepEqual(g.before, g.seen()) }, time.Minute, 10*time.Millisecond)
		g.asked = g.cluster.Counts().Change - g.changes
		require.Len(g.t, held.UPIDs(), 1, "the cluster was asked once")
		g.repair = g.back
		return refusal.Code(job.Steps[0].State)
	}},
	{id: "L09a", what: "a member of a lower era wakes up in a step, and sends its next call", want: refusal.Unavailable, run: func(g *ledgerGate) error {
		g.second.follows(g.first)
		g.cluster.SetRunning(g.cluster.VMID("victim"), true)
		g.arm()
		held := g.cluster.Hold("qmstop")
		g.touched["victim"], g.asked = true, 1 // by the first member, which stops it before it destroys it
		request := *g.first.submit("guest.destroy", "victim").Request
		require.NoError(g.t, failure(g.first.client.Approve(g.t.Context(), request, g.envelope(g.first, request))))
		<-held.Came()
		g.takesOver()
		require.Equal(g.t, op.StateInterrupted, g.second.jobOf(request).Steps[0].State)
		held.Release()
		g.first.awaitLog("a target is tried again later")
		require.Equal(g.t, g.before["victim"].Volumes, g.seen()["victim"].Volumes)
		g.repair = g.back
		return g.first.held()
	}},
	{id: "L09b", what: "a member of a lower era, which does not know of the takeover, is given an approval", want: refusal.Unavailable, run: func(g *ledgerGate) error {
		g.takesOver()
		g.arm()
		g.repair = g.back
		return g.first.approve()
	}},
	{id: "L09c", what: "the same, and the ledger answers it again", want: refusal.Unavailable, run: func(g *ledgerGate) error {
		g.arm()
		p := must.Get(g.ledger.Member().Position(g.t.Context()))(g.t)
		must.Get(g.ledger.Member().Take(g.t.Context(), p.Era))(g.t)
		err := g.first.approve()
		g.repair = func() {
			g.first.fenced()
			g.decides = g.second
		}
		return err
	}},
	{id: "L10a", what: "a second daemon with the active member's name", want: refusal.Conflict, run: func(g *ledgerGate) error {
		third := g.member(g.first.name)
		g.join(third)
		g.arm()
		return third.refuses()
	}},
	{id: "L12a", what: "an approval is sent to a standby", want: refusal.Standby, run: func(g *ledgerGate) error {
		g.second.follows(g.first)
		g.arm()
		return g.second.approve()
	}},
	{id: "L12b", what: "unsigned steps, a cancellation and a wish are sent to a standby", want: refusal.Standby, run: func(g *ledgerGate) error {
		g.second.follows(g.first)
		g.arm()
		ctx, c := g.t.Context(), g.second.client
		name, target := "guest.start", "guest/victim"
		require.ErrorIs(g.t, failure(c.Submit(ctx, api.Submit{Op: &name, Target: &target}, "")), refusal.Standby)
		require.ErrorIs(g.t, failure(c.Cancel(ctx, must.Get(c.Request(ctx, g.request))(g.t).Job)), refusal.Standby)
		require.ErrorIs(g.t, failure(c.Reject(ctx, g.request, g.signed)), refusal.Standby)
		require.ErrorIs(g.t, failure(c.SubmitSigned(ctx, g.signed)), refusal.Standby)
		return failure(c.PutSet(ctx, "hub", "", []byte("host: pve1\nguests: []\n")))
	}},
}

// losingEngine is an engine that loses the answer to a group which approves a step, and is cut off then.
type losingEngine struct {
	*memory.Member
	armed *atomic.Bool
}

// Append keeps the group in each case.
func (l losingEngine) Append(g ledger.Group) error {
	err := l.Member.Append(g)
	if err != nil || !l.armed.Load() || !authorizes(g) {
		return err
	}
	l.armed.Store(false)
	l.Partition(true)
	return ledger.ErrInDoubt
}

// authorizes reports whether a group has a step that is authorized from now on. A body is its form, the schema, the length
// of the changes, and these compressed.
func authorizes(g ledger.Group) bool {
	rest := g.Body[1:]
	for range 2 {
		_, n := binary.Uvarint(rest)
		rest = rest[n:]
	}
	changes, err := io.ReadAll(flate.NewReader(bytes.NewReader(rest)))
	return err == nil && bytes.Contains(changes, []byte(op.StateAuthorized))
}
