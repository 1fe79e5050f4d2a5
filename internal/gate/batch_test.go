package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/people/policy"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// dave is an operator who may sign no batch.
var dave = newKey("dave")

const bothNamespaces = "operational@gated,operational@batch.gated"

// batches is a world in which alice and bob may sign batches, and carol and dave may not.
func batches(t *testing.T, guests ...string) *world {
	w := newWorld(t, guests...)
	w.setTrust(alice.line(bothNamespaces) + bob.line(bothNamespaces) + dave.line("operational@gated") +
		rita.line("recovery@gated,recovery@batch.gated") + mona.line("manager@gated,manager@batch.gated"))
	return w
}

// batchOf is a batch over the requests' payloads, with an envelope for each request.
func (w *world) batchOf(k key, rs ...op.Request) []authz.Envelope { return w.batchWith(k, nil, rs...) }

// batchWith is batchOf with a change of the batch before it is signed.
func (w *world) batchWith(k key, change func(*op.Batch), rs ...op.Request) []authz.Envelope {
	w.t.Helper()
	var payloads [][]byte
	for _, r := range rs {
		payloads = append(payloads, r.Payload)
	}
	b, places := gateworld.Batch(w.t, w.Now(), payloads...)
	if change != nil {
		change(&b)
	}
	encoded := must.Get(b.Encode())(w.t)
	armor := k.sign(w.t, b.Role.BatchNamespace(), encoded)
	var out []authz.Envelope
	for i := range places {
		places[i].Batch = encoded
		out = append(out, authz.Envelope{Payload: payloads[i], Signatures: []string{armor}, Batch: &places[i]})
	}
	return out
}

func TestABatchApprovesEachOfItsRequestsOnce(t *testing.T) {
	w := batches(t, "a", "b", "c")
	var rs []op.Request
	for _, name := range []string{"a", "b", "c"} {
		rs = append(rs, w.request(ask("guest.destroy", name)))
	}
	es := w.batchOf(alice, rs[:2]...)
	for i := range 2 {
		r := must.Get(w.gate.Approve(w.ctx, hub, rs[i].ID, es[i]))(t)
		require.Equal(t, op.StateAuthorized, r.Step.State)
		must.Fail(w.gate.Approve(w.ctx, hub, rs[i].ID, es[i]))(t, refusal.Replayed)
		must.Fail(w.approveAs(rs[i], op.Operational, bob))(t, refusal.Replayed)
	}
	stored := must.Get(w.gate.Request(w.ctx, rs[1].ID))(t)
	require.Equal(t, es[1].Batch, stored.Signatures[0].Batch)
	require.NoError(t, authz.VerifyStored(stored.Payload, stored.Signatures[0]))
	w.run()
	require.False(t, w.back.has("a"))
	require.False(t, w.back.has("b"))
	require.True(t, w.back.has("c"), "what is in no batch waits")
	w.restart()
	must.Fail(w.gate.Approve(w.ctx, hub, rs[0].ID, es[0]))(t, refusal.Replayed)
	var words []string
	for _, e := range must.Get(w.gate.Events(w.ctx, 0, 1000))(t) {
		if e.Kind == audit.Approved {
			words = append(words, e.Signers...)
		}
	}
	require.Len(t, words, 2)
	for _, s := range words {
		require.True(t, strings.HasSuffix(s, " batch="+op.SHA256(es[0].Batch.Batch)), s)
	}
	w.verifyLog()
}

