package gate_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

var signers = op.Target{Kind: "trust", Name: "signers"}

// keeper is a back end that also looks at the trust file, as its driver does.
type keeper struct {
	*backend
	gate func() *gate.Gate
}

func (k keeper) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	if t != signers {
		return k.backend.Observe(ctx, l)
	}
	g := k.gate()
	return op.Observed{Target: t, Present: true, Incarnation: op.Incarnation(g.ID()),
		Fingerprint: op.FingerprintOf(append(strconv.AppendInt(nil, g.Epoch(), 10), g.Trust().Text()...))}, nil
}

// rotating is a world whose trust file is in the journal, at epoch 1.
func rotating(t testing.TB, rules ...policy.Rule) *world {
	k := keeper{backend: newBackend()}
	var w *world
	k.gate = func() *gate.Gate { return w.gate }
	w = newWorldOn(t, k)
	w.back = k.backend
	text := string(w.trust.Text()) + bob.line("operational@gated") + mona.line("manager@gated") + carol2.line("coordination@gated")
	w.trust = must.Get(authz.LoadTrust([]byte(text)))(t)
	require.NoError(t, w.store.Update(w.ctx, func(tx *store.Tx) error {
		return journal.AddTrust(tx, journal.TrustVersion{Epoch: 1, Text: []byte(text), How: "test", At: w.Now()})
	}))
	require.NoError(t, w.gate.Log(w.ctx, gate.RotatedEntry("test", authz.Rotation{Trust: w.trust}, journal.TrustVersion{Epoch: 1})))
	require.NoError(t, w.gate.ReplaceTrust(w.ctx, w.trust))
	w.setRules(rules...)
	return w
}

func rotate(epoch int64, add, remove []string) op.Ask {
	p := op.Params{"epoch": epoch}
	for name, list := range map[string][]string{"add": add, "remove": remove} {
		if len(list) > 0 {
			var lines []any
			for _, l := range list {
				lines = append(lines, strings.TrimSuffix(l, "\n"))
			}
			p[name] = lines
		}
	}
	return op.Ask{Op: "trust.rotate", Target: signers, Params: p}
}

// rotateNow runs an authorized rotation as its driver does.
func (w *world) rotateNow(id op.StepID) error {
	p := must.Get(w.gate.Permit(w.ctx, id))(w.t)
	o := must.Get(w.observer.Observe(w.ctx, op.At(signers)))(w.t)
	if err := p.Use(w.ctx, o); err != nil {
		return err
	}
	_, err := w.gate.Rotate(w.ctx, p)
	after := must.Get(w.observer.Observe(w.ctx, op.At(signers)))(w.t)
	must.Get(w.gate.Record(w.ctx, id, gate.Outcome{Err: err, After: &after}))(w.t)
	return err
}

func (k key) print() string { return k.listed().Key }

func (k key) listed() authz.Listed {
	t, err := authz.LoadTrust([]byte(k.line("operational@gated")))
	if err != nil {
		panic(err)
	}
	return t.Signers()[0]
}

func TestPlannedRotation(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	dave := newKey("dave")
	r := w.request(rotate(2, []string{dave.line("operational@gated")}, []string{bob.print()}))
	require.Equal(t, []string{dave.print() + " operational"}, r.Owed)

	must.Fail(w.approveAs(r, op.Operational, alice))(t, refusal.BadParams, "it is not proved that dave has his key")
	must.Fail(w.approveAs(r, op.Coordination, dave))(t, refusal.UnknownSigner, "under another namespace it is no proof")
	r = must.Get(w.approveAs(r, op.Operational, dave))(t)
	require.Empty(t, r.Owed)
	require.Empty(t, r.Signatures, "a proof counts for nothing")
	require.Equal(t, op.StatePending, r.Step.State)
	must.Fail(w.approveAs(r, op.Operational, dave))(t, refusal.ThresholdUnmet)

	r = must.Get(w.approveAs(r, op.Operational, alice))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	require.NoError(t, w.rotateNow(r.ID))
	require.Equal(t, int64(2), w.gate.Epoch())

	w.back.put("g")
	g := w.request(ask("guest.destroy", "g"))
	must.Fail(w.approveAs(g, op.Operational, bob))(t, refusal.UnknownSigner)
	must.Get(w.approveAs(g, op.Operational, dave))(t)
	last := w.entryOf(audit.Rotated)
	require.Equal(t, int64(2), last.SignersFile.Epoch)
	require.Equal(t, []string{"+ " + dave.listed().String(), "- " + bob.listed().String()}, last.Keys)
	w.verifyLog()
}

// entryOf returns the newest entry of a kind.
func (w *world) entryOf(kind audit.Kind) (last audit.Entry) {
	entries := must.Get(w.gate.Events(w.ctx, 0, 1000))(w.t)
	for _, e := range entries {
		if e.Kind == kind {
			last = e
		}
	}
	return last
}

