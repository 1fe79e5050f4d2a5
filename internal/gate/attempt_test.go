package gate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// Each test here tries to make a destructive step run unsigned, or twice.

// TestPermitOfABenignStepIsJudgedAgain: between permit and use the step becomes one
// that takes data.
func TestPermitOfABenignStepIsJudgedAgain(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]func(op.Observed){
		"adopted": func(o op.Observed) { require.NoError(t, w.gate.Adopt(w.ctx, "fleet", o)) },
		"protected": func(op.Observed) {
			w.back.change("tmp", func(o *op.Observed) { o.Spec = op.Params{"protected": true} })
		},
		"a disk more": func(op.Observed) {
			w.back.change("tmp", func(o *op.Observed) { o.Storage = append(o.Storage, "disk:2") })
		},
		"too old":       func(op.Observed) { w.Pass(policy.ScratchMaxAge) },
		"clock doubted": func(op.Observed) { w.Set(-time.Hour) },
	} {
		w.back.remove("tmp")
		o := w.scratch("tmp")
		j := w.submitAs(builder, ask("guest.destroy", "tmp"))
		p := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(t)
		require.Equal(t, op.Benign, p.Step().Verdict.Class)
		c(o)
		require.ErrorIs(t, p.Use(w.ctx, w.back.get("tmp")), refusal.PendingSignature, name)
		if name == "clock doubted" {
			w.Set(time.Hour)
		}
		w.run()
		require.True(t, w.back.has("tmp"), name)
		must.Get(w.gate.Cancel(w.ctx, root, j.ID))(t)
	}
}

func TestPermitIsForItsTarget(t *testing.T) {
	w := newWorld(t)
	a, b := w.scratch("a"), w.scratch("b")
	w.back.put("real")
	r := w.request(ask("guest.destroy", "real"))
	w.mustApprove(r)
	j := w.submitAs(builder, ask("guest.destroy", "a"))
	for name, now := range map[string]op.Observed{
		"another guest":             b,
		"a real one":                w.back.get("real"),
		"nothing":                   {},
		"an absent other":           {Target: b.Target},
		"no identity":               {Target: a.Target, Present: true},
		"another under the name":    {Target: a.Target, Present: true, Incarnation: b.Incarnation, Fingerprint: b.Fingerprint},
		"a name with another state": {Target: b.Target, Present: true, Incarnation: a.Incarnation, Fingerprint: a.Fingerprint},
	} {
		for _, id := range []op.StepID{j.Steps[0].ID, r.ID} {
			if name == "a real one" && id == r.ID {
				continue
			}
			p, err := w.gate.Permit(w.ctx, id)
			if err != nil {
				continue // an earlier look refused it for good
			}
			require.Error(t, p.Use(w.ctx, now), "%s for %s", name, id)
		}
	}
	require.Empty(t, inState(w, op.StateDispatched))
}

func inState(w *world, s op.State) []op.Job {
	return must.Get(w.gate.Jobs(w.ctx, gate.JobFilter{State: s}))(w.t)
}

func TestCopiesOfAPermitAreOne(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		n := fmt.Sprintf("g%d", i)
		w.back.put(n)
		r := w.request(ask("guest.destroy", n))
		w.mustApprove(r)
		now := w.back.get(n)
		permits := make([]gate.Permit, 32)
		for k := range permits {
			if k%8 != 0 {
				permits[k] = permits[k-1] // a copy
				continue
			}
			p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
			permits[k] = p
		}
		require.Equal(t, 1, race(t, len(permits), refusal.Conflict, func(k int) error { return permits[k].Use(w.ctx, now) }))
		require.Equal(t, 1, w.job(r.ID.Job).Steps[0].Attempts)
		must.Fail(w.gate.Permit(w.ctx, r.ID))(t, refusal.Conflict)
	}
}

