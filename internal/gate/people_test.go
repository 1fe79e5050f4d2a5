package gate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
)

// bob is a second operator, mona a manager.
var bob, mona = newKey("bob"), newKey("mona")

// people is a world with two operators and a manager, and with rules.
func people(t *testing.T, rules ...policy.Rule) *world {
	w := newWorld(t)
	w.back.put("g")
	text := w.trust.Text()
	for _, line := range []string{bob.line("operational@gated"), mona.line("manager@gated")} {
		text = append(text, line...)
	}
	w.setTrust(string(text))
	w.setRules(rules...)
	return w
}

func (w *world) setTrust(text string) {
	w.t.Helper()
	var err error
	w.trust, err = authz.LoadTrust([]byte(text))
	require.NoError(w.t, err)
	require.NoError(w.t, w.gate.ReplaceTrust(w.ctx, w.trust))
}

func (w *world) setRules(rules ...policy.Rule) {
	w.t.Helper()
	p := w.gate.Policy()
	p.Roles, p.Rules = []op.Role{"manager"}, rules
	require.NoError(w.t, w.gate.Reload(w.ctx, nil, p))
}

// signedBy is an envelope with a signature by each key in the role.
func (w *world) signedBy(payload []byte, role op.Role, keys ...key) authz.Envelope {
	e := authz.Envelope{Payload: payload}
	for _, k := range keys {
		e.Signatures = append(e.Signatures, k.sign(w.t, role.Namespace(), payload))
	}
	return e
}

func (w *world) approveAs(r op.Request, role op.Role, keys ...key) (op.Request, error) {
	return w.gate.Approve(w.ctx, hub, r.ID, w.signedBy(r.Payload, role, keys...))
}

func two() policy.Rule { return policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 2} }

func TestTwoPeopleSignOneAfterTheOther(t *testing.T) {
	w := people(t, two())
	r := w.request(ask("guest.destroy", "g"))
	require.Equal(t, 2, r.Missing())
	require.Equal(t, map[op.Role][]string{op.Operational: {"alice", "bob"}}, r.Could)

	r, err := w.approveAs(r, op.Operational, alice)
	require.NoError(t, err)
	require.Equal(t, op.StatePending, r.Step.State)
	require.Equal(t, 1, r.Missing())
	require.Equal(t, map[op.Role][]string{op.Operational: {"bob"}}, r.Could, "who signed is not who could")
	rec, _ := w.nonceOf(r.Nonce)
	require.Empty(t, rec.Fate, "the nonce stays reserved")
	w.run()
	require.True(t, w.back.has("g"))

	_, err = w.approveAs(r, op.Operational, alice)
	require.ErrorIs(t, err, refusal.ThresholdUnmet, "the same signature again adds no person")
	w.restart()
	w.setRules(two())
	r, err = w.approveAs(r, op.Operational, bob)
	require.NoError(t, err)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	_, err = w.approveAs(r, op.Operational, bob)
	require.ErrorIs(t, err, refusal.Replayed)
	w.run()
	require.False(t, w.back.has("g"))
	w.verifyLog()
}

func TestOnePersonIsOnePrincipalWithOneKey(t *testing.T) {
	second := newKey("alice")           // alice's other key
	shared := key{"bert", alice.signer} // alice's key under another name
	w := people(t, two())
	w.setTrust(string(w.trust.Text()) + second.line("operational@gated"))
	r := w.request(ask("guest.destroy", "g"))
	_, err := w.approveAs(r, op.Operational, alice, second)
	require.NoError(t, err)
	_, err = w.approveAs(r, op.Operational, second)
	require.ErrorIs(t, err, refusal.ThresholdUnmet, "one person with two keys")

	// The first line wins, so one key is never two people.
	w.setTrust(string(w.trust.Text()) + shared.line("operational@gated"))
	_, err = w.approveAs(r, op.Operational, shared)
	require.ErrorIs(t, err, refusal.ThresholdUnmet, "one key under two names")
	got, err := w.gate.Request(w.ctx, r.ID)
	require.NoError(t, err)
	require.Equal(t, 1, got.Missing())
}