// TestABatchIsRefused: each case is one that a signature over the payload alone would pass, but for what it names.
func TestABatchIsRefused(t *testing.T) {
	as := func(role op.Role) func(*op.Batch) { return func(b *op.Batch) { b.Role = role } }
	lives := func(from, to time.Duration) func(*op.Batch) {
		return func(b *op.Batch) { b.IssuedAt, b.ExpiresAt = b.IssuedAt.Add(from), b.IssuedAt.Add(to) }
	}
	for _, c := range []struct {
		name   string
		by     key
		change func(*op.Batch)
		rules  []policy.Rule
		code   refusal.Code
		stage  refusal.Stage
	}{
		{"by a key whose line names no batch", dave, nil, nil, refusal.UnknownSigner, refusal.StageAllowList},
		{"by a key of no line", mallory, nil, nil, refusal.UnknownSigner, refusal.StageAllowList},
		{"as another role of the line", mona, as("manager"), nil, refusal.RoleDenied, refusal.StageRole},
		{"as a role that the line does not list", alice, as("manager"), nil, refusal.UnknownSigner, refusal.StageAllowList},
		{"as a role that the gate does not have", rita, as("director"), nil, refusal.NamespaceMismatch, refusal.StageNamespace},
		{"over another count", alice, func(b *op.Batch) { b.Count = 3 }, nil, refusal.BindingMismatch, refusal.StageInclusion},
		{"over another root", alice, func(b *op.Batch) { b.Root[0] ^= 1 }, nil, refusal.BindingMismatch, refusal.StageInclusion},
		{"expired", alice, lives(-time.Hour, -gate.Skew-time.Second), nil, refusal.Expired, refusal.StageTime},
		{"of later", alice, lives(gate.Skew+time.Second, time.Hour), nil, refusal.NotYetValid, refusal.StageTime},
		{"for too long", alice, lives(0, op.MaxBatchValidity+time.Second), nil, refusal.ValidityTooLong, refusal.StageTime},
		{"for longer than the rule's payload", alice, lives(0, 5*time.Minute+time.Second),
			[]policy.Rule{{Where: "r", Op: "guest.*", Threshold: 1, MaxValidity: 5 * time.Minute}}, refusal.ValidityTooLong, refusal.StageTime},
		{"where a rule refuses it", alice, nil,
			[]policy.Rule{{Where: "r", Op: "guest.destroy", Threshold: 1, Single: true}}, refusal.NotAllowed, refusal.StagePolicy},
		{"where a rule wants a verification", alice, nil,
			[]policy.Rule{{Where: "r", Op: "guest.destroy", Threshold: 1, Touch: op.TouchVerified}}, refusal.NotAllowed, refusal.StagePolicy},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := batches(t, "a", "b")
			w.setRules(c.rules...)
			a, b := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
			es := w.batchWith(c.by, c.change, a, b)
			_, err := w.gate.Approve(w.ctx, hub, a.ID, es[0])
			require.ErrorIs(t, err, c.code)
			require.Equal(t, c.stage, refusal.As(err).Stage)
			require.Equal(t, c.code, w.lastRefusal().Code)
			rec, _ := w.nonceOf(a.Nonce)
			require.Empty(t, rec.Fate)
			w.run()
			require.True(t, w.back.has("a"))
			if c.rules == nil {
				must.Get(w.gate.Approve(w.ctx, hub, a.ID, w.batchOf(alice, a, b)[0]))(t, "a good batch is taken")
			}
			w.verifyLog()
		})
	}
}

func TestABatchIsExactlyAtItsLimits(t *testing.T) {
	w := batches(t, "a", "b")
	a, b := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
	longest := w.batchWith(alice, func(b *op.Batch) { b.ExpiresAt = b.IssuedAt.Add(op.MaxBatchValidity) }, a, b)
	must.Get(w.gate.Approve(w.ctx, hub, a.ID, longest[0]))(t)
	w.Pass(op.MaxBatchValidity + gate.Skew)
	must.Get(w.gate.Approve(w.ctx, hub, b.ID, longest[1]))(t)
	w.Pass(time.Second)
	must.Fail(w.gate.Approve(w.ctx, hub, b.ID, longest[1]))(t, refusal.Expired)
}

// TestABatchExpiresWhileTheTargetIsLookedAt: it is in time when it is verified, and late when the gate decides. The payload
// lives on.
func TestABatchExpiresWhileTheTargetIsLookedAt(t *testing.T) {
	back := newBackend()
	slow := &slowObserver{backend: back}
	w := newWorldOn(t, slow)
	w.back = back
	w.setTrust(alice.line(bothNamespaces))
	back.put("a")
	r := w.request(ask("guest.destroy", "a"))
	e := w.batchWith(alice, func(b *op.Batch) { b.ExpiresAt = b.IssuedAt.Add(15 * time.Minute) }, r)[0]
	slow.during = func() { w.Pass(15*time.Minute + gate.Skew + time.Second) }
	_, err := w.gate.Approve(w.ctx, hub, r.ID, e)
	require.ErrorIs(t, err, refusal.Expired)
	require.ErrorContains(t, err, "the batch expired")
	slow.during = func() {}
	require.Empty(t, w.fate(r.Nonce))
	w.run()
	require.Empty(t, back.did())
	must.Get(w.approveAs(r, op.Operational, alice))(t, "the request waits on")
}