// TestNoCallerSubmitsAsTheGate: the gate may destroy scratch unsigned. A caller that
// claims to be the gate may not.
func TestNoCallerSubmitsAsTheGate(t *testing.T) {
	w := newWorld(t)
	w.scratch("tmp")
	for _, source := range []op.Source{op.SourceGate, op.SourceDesired, op.SourceOffline, "", "API"} {
		must.Fail(w.gate.Submit(w.ctx, op.Submission{Requester: op.Requester{Source: source, Agent: "builder"},
			Steps: []op.Ask{ask("guest.destroy", "tmp")}}))(t, refusal.NotAllowed, "%q", source)
	}
	w.run()
	require.True(t, w.back.has("tmp"))
}

func TestTheZeroPermitAndItsCopies(t *testing.T) {
	var p gate.Permit
	q := p
	require.ErrorIs(t, q.Use(t.Context(), op.Observed{}), refusal.NotAllowed)
	require.Equal(t, op.Step{}, p.Step())
}

// TestUseAfterTheStepEnded uses a permit after the step ended.
func TestUseAfterTheStepEnded(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		end  func(op.Request)
		want op.State
	}{
		"cancelled": {func(r op.Request) { _, err := w.gate.Cancel(w.ctx, hub, r.ID.Job); require.NoError(t, err) }, op.StateCancelled},
		"rejected":  {func(r op.Request) { w.mustReject(r) }, op.StateRejected},
		"refused":   {func(r op.Request) { _, err := w.gate.Refuse(w.ctx, r.ID, refusal.StaleTarget); require.NoError(t, err) }, op.StateRefused},
	} {
		w.back.put("a")
		r := w.request(ask("guest.destroy", "a"))
		w.mustApprove(r)
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
		c.end(r)
		require.ErrorIs(t, p.Use(w.ctx, w.back.get("a")), refusal.Conflict, name)
		require.Equal(t, c.want, w.job(r.ID.Job).State(), name)
	}
	w.back.put("b")
	a := ask("guest.destroy", "b")
	j := must.Get(w.gate.Want(w.ctx, "fleet", a))(t)
	w.mustApprove(w.requestOf(j, 1))
	p := must.Get(w.gate.Permit(w.ctx, j.Steps[0].ID))(t)
	require.NoError(t, w.gate.Withdraw(w.ctx, "fleet", a.Target, nil))
	require.ErrorIs(t, p.Use(w.ctx, w.back.get("b")), refusal.Conflict)
	require.Equal(t, op.StateCancelled, w.job(j.ID).State())
	w.run()
	require.Empty(t, w.back.did())
}

func TestUseAndRejectRace(t *testing.T) {
	w := newWorld(t)
	for i := range 8 {
		n := fmt.Sprintf("g%d", i)
		w.back.put(n)
		r := w.request(ask("guest.destroy", n))
		w.mustApprove(r)
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
		e, now := w.rejection(r, alice), w.back.get(n)
		var used, rejected error
		var wg sync.WaitGroup
		wg.Go(func() { used = p.Use(w.ctx, now) })
		wg.Go(func() { _, rejected = w.gate.Reject(w.ctx, hub, r.ID, e) })
		wg.Wait()
		require.NotEqual(t, used == nil, rejected == nil, "one of the two: %v, %v", used, rejected)
	}
}

// TestTwoStepsOfOneTargetAtOnce: each was signed, but the first changes what the
// second would act on.
func TestTwoStepsOfOneTargetAtOnce(t *testing.T) {
	w := newWorld(t, "a")
	one, two := w.request(ask("guest.wipe", "a")), w.request(ask("guest.destroy", "a"))
	w.mustApprove(one)
	w.mustApprove(two)
	p := must.Get(w.gate.Permit(w.ctx, two.ID))(t)
	w.use(one.ID)
	require.ErrorIs(t, p.Use(w.ctx, w.back.get("a")), refusal.Unavailable)
	require.Equal(t, op.StateAuthorized, w.job(two.ID.Job).State(), "it is tried again")
	_, ok := must.Two(w.gate.Runnable(w.ctx, one.Step.Target))(t)
	require.False(t, ok)
}