func TestProofAndApprovalInOneEnvelope(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	dave := newKey("dave")
	r := w.request(rotate(2, []string{dave.line("operational@gated")}, nil))
	r = must.Get(w.approveAs(r, op.Operational, alice, dave))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
}

func TestRightToRotate(t *testing.T) {
	t.Parallel()
	dave, ca := newKey("dave"), mint.Ed25519(t, "ca")
	caLine := ca.Line("*@example.com", `cert-authority,namespaces="operational@gated"`)
	for name, c := range map[string]struct {
		ask         op.Ask
		operational refusal.Code // what an operator's signature gets
	}{
		"a recovery key":         {rotate(2, []string{dave.line("recovery@gated")}, nil), refusal.RoleDenied},
		"a recovery key's end":   {rotate(2, []string{dave.line("recovery@gated")}, []string{rita.print()}), refusal.RoleDenied},
		"a CA":                   {rotate(2, []string{caLine}, nil), refusal.RoleDenied},
		"both in one line":       {rotate(2, []string{dave.line("operational@gated,recovery@gated")}, nil), refusal.RoleDenied},
		"an operator":            {rotate(2, []string{dave.line("operational@gated")}, nil), ""},
		"a coordinator":          {rotate(2, []string{dave.line("coordination@gated")}, nil), ""},
		"an operator for bob":    {rotate(2, []string{dave.line("operational@gated")}, []string{bob.print()}), ""},
		"an operator's end":      {rotate(2, nil, []string{bob.print()}), ""},
		"a role of its own":      {rotate(2, []string{dave.line("manager@gated")}, []string{mona.print()}), ""},
		"a coordinator replaced": {rotate(2, []string{dave.line("coordination@gated")}, []string{carol.print()}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := rotating(t)
			r := w.request(c.ask)
			must.Fail(w.approveAs(r, op.Coordination, carol))(t, refusal.RoleDenied)
			proofs := w.proofs(r, dave)
			if strings.Contains(name, "CA") {
				proofs = []string{mint.Sign(t, ca, op.Operational.Namespace(), r.Payload).Armored()}
			}
			if len(proofs) > 0 {
				must.Get(w.gate.Approve(w.ctx, hub, r.ID, authz.Envelope{Payload: r.Payload, Signatures: proofs}))(t)
			}
			got, err := w.approveAs(r, op.Operational, alice)
			if c.operational != "" {
				require.ErrorIs(t, err, c.operational)
				got, err = w.approveAs(r, op.Recovery, rita)
			}
			require.NoError(t, err)
			require.Equal(t, op.StateAuthorized, got.Step.State)
			require.NoError(t, w.rotateNow(r.ID))
			require.Equal(t, int64(2), w.gate.Epoch())
		})
	}
}

// proofs signs a rotation in every role that it adds the key for.
func (w *world) proofs(r op.Request, k key) []string {
	var out []string
	for _, role := range append(slices.Clone(op.Roles), "manager") {
		if slices.Contains(r.Owed, k.print()+" "+string(role)) {
			out = append(out, k.sign(w.t, role.Namespace(), r.Payload))
		}
	}
	return out
}

func TestRotationsThatCannotBe(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	dave := newKey("dave")
	for name, a := range map[string]op.Ask{
		"nothing":                  rotate(2, nil, nil),
		"the epoch again":          rotate(1, nil, []string{bob.print()}),
		"an epoch left out":        rotate(3, nil, []string{bob.print()}),
		"a key that is not listed": rotate(2, nil, []string{dave.print()}),
		"a key that is":            rotate(2, []string{bob.line("coordination@gated")}, nil),
		"a line that is none":      rotate(2, []string{"dave"}, nil),
		"a comment":                rotate(2, []string{"# dave"}, nil),
		"a role that is none here": rotate(2, []string{dave.line("manger@gated")}, nil),
		"no role":                  rotate(2, []string{dave.line("git")}, nil),
		"two lines in one":         rotate(2, []string{dave.line("operational@gated") + mallory.line("operational@gated")}, nil),
		"all operators":            rotate(2, nil, []string{alice.print(), bob.print()}),
		"all of recovery":          rotate(2, nil, []string{rita.print()}),
		"the last coordinator":     rotate(2, nil, []string{carol.print(), carol2.print()}),
		"operators by one expired": rotate(2, []string{strings.Replace(dave.line("operational@gated"), ` namespaces`, ` valid-before="20200101Z",namespaces`, 1)}, []string{alice.print(), bob.print()}),
	} {
		_, err := w.submit(a)
		require.Error(t, err, name)
		require.Contains(t, []refusal.Code{refusal.BadParams, refusal.Malformed}, refusal.CodeOf(err), name)
	}
	require.Equal(t, int64(1), w.gate.Epoch())
}