// TestABatchIsForTheRequestItNames: parts of a good batch, put together otherwise.
func TestABatchIsForTheRequestItNames(t *testing.T) {
	w := batches(t, "a", "b", "c")
	a, b, c := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b")), w.request(ask("guest.destroy", "c"))
	es := w.batchOf(alice, a, b)
	for name, one := range map[string]struct {
		e    authz.Envelope
		id   op.RequestID
		code refusal.Code
	}{
		"the envelope of another request":     {es[1], a.ID, refusal.BindingMismatch},
		"a payload that is no leaf":           {authz.Envelope{Payload: c.Payload, Signatures: es[0].Signatures, Batch: es[0].Batch}, c.ID, refusal.BindingMismatch},
		"the place of another leaf":           {authz.Envelope{Payload: a.Payload, Signatures: es[0].Signatures, Batch: es[1].Batch}, a.ID, refusal.BindingMismatch},
		"its signature as one of the payload": {authz.Envelope{Payload: a.Payload, Signatures: es[0].Signatures}, a.ID, refusal.NamespaceMismatch},
		"a signature of the payload as its":   {authz.Envelope{Payload: a.Payload, Signatures: w.signedBy(a.Payload, op.Operational, alice).Signatures, Batch: es[0].Batch}, a.ID, refusal.NamespaceMismatch},
		"the batch as a payload":              {authz.Envelope{Payload: es[0].Batch.Batch, Signatures: es[0].Signatures}, a.ID, refusal.Malformed},
		"the payload as a batch": {authz.Envelope{Payload: a.Payload, Signatures: w.signedBy(a.Payload, op.Operational, alice).Signatures,
			Batch: &op.Inclusion{Batch: a.Payload}}, a.ID, refusal.Malformed},
	} {
		_, err := w.gate.Approve(w.ctx, hub, one.id, one.e)
		require.ErrorIs(t, err, one.code, name)
	}
	must.Fail(w.gate.ApproveOffline(w.ctx, hub, es[0]))(t, refusal.Malformed, "a batch names its requests by their ids")
	must.Fail(w.gate.Reject(w.ctx, hub, a.ID, es[0]))(t, refusal.Malformed)
	for _, r := range []op.Request{a, b, c} {
		require.Equal(t, op.StatePending, must.Get(w.gate.Request(w.ctx, r.ID))(t).Step.State)
	}
	w.verifyLog()
}

// TestABatchOfAnEarlierPayload: a request that was issued anew is in no batch that was signed before.
func TestABatchOfAnEarlierPayload(t *testing.T) {
	w := batches(t, "a", "b")
	a, b := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
	es := w.batchOf(alice, a, b)
	w.back.change("a", func(o *op.Observed) { o.Spec = op.Params{"protected": true} })
	must.Fail(w.gate.Approve(w.ctx, hub, a.ID, es[0]))(t, refusal.StaleTarget)
	require.NoError(t, w.gate.Refresh(w.ctx, a.Step.Target))
	again := must.Get(w.gate.Request(w.ctx, a.ID))(t)
	require.NotEqual(t, a.Nonce, again.Nonce)
	must.Fail(w.gate.Approve(w.ctx, hub, a.ID, es[0]))(t, refusal.Superseded)
	must.Get(w.gate.Approve(w.ctx, hub, b.ID, es[1]))(t, "the rest of the batch is as it was")
	w.run()
	require.True(t, w.back.has("a"))
	require.False(t, w.back.has("b"))
	w.verifyLog()
}

