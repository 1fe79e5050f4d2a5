package gate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

func (w *world) submitWith(by op.Requester, reason string, asks ...op.Ask) (op.Job, error) {
	return w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: asks, Reason: reason})
}

// rejectNew submits a step of its own and has an operator reject it.
func (w *world) rejectNew(by op.Requester, reason string, asks ...op.Ask) op.Job {
	w.t.Helper()
	j := must.Get(w.submitWith(by, reason, asks...))(w.t)
	w.mustReject(w.requestOf(j, len(j.Steps)))
	return j
}

func (w *world) setHolds(d time.Duration) {
	w.t.Helper()
	p := w.gate.Policy()
	p.RejectHolds = d
	require.NoError(w.t, w.gate.Reload(w.ctx, nil, p))
}

// rejections returns how many rows remember rejections.
func (w *world) rejections() (n int) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM rejections`).Scan(&n)
	}))
	return n
}

func TestARejectedWishIsRefusedForAnHour(t *testing.T) {
	w := newWorld(t, "a", "b")
	a := ask("guest.destroy", "a")
	j := w.rejectNew(hub, "not needed", a)
	_, err := w.submitWith(hub, "not needed", a)
	r := refusal.As(err)
	require.Equal(t, refusal.RejectedBefore, r.Code)
	require.Contains(t, r.Detail, "alice rejected the same wish of uid:1000 at 2026-03-01T12:00:00Z (j1.1), with the words \"no\"")
	require.Contains(t, r.Detail, "refused until 2026-03-01T13:00:00Z")
	require.Contains(t, r.Hint, "a new reason (--reason), or wait until 2026-03-01T13:00:00Z")
	require.Equal(t, j.Steps[0].ID.String(), r.Request)
	require.Equal(t, string(op.StateRejected), r.State)
	require.Equal(t, refusal.RejectedBefore, w.lastRefusal().Code)

	for _, same := range []string{" not  needed ", "Not needed.", "", " "} {
		must.Fail(w.submitWith(hub, same, a))(t, refusal.RejectedBefore, same)
	}
	for name, again := range map[string]func() (op.Job, error){
		"a new reason":      func() (op.Job, error) { return w.submitWith(hub, "the disk is full", a) },
		"another caller":    func() (op.Job, error) { return w.submitWith(other, "not needed", a) },
		"another target":    func() (op.Job, error) { return w.submitWith(hub, "not needed", ask("guest.destroy", "b")) },
		"another operation": func() (op.Job, error) { return w.submitWith(hub, "not needed", ask("guest.wipe", "a")) },
	} {
		j := must.Get(again())(t, name)
		require.Equal(t, op.StatePending, j.State(), name)
	}
	w.Pass(time.Hour - time.Millisecond)
	must.Fail(w.submitWith(hub, "not needed", a))(t, refusal.RejectedBefore)
	w.Pass(time.Millisecond)
	must.Get(w.submitWith(hub, "not needed", a))(t, "an hour has passed")
}

// TestAnAgentOfTheSameCallerIsRefused: a caller chooses the names of its agents.
func TestAnAgentOfTheSameCallerIsRefused(t *testing.T) {
	w := newWorld(t, "a")
	a := ask("guest.destroy", "a")
	w.rejectNew(op.Requester{Source: op.SourceAPI, UID: 1000, Agent: "builder#1"}, "", a)
	for _, name := range []string{"", "builder#2", "tester#3"} {
		must.Fail(w.submitWith(op.Requester{Source: op.SourceAPI, UID: 1000, Agent: name}, "", a))(t, refusal.RejectedBefore)
	}
	must.Get(w.submitWith(op.Requester{Source: op.SourceAPI, UID: 1001, Agent: "builder#1"}, "", a))(t)
}

func TestEachRequesterIsRefusedForItsOwnReason(t *testing.T) {
	w := newWorld(t, "a")
	a := ask("guest.destroy", "a")
	j := must.Get(w.submitWith(hub, "first", a))(t)
	again := must.Get(w.submitWith(other, "second", a))(t)
	require.Equal(t, j.ID, again.ID)
	reasons := []op.Reason{{By: "uid:1000", Text: "first"}, {By: "uid:1001", Text: "second"}}
	require.Equal(t, reasons, again.Reasons)
	require.Equal(t, "first", again.Reason, "the signed one")
	r := w.requestOf(j, 1)
	require.Equal(t, reasons, r.Reasons)
	joined := w.entryOf(audit.Joined)
	require.Equal(t, "uid:1001", joined.By)
	require.Equal(t, "second", joined.Reason)
	w.mustReject(r)
	must.Fail(w.submitWith(hub, "first", a))(t, refusal.RejectedBefore)
	must.Fail(w.submitWith(other, "second", a))(t, refusal.RejectedBefore)
	must.Get(w.submitWith(hub, "second", a))(t, "that was the other one's")
	must.Fail(w.submitWith(hub, "first", a))(t, refusal.RejectedBefore, "also while the same wish is open for another reason")
}

func TestARejectionIsKeptOverARestartAndAJumpOfTheClock(t *testing.T) {
	w := newWorld(t, "a")
	a := ask("guest.destroy", "a")
	w.rejectNew(hub, "", a)
	w.restart()
	must.Fail(w.submitWith(hub, "", a))(t, refusal.RejectedBefore)
	w.Set(48 * time.Hour)
	must.Fail(w.submitWith(hub, "", a))(t, refusal.RejectedBefore, "the gate does not believe that clock")
	w.Set(-96 * time.Hour)
	w.restart()
	must.Fail(w.submitWith(hub, "", a))(t, refusal.RejectedBefore)
	w.Set(48 * time.Hour)
	w.Pass(time.Hour)
	must.Get(w.submitWith(hub, "", a))(t)
}

func TestRejectHoldsIsThePolicyOfNow(t *testing.T) {
	w := newWorld(t, "a")
	a := ask("guest.destroy", "a")
	w.setHolds(0)
	w.rejectNew(hub, "", a)
	w.setHolds(policy.MaxRejectHolds)
	must.Fail(w.submitWith(hub, "", a))(t, refusal.RejectedBefore, "it is remembered also while nothing is refused")
	w.Pass(policy.MaxRejectHolds - time.Second)
	must.Fail(w.submitWith(hub, "", a))(t, refusal.RejectedBefore)
	w.setHolds(0)
	must.Get(w.submitWith(hub, "", a))(t)
	p := w.gate.Policy()
	for _, d := range []time.Duration{-1, policy.MaxRejectHolds + 1} {
		p.RejectHolds = d
		require.ErrorIs(t, w.gate.Reload(w.ctx, nil, p), refusal.BadParams)
	}
}

// TestARejectedStepIsRefusedInEveryJob: an agent puts it into another job, or asks for the steps one by one.
func TestARejectedStepIsRefusedInEveryJob(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	a, b, c := ask("guest.destroy", "a"), ask("guest.destroy", "b"), ask("guest.destroy", "c")
	w.rejectNew(hub, "clean up", a, b) // the operator rejects b
	_, err := w.submitWith(hub, "clean up", a, b)
	require.ErrorIs(t, err, refusal.RejectedBefore)
	require.Contains(t, refusal.As(err).Detail, "step 2: ")
	must.Fail(w.submitWith(hub, "clean up", b))(t, refusal.RejectedBefore)
	must.Fail(w.submitWith(hub, "clean up", c, b))(t, refusal.RejectedBefore)
	must.Fail(w.submitWith(hub, "clean up", ask("guest.create", "new"), b))(t, refusal.RejectedBefore)
	require.False(t, w.back.has("new"), "nothing of such a job runs")
	must.Get(w.submitWith(hub, "clean up", a))(t, "no operator rejected that step")
	must.Get(w.submitWith(hub, "clean up c", c, b))(t)
}

// TestARejectedStepIsRefusedWhenItLosesNothingAnyMore: the operator's no was to the step, and not to its class.
func TestARejectedStepIsRefusedWhenItLosesNothingAnyMore(t *testing.T) {
	w := newWorld(t, "a")
	w.back.change("a", func(o *op.Observed) { o.Running, o.Volatile = "running", true })
	stop := ask("guest.stop", "a")
	w.rejectNew(hub, "", stop)
	w.back.change("a", func(o *op.Observed) { o.Volatile = false })
	must.Fail(w.submitWith(hub, "", stop))(t, refusal.RejectedBefore)
	require.Equal(t, op.StatePlanned, must.Get(w.submitWith(hub, "it is idle now", stop))(t).State())
}

// TestAPlannedStepThatTurnsIntoARejectedWishIsNotAsked: it is planned as harmless, and would lose something when it runs.
func TestAPlannedStepThatTurnsIntoARejectedWishIsNotAsked(t *testing.T) {
	w := newWorld(t, "a")
	w.back.change("a", func(o *op.Observed) { o.Running = "running" })
	stop := ask("guest.stop", "a")
	planned := must.Get(w.submitWith(hub, "", stop))(t)
	require.Equal(t, op.StatePlanned, planned.State())
	w.back.change("a", func(o *op.Observed) { o.Volatile = true })
	w.rejectNew(hub, "", stop)
	err := w.execute(planned.Steps[0].ID)
	require.ErrorIs(t, err, refusal.RejectedBefore)
	s := w.job(planned.ID).Steps[0]
	require.Equal(t, op.StateRefused, s.State)
	require.Equal(t, refusal.RejectedBefore, s.Code)
	require.Empty(t, must.Get(w.gate.Requests(w.ctx, op.StatePending))(t))
}

// TestAKeyKeepsItsAnswerAboutARejection: the answer that was recorded for a key stays, whatever is decided later.
func TestAKeyKeepsItsAnswerAboutARejection(t *testing.T) {
	w := newWorld(t, "a")
	keyed := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.destroy", "a")}, IdempotencyKey: "k1"}
	j := must.Get(w.gate.Submit(w.ctx, keyed))(t)
	w.mustReject(w.requestOf(j, 1))
	require.Equal(t, j.ID, must.Get(w.gate.Submit(w.ctx, keyed))(t).ID, "the key's answer is the rejected job")
	keyed.IdempotencyKey = "k2"
	must.Fail(w.gate.Submit(w.ctx, keyed))(t, refusal.RejectedBefore)
	w.Pass(2 * time.Hour)
	must.Fail(w.gate.Submit(w.ctx, keyed))(t, refusal.RejectedBefore, "the key's answer")
	keyed.IdempotencyKey = "k3"
	must.Get(w.gate.Submit(w.ctx, keyed))(t)
}

// TestADesiredSetAsksOnceUntilItWithdraws: reject_holds makes no difference for it.
func TestADesiredSetAsksOnceUntilItWithdraws(t *testing.T) {
	w := newWorld(t, "a")
	a := ask("guest.destroy", "a")
	w.mustReject(w.requestOf(must.Get(w.gate.Want(w.ctx, "fleet", a))(t), 1))
	before, rows := len(w.kinds()), w.rejections()
	for range 50 {
		must.Fail(w.gate.Want(w.ctx, "fleet", a))(t, refusal.Rejected)
		w.Pass(10 * time.Minute)
	}
	require.Len(t, w.kinds(), before, "a set repeats its wish each period, and nothing is written")
	require.Equal(t, rows, w.rejections())
	must.Fail(w.submitWith(hub, "", ask("guest.no-such", "a")))(t, refusal.UnknownOp)
	must.Fail(w.gate.Want(w.ctx, "fleet", a))(t, refusal.Rejected)

	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	j := must.Get(w.gate.Want(w.ctx, "fleet", a))(t, "at once, not after an hour")
	w.mustReject(w.requestOf(j, 1))
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	must.Get(w.gate.Want(w.ctx, "fleet", a))(t, "however often")
}

// TestACallerThatIsRefusedLetsNoSetAskAgain: only an ask that is accepted overtakes a rejection.
func TestACallerThatIsRefusedLetsNoSetAskAgain(t *testing.T) {
	w := newWorld(t, "a")
	a := ask("guest.destroy", "a")
	j := must.Get(w.submitWith(hub, "x", a))(t)
	must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	w.mustReject(w.requestOf(j, 1))
	must.Fail(w.submitWith(hub, "x", a))(t, refusal.RejectedBefore)
	must.Fail(w.gate.Want(w.ctx, "fleet", a))(t, refusal.Rejected)
	must.Get(w.submitWith(hub, "y", a))(t)
	must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
}

func TestARequestHasTheRejectionsOfItsWish(t *testing.T) {
	w := newWorld(t, "a", "b")
	a := ask("guest.destroy", "a")
	require.Zero(t, w.request(ask("guest.destroy", "b")).TimesRejected)
	var ids []op.RequestID
	for i := range 10 {
		by := []op.Requester{hub, other}[i%2]
		ids = append(ids, w.rejectNew(by, fmt.Sprint("reason ", i), a).Steps[0].ID)
		w.Pass(time.Minute)
	}
	j := must.Get(w.submitWith(root, "now really", a))(t)
	r := w.requestOf(j, 1)
	require.Equal(t, 10, r.TimesRejected)
	require.Len(t, r.Rejections, 8, "the newest")
	newest := r.Rejections[0]
	require.Equal(t, ids[9], newest.Request)
	require.Equal(t, []string{"alice"}, newest.By)
	require.Equal(t, []string{"uid:1001"}, newest.AskedBy)
	require.Equal(t, "no", newest.Words)
	require.Equal(t, w.Now().Add(-time.Minute), newest.At)
	page := must.Get(w.gate.Requests(w.ctx, op.StatePending))(t)
	i := slices.IndexFunc(page, func(p op.Request) bool { return p.ID == r.ID })
	require.Equal(t, r.Rejections, page[i].Rejections)
	first := must.Get(w.gate.Request(w.ctx, ids[0]))(t)
	require.Equal(t, 9, first.TimesRejected, "without its own")
}

// started tells fsck of a program that remembers rejections.
func (w *world) started() {
	w.t.Helper()
	require.NoError(w.t, w.gate.Log(w.ctx, audit.Entry{Kind: audit.Started, By: "gate", Schema: 13}))
}

func TestRejectionsAreBounded(t *testing.T) {
	w := newWorld(t, "a")
	w.started()
	a := ask("guest.destroy", "a")
	n := journal.RejectionsPerCaller + 5
	for i := range n {
		w.rejectNew(hub, fmt.Sprint("reason ", i), a)
	}
	w.rejectNew(other, "", a)
	require.Equal(t, journal.RejectionsPerCaller+1, w.rejections())
	must.Fail(w.submitWith(hub, fmt.Sprint("reason ", n-1), a))(t, refusal.RejectedBefore)
	must.Fail(w.submitWith(hub, "reason 5", a))(t, refusal.RejectedBefore)
	must.Fail(w.submitWith(other, "", a))(t, refusal.RejectedBefore, "one caller's rejections leave the others' rows")
	must.Get(w.submitWith(hub, "reason 4", a))(t, "the oldest made room")
}

func TestRejectionsAreForgottenAfterThirtyDays(t *testing.T) {
	w := newWorld(t, "a")
	w.started()
	for i := range 3 {
		w.rejectNew(hub, fmt.Sprint("reason ", i), ask("guest.destroy", "a"))
	}
	for range 30 {
		w.Pass(24 * time.Hour)
		require.NoError(t, w.gate.Tick(w.ctx))
	}
	require.Equal(t, 3, w.rejections())
	for range 2 {
		w.Pass(time.Hour)
		w.Pass(24 * time.Hour)
		require.NoError(t, w.gate.Tick(w.ctx))
	}
	require.Zero(t, w.rejections())
}

// TestWordsOfARejectionStayInTheirQuotes: they are an operator's, and may have what a terminal or a reader would take for more.
func TestWordsOfARejectionStayInTheirQuotes(t *testing.T) {
	w := newWorld(t, "a")
	r := w.request(ask("guest.destroy", "a"))
	words := `no"; for the same reason it is refused until 1970-01-01T00:00:00Z` + strings.Repeat("ä", 300)
	must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejectionWith(r, alice, func(p *op.Rejection) { p.Reason = words })))(t)
	_, err := w.submit(ask("guest.destroy", "a"))
	require.Contains(t, refusal.As(err).Detail, `with the words "no\"; for the same`)
	require.Less(t, len(refusal.As(err).Detail), 700)
}