func TestOneKeyPlainAndInACertificateIsOnePerson(t *testing.T) {
	ca, k := mint.Ed25519(t, "ca"), mint.Ed25519(t, "k")
	w := people(t, two())
	w.setTrust(k.Line("plain", `namespaces="operational@gated"`) + "\n" + ca.Line("*", `cert-authority,namespaces="operational@gated"`) + "\n")
	r := w.request(ask("guest.destroy", "g"))
	cert := mint.Certify(ca, k, "certified")
	e := authz.Envelope{Payload: r.Payload, Signatures: []string{mint.Sign(t, k, op.Operational.Namespace(), r.Payload).Armored(),
		mint.SignWith(t, cert, k, op.Operational.Namespace(), r.Payload).Armored()}}
	r, err := w.gate.Approve(w.ctx, hub, r.ID, e)
	require.NoError(t, err)
	require.Equal(t, 1, r.Missing())
	require.Equal(t, op.StatePending, r.Step.State)
}

func TestAnOperatorAndAManager(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.*", Role: "manager", Threshold: 1})
	r := w.request(ask("guest.destroy", "g"))
	require.Equal(t, 2, r.Missing())
	_, err := w.approveAs(r, op.Coordination, carol)
	require.ErrorIs(t, err, refusal.RoleDenied)
	_, err = w.approveAs(r, op.Operational, mona)
	require.ErrorIs(t, err, refusal.UnknownSigner, "a manager is no operator")
	r, err = w.approveAs(r, op.Operational, alice, bob)
	require.NoError(t, err)
	require.Equal(t, op.StatePending, r.Step.State, "two operators are no manager")
	r, err = w.approveAs(r, "manager", mona)
	require.NoError(t, err)
	require.Equal(t, op.StateAuthorized, r.Step.State)

	// If no rule asks for a manager, a manager's signature does not count.
	w.setRules()
	w.back.put("h")
	h := w.request(ask("guest.destroy", "h"))
	_, err = w.approveAs(h, "manager", mona)
	require.ErrorIs(t, err, refusal.RoleDenied)
	_, err = w.approveAs(h, "nobody", mona)
	require.ErrorIs(t, err, refusal.NamespaceMismatch)
}

func TestTouchIsAskedFor(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, Touch: op.TouchVerified})
	touched := mint.SKEd25519(t, "touched", mint.Authenticator{Application: "ssh:", Flags: op.FlagPresent, Counter: 7})
	verified := mint.SKECDSA(t, "verified", mint.Authenticator{Application: "ssh:", Flags: op.FlagPresent | op.FlagVerified, Counter: 9})
	w.setTrust(string(w.trust.Text()) + touched.Line("ted", `namespaces="operational@gated"`) + "\n" +
		verified.Line("vera", `namespaces="operational@gated"`) + "\n")
	r := w.request(ask("guest.destroy", "g"))
	_, err := w.approveAs(r, op.Operational, alice)
	require.ErrorIs(t, err, refusal.TouchRequired, "a software key")
	for _, c := range []struct {
		key mint.Key
		ok  bool
	}{{touched, false}, {verified, true}} {
		e := authz.Envelope{Payload: r.Payload, Signatures: []string{mint.Sign(t, c.key, op.Operational.Namespace(), r.Payload).Armored()}}
		got, err := w.gate.Approve(w.ctx, hub, r.ID, e)
		if !c.ok {
			require.ErrorIs(t, err, refusal.TouchRequired)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, op.StateAuthorized, got.Step.State)
	}
	entries, err := w.gate.Events(w.ctx, 0, 1000)
	require.NoError(t, err)
	last := entries[len(entries)-1]
	require.Equal(t, audit.Approved, last.Kind)
	require.Contains(t, last.Signers[0], "flags=0x05 counter=9", "the log has what the key said")
}

func TestCoolOffDelaysAndMayBeStopped(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, CoolOff: 10 * time.Minute})
	w.back.put("h")
	stopped, runs := w.request(ask("guest.destroy", "g")), w.request(ask("guest.destroy", "h"))
	for _, r := range []op.Request{stopped, runs} {
		got, err := w.approve(r)
		require.NoError(t, err)
		require.Equal(t, op.StateAuthorized, got.Step.State)
	}
	w.run()
	w.pass(10*time.Minute - time.Second)
	w.run()
	require.True(t, w.back.has("g") && w.back.has("h"), "neither ran while it cools off")
	turn, ok, err := w.gate.Next(w.ctx, runs.Step.Target)
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, time.Second, turn.Wait)
	p, err := w.gate.Permit(w.ctx, runs.ID)
	require.NoError(t, err)
	_, err = w.back.execute(w.ctx, p)
	require.ErrorIs(t, err, refusal.Unavailable, "a driver in a hurry waits too")

	// A start of the same guest does not wait for that step.
	j := w.mustSubmit(ask("guest.start", "h"))
	w.run()
	require.Equal(t, op.StateSucceeded, w.job(j.ID).State())

	_, err = w.gate.Reject(w.ctx, hub, stopped.ID, w.rejection(stopped, bob))
	require.NoError(t, err, "any person in the role stops it")
	w.wakes("h")
	w.pass(time.Second)
	require.NoError(t, w.gate.Tick(w.ctx))
	require.True(t, w.wakes("h"), "it is woken when it may run")
	w.run()
	require.True(t, w.back.has("g"))
	require.False(t, w.back.has("h"))
	w.verifyLog()
}