func TestRotationNeedsTheHighestThresholdOfItsRoles(t *testing.T) {
	t.Parallel()
	dave := newKey("dave")
	w := rotating(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Target: "guest/db-*", Threshold: 2})
	r := w.request(rotate(2, nil, []string{bob.print()}))
	require.Equal(t, 2, r.Missing(), "who may do what takes two is for two to say")
	r = must.Get(w.approveAs(r, op.Operational, alice))(t)
	require.Equal(t, op.StatePending, r.Step.State)
	require.Equal(t, 1, r.Missing())
	r = must.Get(w.approveAs(r, op.Recovery, rita))(t, "recovery is enough alone")
	require.Equal(t, op.StateAuthorized, r.Step.State)

	// The new key does not count for its own addition.
	w = rotating(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 2})
	r = w.request(rotate(2, []string{dave.line("operational@gated")}, nil))
	r = must.Get(w.approveAs(r, op.Operational, alice, dave))(t)
	require.Equal(t, op.StatePending, r.Step.State)

	w = rotating(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Role: "manager", Threshold: 1})
	r = w.request(rotate(2, []string{dave.line("manager@gated")}, nil))
	r = must.Get(w.gate.Approve(w.ctx, hub, r.ID, authz.Envelope{Payload: r.Payload, Signatures: []string{
		alice.sign(t, op.Operational.Namespace(), r.Payload), dave.sign(t, "manager@gated", r.Payload)}}))(t)
	require.Equal(t, op.StatePending, r.Step.State, "an operator does not make managers")
	r = must.Get(w.approveAs(r, "manager", mona))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
}

func TestOfTwoRotationsOneIsStale(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	first, second := w.request(rotate(2, nil, []string{bob.print()})), w.request(rotate(2, nil, []string{alice.print()}))
	for _, r := range []op.Request{first, second} {
		must.Get(w.approveAs(r, op.Recovery, rita))(t)
	}
	require.NoError(t, w.rotateNow(first.ID))
	require.Error(t, w.rotateNow(second.ID))
	got := must.Get(w.gate.Request(w.ctx, second.ID))(t)
	require.Equal(t, op.StateRefused, got.Step.State)
	require.Contains(t, []refusal.Code{refusal.BadParams, refusal.StaleTarget}, got.Step.Code)
	require.Equal(t, int64(2), w.gate.Epoch())
	require.NotEmpty(t, w.gate.Trust().Could(op.Operational, op.TouchNone, false, w.Now()))
}

func TestOnlyAUsedPermitRotates(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	w.back.put("g")
	r := w.request(rotate(2, nil, []string{bob.print()}))
	must.Get(w.approveAs(r, op.Operational, alice))(t)
	unused := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
	refused := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
	require.ErrorIs(t, refused.Use(w.ctx, op.Observed{Target: signers, Present: true, Incarnation: "other"}), refusal.StaleTarget)
	d := w.request(ask("guest.destroy", "g"))
	must.Get(w.approve(d))(t)
	other := must.Get(w.gate.Permit(w.ctx, d.ID))(t)
	require.NoError(t, other.Use(w.ctx, w.back.get("g")))
	for name, p := range map[string]gate.Permit{"the zero one": {}, "one not used": unused, "one that was refused": refused, "another step's": other} {
		must.Fail(w.gate.Rotate(w.ctx, p))(t, refusal.NotAllowed, name)
	}
	require.Equal(t, int64(1), w.gate.Epoch())
}

func TestProofsAloneMakeNoRequest(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	r := w.request(rotate(2, []string{mallory.line("operational@gated")}, nil))
	p := must.Get(op.DecodePayload(r.Payload))(t)
	p.Nonce = "AAAAAAAAAAAAAAAAAAAAAA"
	payload := must.Get(p.Encode())(t)
	must.Fail(w.gate.ApproveOffline(w.ctx, hub, w.signedBy(payload, op.Operational, mallory)))(t, refusal.UnknownSigner)
	got := must.Get(w.gate.ApproveOffline(w.ctx, hub, w.signedBy(payload, op.Operational, mallory, alice)))(t)
	require.Equal(t, op.StateAuthorized, got.Step.State)
}

// TestPeopleAtRandom walks at random through requests, signatures, revocations,
// changes of rules and time. It compares every authorization with the signatures and
// rules of that moment.
func TestPeopleAtRandom(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, newBackend())
	w.back = w.observer.(*backend)
	w.setTrust(string(w.trust.Text()) + bob.line("operational@gated") + mona.line("manager@gated"))
	made := 0
	rapid.Check(t, func(rt *rapid.T) { atRandom(w, rt, &made) })
}