// TestTheSameWishOfTheSameCallerForTheSameReason is the rule as a property: exactly such an ask is refused, and only while
// the policy says so.
func TestTheSameWishOfTheSameCallerForTheSameReason(t *testing.T) {
	w := newWorld(t, "a", "b")
	uids := []uint32{1000, 1001}
	rapid.Check(t, func(rt *rapid.T) {
		w.Pass(policy.MaxRejectHolds + time.Second) // what a walk before did is over
		for _, r := range must.Get(w.gate.Requests(w.ctx, op.StatePending))(t) {
			must.Get(w.gate.Cancel(w.ctx, root, r.ID.Job))(t)
		}
		holds := time.Duration(rapid.SampledFrom([]int{0, 1, 60, 3600}).Draw(rt, "holds")) * time.Second
		w.setHolds(holds)
		type wish struct {
			uid            uint32
			reason, target string
			op             string
		}
		rejected := map[wish]time.Time{}
		for range rapid.IntRange(1, 12).Draw(rt, "asks") {
			m := wish{rapid.SampledFrom(uids).Draw(rt, "uid"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, "reason"),
				rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "target"), rapid.SampledFrom([]string{"guest.destroy", "guest.wipe"}).Draw(rt, "op")}
			by := op.Requester{Source: op.SourceAPI, UID: m.uid, Agent: rapid.SampledFrom([]string{"", "x#1", "y#2"}).Draw(rt, "agent")}
			j, err := w.submitWith(by, m.reason, ask(m.op, m.target))
			held := false
			for r, at := range rejected {
				// No reason is never a new one.
				same := r == m || m.reason == "" && r.uid == m.uid && r.target == m.target && r.op == m.op
				held = held || same && w.Now().Before(at.Add(holds))
			}
			if held {
				require.ErrorIs(rt, err, refusal.RejectedBefore)
			} else {
				require.NoError(rt, err)
				w.mustReject(w.requestOf(j, 1))
				rejected[m] = w.Now()
			}
			w.Pass(time.Duration(rapid.SampledFrom([]int{0, 1, 30, 1800, 3599}).Draw(rt, "pass")) * time.Second)
			if rapid.Bool().Draw(rt, "restart") {
				w.gate.Tick(w.ctx)
			}
		}
	})
}