func TestWindowsRestrictWhenItRuns(t *testing.T) {
	night, err := op.ParseWindow("22:00-06:00Z")
	require.NoError(t, err)
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, Window: &night})
	r := w.request(ask("guest.destroy", "g")) // at noon
	_, err = w.approve(r)
	require.NoError(t, err, "it may be signed at any time")
	turn, ok, err := w.gate.Next(w.ctx, r.Step.Target)
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, 10*time.Hour, turn.Wait)
	w.pass(10*time.Hour - time.Second)
	w.run()
	require.True(t, w.back.has("g"))
	w.pass(time.Second)
	w.run()
	require.False(t, w.back.has("g"))
}

func TestStricterPolicyDuringCoolOff(t *testing.T) {
	cool := policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, CoolOff: time.Minute}
	for name, c := range map[string]struct {
		change func(w *world)
		code   refusal.Code // empty: it waits longer
	}{
		"a second person":   {func(w *world) { w.setRules(cool, two()) }, refusal.ThresholdUnmet},
		"a touch":           {func(w *world) { w.setRules(policy.Rule{Threshold: 1, Touch: op.TouchPresent}) }, refusal.TouchRequired},
		"a longer cool-off": {func(w *world) { w.setRules(policy.Rule{Threshold: 1, CoolOff: time.Hour}) }, ""},
		"the key revoked": {func(w *world) {
			revoked, err := authz.LoadRevoked([]byte(ssh.FingerprintSHA256(alice.signer.PublicKey()) + "\n"))
			require.NoError(w.t, err)
			require.NoError(w.t, w.gate.Reload(w.ctx, revoked, w.gate.Policy()))
		}, refusal.SignerRevoked},
		"the key taken out": {func(w *world) { w.setTrust(bob.line("operational@gated")) }, refusal.UnknownSigner},
		"no rules any more": {func(w *world) { w.setRules() }, "succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			w := people(t, cool)
			r := w.request(ask("guest.destroy", "g"))
			_, err := w.approve(r)
			require.NoError(t, err)
			c.change(w)
			w.run()
			require.True(t, w.back.has("g"), "what was asked then holds")
			w.pass(time.Minute)
			w.run()
			got, err := w.gate.Request(w.ctx, r.ID)
			require.NoError(t, err)
			switch c.code {
			case "":
				require.Equal(t, op.StateAuthorized, got.Step.State)
				w.pass(time.Hour)
				w.run()
				require.False(t, w.back.has("g"))
			case "succeeded":
				require.Equal(t, op.StateSucceeded, got.Step.State)
			default:
				require.Equal(t, op.StateRefused, got.Step.State)
				require.Equal(t, c.code, got.Step.Code)
				require.True(t, w.back.has("g"))
			}
		})
	}
}

func TestSignaturesThatNoLongerCountAreTakenOut(t *testing.T) {
	w := people(t, two())
	r := w.request(ask("guest.destroy", "g"))
	_, err := w.approveAs(r, op.Operational, alice)
	require.NoError(t, err)
	fresh := newKey("alice")
	w.setTrust(fresh.line("operational@gated") + bob.line("operational@gated"))
	got, err := w.approveAs(r, op.Operational, bob)
	require.NoError(t, err)
	require.Equal(t, 1, got.Missing(), "alice's old key is listed no more")
	require.Contains(t, w.kinds(), audit.Uncounted)
	got, err = w.approveAs(r, op.Operational, fresh)
	require.NoError(t, err, "she signs again with her new one")
	require.Equal(t, op.StateAuthorized, got.Step.State)
	w.run()
	require.False(t, w.back.has("g"))
	w.verifyLog()
}