func TestDestroyAndStartRace(t *testing.T) { // B17
	w := newWorld(t, "a")
	start := w.mustSubmit(ask("guest.start", "a"))
	r := w.request(ask("guest.destroy", "a"))
	w.mustApprove(r)
	w.run()
	require.Equal(t, []string{"guest.destroy a"}, w.back.did(), "what is signed goes first")
	require.Equal(t, op.StateRefused, w.job(start.ID).State())

	w.back.put("a")
	r = w.request(ask("guest.destroy", "a"))
	w.mustApprove(r)
	start = w.mustSubmit(ask("guest.start", "a"))
	w.run()
	require.False(t, w.back.has("a"))
	require.Equal(t, op.StateRefused, w.job(start.ID).State(), "there is nothing to start")
}

// TestDispatchedIsNeverRunAgain tries everything with a step whose end is not known.
func TestDispatchedIsNeverRunAgain(t *testing.T) {
	w, r := newRequest(t, "a")
	e := alice.envelope(t, r.Payload)
	w.mustApprove(r)
	w.use(r.ID)
	for range 2 {
		must.Fail(w.gate.Permit(w.ctx, r.ID))(t, refusal.Conflict)
		must.Fail(w.gate.Approve(w.ctx, hub, r.ID, e))(t, refusal.Replayed)
		must.Fail(w.offline(e))(t, refusal.Replayed)
		must.Get(w.gate.Refuse(w.ctx, r.ID, refusal.StaleTarget))(t)
		require.Equal(t, op.StateDispatched, w.job(r.ID.Job).State(), "only its end ends it")
		must.Fail(w.gate.Cancel(w.ctx, root, r.ID.Job))(t, refusal.Conflict)
		require.NoError(t, w.gate.Refresh(w.ctx, r.Step.Target))
		require.NoError(t, w.gate.Tick(w.ctx))
		w.run()
		require.Empty(t, w.back.did())
		w.restart()
	}
	j := must.Get(w.submit(ask("guest.destroy", "a")))(t)
	require.Equal(t, r.ID.Job, j.ID, "the same wish, while it is under way")
	must.Get(w.gate.Record(w.ctx, r.ID, gate.Outcome{Unknown: true}))(t)
	w.run()
	require.Empty(t, w.back.did())
	again := w.request(ask("guest.destroy", "a"))
	require.NotEqual(t, r.ID, again.ID, "a new signature is asked for")
}

// TestConfigurationIsAskedAgain: the gate refuses a signed step if the configuration
// no longer names its command.
func TestConfigurationIsAskedAgain(t *testing.T) {
	w := newWorld(t, "a")
	w.back.change("a", func(o *op.Observed) { o.Spec = op.Params{"protected": true} })
	noCommands := func() {
		p := w.gate.Policy()
		p.Commands = nil
		require.NoError(t, w.gate.Reload(w.ctx, nil, p))
	}
	signed := must.Get(w.offline(alice.envelope(t, w.payload(ask("guest.create", "new", "command", "web")))))(t)
	benign := w.mustSubmit(ask("guest.create", "other", "command", "web"))
	waiting := w.request(ask("guest.set-config", "a", "protected", false, "command", "web"))
	second := w.request(ask("guest.destroy", "a"))
	noCommands()
	require.ErrorIs(t, w.execute(signed.ID), refusal.NotAllowed)
	require.Equal(t, op.StateRefused, w.job(signed.ID.Job).State())
	require.ErrorIs(t, w.execute(benign.Steps[0].ID), refusal.NotAllowed)
	w.run()
	require.Empty(t, w.back.did())

	w.Pass(policy.MaxValidity + gate.Skew + time.Second)
	require.NoError(t, w.gate.Tick(w.ctx), "one that cannot be issued anew keeps no other from it")
	require.Equal(t, op.StateRefused, w.job(waiting.ID.Job).State())
	require.Equal(t, refusal.NotAllowed, w.job(waiting.ID.Job).Steps[0].Code)
	again := w.requestOf(w.job(second.ID.Job), 1)
	require.NotEqual(t, second.Nonce, again.Nonce)
	w.mustApprove(again)
}