// TestABatchAndASingleSignature: people count once, whatever they signed.
func TestABatchAndASingleSignature(t *testing.T) {
	w := batches(t, "a", "b")
	w.setRules(two())
	a, b := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
	es := w.batchOf(alice, a, b)
	require.Equal(t, 1, must.Get(w.gate.Approve(w.ctx, hub, a.ID, es[0]))(t).Missing())
	must.Fail(w.gate.Approve(w.ctx, hub, a.ID, es[0]))(t, refusal.ThresholdUnmet)
	must.Fail(w.approveAs(a, op.Operational, alice))(t, refusal.ThresholdUnmet)
	must.Get(w.approveAs(b, op.Operational, alice))(t)
	must.Fail(w.gate.Approve(w.ctx, hub, b.ID, es[1]))(t, refusal.ThresholdUnmet)
	require.Equal(t, op.StateAuthorized, must.Get(w.approveAs(a, op.Operational, bob))(t).Step.State)
	require.Equal(t, op.StateAuthorized, must.Get(w.gate.Approve(w.ctx, hub, b.ID, w.batchOf(bob, a, b)[1]))(t).Step.State)
	w.run()
	require.False(t, w.back.has("a"))
	require.False(t, w.back.has("b"))
	w.verifyLog()
}

// TestABatchCountsByTheRulesOfItsStep: a batch that counted counts no more if the line or a rule says so before the step
// runs. A single signature by the same key goes on.
func TestABatchCountsByTheRulesOfItsStep(t *testing.T) {
	for name, change := range map[string]func(*world){
		"the line names no batch": func(w *world) { w.setTrust(alice.line("operational@gated")) },
		"a rule refuses it":       func(w *world) { w.setRules(policy.Rule{Where: "r", Op: "guest.destroy", Threshold: 1, Single: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := batches(t, "a", "b")
			a, b := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
			must.Get(w.gate.Approve(w.ctx, hub, a.ID, w.batchOf(alice, a, b)[0]))(t)
			must.Get(w.approveAs(b, op.Operational, alice))(t)
			change(w)
			w.run()
			require.True(t, w.back.has("a"))
			require.False(t, w.back.has("b"))
			require.Equal(t, op.StateRefused, must.Get(w.gate.Request(w.ctx, a.ID))(t).Step.State)
			w.verifyLog()
		})
	}
}

// TestARuleThatRefusedABatchStillDoes: loosened rules do not loosen a request that waits.
func TestARuleThatRefusedABatchStillDoes(t *testing.T) {
	w := batches(t, "a", "b")
	w.setRules(policy.Rule{Where: "r", Op: "guest.destroy", Threshold: 1, Single: true})
	a, b := w.request(ask("guest.destroy", "a")), w.request(ask("guest.destroy", "b"))
	require.Empty(t, a.Need.BatchRoles())
	w.setRules()
	must.Fail(w.gate.Approve(w.ctx, hub, a.ID, w.batchOf(alice, a, b)[0]))(t, refusal.NotAllowed)
	must.Get(w.approveAs(a, op.Operational, alice))(t)
}

// TestNoBatchRotates: in no role does a batch approve a change of the signers, or prove that its signer has a new key.
func TestNoBatchRotates(t *testing.T) {
	nora := newKey("nora")
	w := rotating(t)
	w.back.put("a")
	w.setTrust(alice.line(bothNamespaces) + rita.line("recovery@gated,recovery@batch.gated"))
	r := w.request(rotate(w.gate.Epoch()+1, []string{nora.line(bothNamespaces)}, nil))
	require.Equal(t, []op.Role{op.Operational, op.Recovery}, r.Need.Roles())
	require.Empty(t, r.Need.BatchRoles())
	other := w.request(ask("guest.destroy", "a"))
	must.Fail(w.gate.Approve(w.ctx, hub, r.ID, w.batchOf(alice, r, other)[0]))(t, refusal.NotAllowed)
	must.Fail(w.gate.Approve(w.ctx, hub, r.ID, w.batchOf(nora, r, other)[0]))(t, refusal.UnknownSigner)
	require.Empty(t, must.Get(w.gate.Request(w.ctx, r.ID))(t).Proofs)
	// A batch of recovery has no form, because the name of its role is refused.
	_, places := gateworld.Batch(t, w.Now(), r.Payload, other.Payload)
	forged := []byte(strings.Replace(string(places[0].Batch), `"role":"operational"`, `"role":"recovery"`, 1))
	e := authz.Envelope{Payload: r.Payload, Signatures: []string{rita.sign(t, "recovery@batch.gated", forged)},
		Batch: &op.Inclusion{Batch: forged, Index: 0, Path: places[0].Path}}
	must.Fail(w.gate.Approve(w.ctx, hub, r.ID, e))(t, refusal.Malformed)
	w.verifyLog()
}