func TestUnreadableRevocationsHoldSignedWork(t *testing.T) {
	w := people(t)
	w.back.put("h")
	r, h := w.request(ask("guest.destroy", "g")), w.request(ask("guest.destroy", "h"))
	_, err := w.approve(r)
	require.NoError(t, err)
	require.NoError(t, w.gate.Reload(w.ctx, authz.UnreadableRevoked(refusal.Unavailable), w.gate.Policy()))
	w.run()
	require.True(t, w.back.has("g"), "alice's key may be revoked")
	_, err = w.approve(h)
	require.ErrorIs(t, err, refusal.Unavailable)
	require.NoError(t, w.gate.Reload(w.ctx, nil, w.gate.Policy()))
	w.run()
	require.False(t, w.back.has("g"), "it goes on when they are readable again")
}

func TestALabelThatARuleLooksAtIsNotTakenAwayForLess(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Labels: map[string]string{"tier": "prod"}, Threshold: 2})
	w.back.set(w.back.get("g"), op.Params{"labels": map[string]any{"tier": "prod"}})
	r := w.request(ask("guest.set-config", "g", "labels", map[string]any{"tier": "dev"}))
	require.Equal(t, 2, r.Missing())
	r = w.request(ask("guest.destroy", "g"))
	require.Equal(t, 2, r.Missing())
	w.back.put("dev")
	require.Equal(t, 1, w.request(ask("guest.destroy", "dev")).Missing())
}

func TestAnApprovalThatCouldNotRunIsNotCounted(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, CoolOff: 10 * time.Minute, MaxValidity: time.Hour})
	r := w.request(ask("guest.destroy", "g"))
	w.pass(50*time.Minute + time.Minute) // the skew is allowed
	late, err := w.approve(r)
	require.NoError(t, err, "at the end of the time")
	require.Equal(t, op.StateAuthorized, late.Step.State)

	w.back.put("h")
	r = w.request(ask("guest.destroy", "h"))
	w.pass(51*time.Minute + time.Second)
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Expired)
	again, err := w.gate.Request(w.ctx, r.ID)
	require.NoError(t, err)
	require.NotEqual(t, r.Nonce, again.Nonce, "it was issued anew at once")
	require.Equal(t, op.StatePending, again.Step.State)
	_, err = w.approve(again)
	require.NoError(t, err)
}

func TestAWindowThatDoesNotOpenInTime(t *testing.T) {
	night, err := op.ParseWindow("22:00-06:00Z")
	require.NoError(t, err)
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, Window: &night, MaxValidity: time.Hour})
	r := w.request(ask("guest.destroy", "g")) // at noon
	_, err = w.approve(r)
	require.ErrorIs(t, err, refusal.Expired)
	same, err := w.gate.Request(w.ctx, r.ID)
	require.NoError(t, err)
	require.Equal(t, r.Nonce, same.Nonce, "a new one would not help now")
	w.pass(9*time.Hour + 30*time.Minute)
	require.NoError(t, w.gate.Tick(w.ctx))
	r, err = w.gate.Request(w.ctx, r.ID)
	require.NoError(t, err)
	_, err = w.approve(r)
	require.NoError(t, err)
	w.run()
	require.True(t, w.back.has("g"))
	w.pass(30 * time.Minute)
	w.run()
	require.False(t, w.back.has("g"))
}

func TestWhatWouldBeLostIsSeenAnew(t *testing.T) {
	w := people(t)
	r := w.request(ask("guest.destroy", "g"))
	grown := []op.Fact{{Name: "files", Text: "1,000"}}
	w.back.mu.Lock()
	o := w.back.guests["g"]
	o.Facts = grown
	w.back.guests["g"] = o
	w.back.mu.Unlock()
	w.pass(time.Hour)
	old, err := w.gate.Request(w.ctx, r.ID)
	require.NoError(t, err)
	require.Equal(t, r.IssuedAt, old.FactsAt)
	shown, err := w.gate.Shown(w.ctx, r.ID)
	require.NoError(t, err)
	require.Equal(t, grown, shown.Facts)
	require.Equal(t, r.Payload, shown.Payload, "a signature does not cover it")
	require.WithinDuration(t, w.wall, shown.FactsAt, 0)

	// The refusal says nothing of another guest under the name.
	w.back.remove("g")
	shown, err = w.gate.Shown(w.ctx, r.ID)
	require.NoError(t, err)
	require.Equal(t, old.Facts, shown.Facts)
	require.Equal(t, old.FactsAt, shown.FactsAt)
}