// TestShorterValidityCountsForWhatWaits: the stricter of the policy at the request
// and the policy in force applies.
func TestShorterValidityCountsForWhatWaits(t *testing.T) {
	w := newWorld(t, "a", "b")
	authorized, waiting := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
	w.mustApprove(authorized)
	p := w.gate.Policy()
	p.MaxValidity = time.Hour
	require.NoError(t, w.gate.Reload(w.ctx, nil, p))
	must.Fail(w.approve(waiting))(t, refusal.ValidityTooLong)
	require.NoError(t, w.gate.Tick(w.ctx))
	again := must.Get(w.gate.Request(w.ctx, waiting.ID))(t)
	require.Equal(t, time.Hour, again.ExpiresAt.Sub(again.IssuedAt))
	must.Fail(w.approve(waiting))(t, refusal.ValidityTooLong)
	w.mustApprove(again)

	w.Pass(time.Hour + gate.Skew + time.Second)
	require.ErrorIs(t, w.execute(authorized.ID), refusal.Expired)
	require.True(t, w.back.has("a"))
}

// TestTimePassesWhileTheTargetIsLookedAt: the envelope is in time when it is
// verified, and late when the gate decides.
func TestTimePassesWhileTheTargetIsLookedAt(t *testing.T) {
	back := newBackend()
	slow := &slowObserver{backend: back}
	w := newWorldOn(t, slow)
	w.back = back
	back.put("a")
	r := w.request(ask("guest.destroy", "a"))
	offline := alice.envelope(t, w.payload(ask("guest.wipe", "a")))
	slow.during = func() { w.Pass(policy.MaxValidity + gate.Skew + time.Second) }
	must.Fail(w.approve(r))(t, refusal.Expired)
	require.Empty(t, w.fate(r.Nonce))
	must.Fail(w.offline(offline))(t, refusal.Expired)
	w.run()
	require.Empty(t, back.did())
}

// slowObserver does something while it looks.
type slowObserver struct {
	*backend
	during func()
}

func (s *slowObserver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	if s.during != nil {
		s.during()
	}
	return s.backend.Observe(ctx, l)
}

// TestBackEndThatCannotBeLookedAt: after an error of the look the gate knows nothing
// of the target.
func TestBackEndThatCannotBeLookedAt(t *testing.T) {
	back := newBackend()
	blind := &blindObserver{backend: back}
	w := newWorldOn(t, blind)
	w.back = back
	back.put("a")
	r := w.request(ask("guest.destroy", "a"))
	for name, c := range map[string]struct {
		observe func(op.Observed) (op.Observed, error)
		want    refusal.Code
	}{
		"an error": {func(o op.Observed) (op.Observed, error) { return o, errors.New("no connection") }, refusal.Unavailable},
		"a refusal": {func(o op.Observed) (op.Observed, error) {
			return o, refusal.New(refusal.StaleTarget, "two have one id")
		}, refusal.StaleTarget},
		"another":    {func(o op.Observed) (op.Observed, error) { o.Target.Name = "b"; return o, nil }, refusal.Unavailable},
		"no id":      {func(o op.Observed) (op.Observed, error) { o.Incarnation = ""; return o, nil }, refusal.Unavailable},
		"no print":   {func(o op.Observed) (op.Observed, error) { o.Fingerprint = ""; return o, nil }, refusal.StaleTarget},
		"other kind": {func(o op.Observed) (op.Observed, error) { o.Target.Kind = "scope"; return o, nil }, refusal.Unavailable},
	} {
		blind.change = c.observe
		must.Fail(w.approve(r))(t, c.want, name)
		require.Empty(t, w.fate(r.Nonce), name)
		if name == "no print" {
			must.Fail(w.submit(ask("guest.wipe", "a")))(t, refusal.Malformed, name)
			continue
		}
		must.Fail(w.submit(ask("guest.wipe", "a")))(t, c.want, name)
		require.Error(t, w.gate.Refresh(w.ctx, r.Step.Target), name)
		w.Pass(time.Second)
		require.NoError(t, w.gate.Tick(w.ctx))
		require.Equal(t, op.StatePending, w.job(r.ID.Job).State(), name)
	}
	blind.change = nil
	w.mustApprove(r)
}

type blindObserver struct {
	*backend
	change func(op.Observed) (op.Observed, error)
}

func (b *blindObserver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	o, err := b.backend.Observe(ctx, l)
	if err == nil && b.change != nil {
		return b.change(o)
	}
	return o, err
}

// TestOldKeyIsNotAcceptedAfterReload: once Reload has returned, no approval,
// rejection or dispatch uses the old trust.
func TestOldKeyIsNotAcceptedAfterReload(t *testing.T) {
	w := newWorld(t)
	without := must.Get(authz.LoadTrust([]byte(mallory.line("operational@gated"))))(t)
	decided := map[audit.Kind]bool{audit.Approved: true, audit.Rejected: true, audit.Dispatched: true}
	for i := range 6 {
		var envelopes []authz.Envelope
		var requests []op.Request
		var permits []gate.Permit
		for k := range 6 {
			n := fmt.Sprintf("g%d-%d", i, k)
			w.back.put(n)
			r := w.request(ask("guest.destroy", n))
			if k%3 == 2 {
				w.mustApprove(r)
				p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
				permits = append(permits, p)
				continue
			}
			requests = append(requests, r)
			if k%3 == 1 {
				envelopes = append(envelopes, w.rejection(r, alice))
			} else {
				envelopes = append(envelopes, alice.envelope(t, r.Payload))
			}
		}
		var wg sync.WaitGroup
		for k, r := range requests {
			wg.Go(func() {
				if k%2 == 1 {
					_, _ = w.gate.Reject(w.ctx, hub, r.ID, envelopes[k])
				} else {
					_, _ = w.gate.Approve(w.ctx, hub, r.ID, envelopes[k])
				}
			})
		}
		for _, p := range permits {
			now := w.back.get(p.Step().Target.Name)
			wg.Go(func() { _ = p.Use(w.ctx, now) })
		}
		require.NoError(t, w.gate.ReplaceTrust(w.ctx, without))
		head := must.Get(w.gate.AuditHead(w.ctx))(t)
		wg.Wait()
		late := must.Get(w.gate.Events(w.ctx, head.Seq, 1000))(t)
		for _, e := range late {
			require.False(t, decided[e.Kind], "%s of %s came after Reload returned", e.Kind, e.Step)
			require.NotEqual(t, refusal.Internal, e.Code, "a race is no internal error: %s", e.Detail)
		}
		for _, r := range requests {
			_, err := w.approve(r)
			require.Error(t, err)
			require.NotEqual(t, refusal.Internal, refusal.CodeOf(err))
		}
		require.NoError(t, w.gate.ReplaceTrust(w.ctx, w.trust))
	}
	w.verifyLog()
}

func TestReloadedTrustIsVerifiedAgain(t *testing.T) {
	back := newBackend()
	slow := &slowObserver{backend: back}
	w := newWorldOn(t, slow)
	w.back = back
	back.put("a")
	r := w.request(ask("guest.destroy", "a"))
	without := must.Get(authz.LoadTrust([]byte(mallory.line("operational@gated"))))(t)
	moved := false
	slow.during = func() {
		if !moved { // between verification and commit
			moved = true
			require.NoError(t, w.gate.ReplaceTrust(w.ctx, without))
		}
	}
	must.Fail(w.approve(r))(t, refusal.UnknownSigner)
	require.Empty(t, w.fate(r.Nonce))
	moved = true
	require.NoError(t, w.gate.ReplaceTrust(w.ctx, w.trust))
	moved = false
	slow.during = func() {
		if !moved { // the rules changed, but the key is still listed
			moved = true
			require.NoError(t, w.gate.ReplaceTrust(w.ctx, w.trust))
		}
	}
	must.Get(w.approve(r))(t)
	loose := w.gate.Policy()
	loose.MaxValidity = policy.MaxValidity + 1
	require.ErrorIs(t, w.gate.Reload(w.ctx, nil, loose), refusal.BadParams)
}
