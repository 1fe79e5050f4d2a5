package gate_test

import (
	"fmt"
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
	"gated/internal/test/must"
)

// bob is a second operator, mona a manager.
var bob, mona = newKey("bob"), newKey("mona")

// people is a world with two operators and a manager, and with rules.
func people(t *testing.T, rules ...policy.Rule) *world {
	w := newWorld(t, "g")
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
	w.trust = must.Get(authz.LoadTrust([]byte(text)))(w.t)
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

	r = must.Get(w.approveAs(r, op.Operational, alice))(t)
	require.Equal(t, op.StatePending, r.Step.State)
	require.Equal(t, 1, r.Missing())
	require.Equal(t, map[op.Role][]string{op.Operational: {"bob"}}, r.Could, "who signed is not who could")
	rec, _ := w.nonceOf(r.Nonce)
	require.Empty(t, rec.Fate, "the nonce stays reserved")
	w.run()
	require.True(t, w.back.has("g"))

	_, err := w.approveAs(r, op.Operational, alice)
	require.ErrorIs(t, err, refusal.ThresholdUnmet, "the same signature again adds no person")
	w.restart()
	w.setRules(two())
	r = must.Get(w.approveAs(r, op.Operational, bob))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)
	must.Fail(w.approveAs(r, op.Operational, bob))(t, refusal.Replayed)
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
	must.Get(w.approveAs(r, op.Operational, alice, second))(t)
	must.Fail(w.approveAs(r, op.Operational, second))(t, refusal.ThresholdUnmet, "one person with two keys")

	// The first line wins, so one key is never two people.
	w.setTrust(string(w.trust.Text()) + shared.line("operational@gated"))
	must.Fail(w.approveAs(r, op.Operational, shared))(t, refusal.ThresholdUnmet, "one key under two names")
	require.Equal(t, 1, must.Get(w.gate.Request(w.ctx, r.ID))(t).Missing())
}

func TestOneKeyPlainAndInACertificateIsOnePerson(t *testing.T) {
	ca, k := mint.Ed25519(t, "ca"), mint.Ed25519(t, "k")
	w := people(t, two())
	w.setTrust(k.Line("plain", `namespaces="operational@gated"`) + "\n" + ca.Line("*", `cert-authority,namespaces="operational@gated"`) + "\n")
	r := w.request(ask("guest.destroy", "g"))
	cert := mint.Certify(ca, k, "certified")
	e := authz.Envelope{Payload: r.Payload, Signatures: []string{mint.Sign(t, k, op.Operational.Namespace(), r.Payload).Armored(),
		mint.SignWith(t, cert, k, op.Operational.Namespace(), r.Payload).Armored()}}
	r = must.Get(w.gate.Approve(w.ctx, hub, r.ID, e))(t)
	require.Equal(t, 1, r.Missing())
	require.Equal(t, op.StatePending, r.Step.State)
}

func TestAnOperatorAndAManager(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.*", Role: "manager", Threshold: 1})
	r := w.request(ask("guest.destroy", "g"))
	require.Equal(t, 2, r.Missing())
	must.Fail(w.approveAs(r, op.Coordination, carol))(t, refusal.RoleDenied)
	must.Fail(w.approveAs(r, op.Operational, mona))(t, refusal.UnknownSigner, "a manager is no operator")
	r = must.Get(w.approveAs(r, op.Operational, alice, bob))(t)
	require.Equal(t, op.StatePending, r.Step.State, "two operators are no manager")
	r = must.Get(w.approveAs(r, "manager", mona))(t)
	require.Equal(t, op.StateAuthorized, r.Step.State)

	// If no rule asks for a manager, a manager's signature does not count.
	w.setRules()
	w.back.put("h")
	h := w.request(ask("guest.destroy", "h"))
	must.Fail(w.approveAs(h, "manager", mona))(t, refusal.RoleDenied)
	must.Fail(w.approveAs(h, "nobody", mona))(t, refusal.NamespaceMismatch)
}

func TestTouchIsAskedFor(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, Touch: op.TouchVerified})
	touched := mint.SKEd25519(t, "touched", mint.Authenticator{Application: "ssh:", Flags: op.FlagPresent, Counter: 7})
	verified := mint.SKECDSA(t, "verified", mint.Authenticator{Application: "ssh:", Flags: op.FlagPresent | op.FlagVerified, Counter: 9})
	w.setTrust(string(w.trust.Text()) + touched.Line("ted", `namespaces="operational@gated"`) + "\n" +
		verified.Line("vera", `namespaces="operational@gated"`) + "\n")
	r := w.request(ask("guest.destroy", "g"))
	must.Fail(w.approveAs(r, op.Operational, alice))(t, refusal.TouchRequired, "a software key")
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
	entries := must.Get(w.gate.Events(w.ctx, 0, 1000))(t)
	last := entries[len(entries)-1]
	require.Equal(t, audit.Approved, last.Kind)
	require.Contains(t, last.Signers[0], "flags=0x05 counter=9", "the log has what the key said")
}

func TestCoolOffDelaysAndMayBeStopped(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, CoolOff: 10 * time.Minute})
	w.back.put("h")
	stopped, runs := w.request(ask("guest.destroy", "g")), w.request(ask("guest.destroy", "h"))
	for _, r := range []op.Request{stopped, runs} {
		require.Equal(t, op.StateAuthorized, must.Get(w.approve(r))(t).Step.State)
	}
	w.run()
	w.Pass(10*time.Minute - time.Second)
	w.run()
	require.True(t, w.back.has("g") && w.back.has("h"), "neither ran while it cools off")
	turn, ok := must.Two(w.gate.Next(w.ctx, runs.Step.Target))(t)
	require.False(t, ok)
	require.Equal(t, time.Second, turn.Wait)
	p := must.Get(w.gate.Permit(w.ctx, runs.ID))(t)
	must.Fail(w.back.execute(w.ctx, p))(t, refusal.Unavailable, "a driver in a hurry waits too")

	// A start of the same guest does not wait for that step.
	j := w.mustSubmit(ask("guest.start", "h"))
	w.run()
	require.Equal(t, op.StateSucceeded, w.job(j.ID).State())

	must.Get(w.gate.Reject(w.ctx, hub, stopped.ID, w.rejection(stopped, bob)))(t, "any person in the role stops it")
	w.wakes("h")
	w.Pass(time.Second)
	require.NoError(t, w.gate.Tick(w.ctx))
	require.True(t, w.wakes("h"), "it is woken when it may run")
	w.run()
	require.True(t, w.back.has("g"))
	require.False(t, w.back.has("h"))
	w.verifyLog()
}

func TestWindowsRestrictWhenItRuns(t *testing.T) {
	night := must.Get(op.ParseWindow("22:00-06:00Z"))(t)
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, Window: &night})
	r := w.request(ask("guest.destroy", "g")) // at noon
	must.Get(w.approve(r))(t, "it may be signed at any time")
	turn, ok := must.Two(w.gate.Next(w.ctx, r.Step.Target))(t)
	require.False(t, ok)
	require.Equal(t, 10*time.Hour, turn.Wait)
	w.Pass(10*time.Hour - time.Second)
	w.run()
	require.True(t, w.back.has("g"))
	w.Pass(time.Second)
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
			revoked := must.Get(authz.LoadRevoked([]byte(ssh.FingerprintSHA256(alice.signer.PublicKey()) + "\n")))(w.t)
			require.NoError(w.t, w.gate.Reload(w.ctx, revoked, w.gate.Policy()))
		}, refusal.SignerRevoked},
		"the key taken out": {func(w *world) { w.setTrust(bob.line("operational@gated")) }, refusal.UnknownSigner},
		"no rules any more": {func(w *world) { w.setRules() }, "succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			w := people(t, cool)
			r := w.request(ask("guest.destroy", "g"))
			must.Get(w.approve(r))(t)
			c.change(w)
			w.run()
			require.True(t, w.back.has("g"), "what was asked then holds")
			w.Pass(time.Minute)
			w.run()
			got := must.Get(w.gate.Request(w.ctx, r.ID))(t)
			switch c.code {
			case "":
				require.Equal(t, op.StateAuthorized, got.Step.State)
				w.Pass(time.Hour)
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
	must.Get(w.approveAs(r, op.Operational, alice))(t)
	fresh := newKey("alice")
	w.setTrust(fresh.line("operational@gated") + bob.line("operational@gated"))
	got := must.Get(w.approveAs(r, op.Operational, bob))(t)
	require.Equal(t, 1, got.Missing(), "alice's old key is listed no more")
	require.Contains(t, w.kinds(), audit.Uncounted)
	got = must.Get(w.approveAs(r, op.Operational, fresh))(t, "she signs again with her new one")
	require.Equal(t, op.StateAuthorized, got.Step.State)
	w.run()
	require.False(t, w.back.has("g"))
	w.verifyLog()
}

func TestUnreadableRevocationsHoldSignedWork(t *testing.T) {
	w := people(t)
	w.back.put("h")
	r, h := w.request(ask("guest.destroy", "g")), w.request(ask("guest.destroy", "h"))
	must.Get(w.approve(r))(t)
	require.NoError(t, w.gate.Reload(w.ctx, authz.UnreadableRevoked(refusal.Unavailable), w.gate.Policy()))
	w.run()
	require.True(t, w.back.has("g"), "alice's key may be revoked")
	must.Fail(w.approve(h))(t, refusal.Unavailable)
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

// TestAChangedLabelSaysWhichRulesUseIt: also after a reload, because an operator reads what is in force. A value that reads
// like the gate's words stands in quotes.
func TestAChangedLabelSaysWhichRulesUseIt(t *testing.T) {
	uses := func(where, label string) policy.Rule {
		return policy.Rule{Where: where, Op: "guest.destroy", Labels: map[string]string{label: "prod"}, Threshold: 2}
	}
	w := people(t, uses("gated.yaml:3", "tier"), uses("gated.yaml:7", "tier"), uses("gated.yaml:9", "tie"))
	w.back.set(w.back.get("g"), op.Params{"labels": map[string]any{"tier": "prod", "owner": "bob"}})
	r := w.request(ask("guest.set-config", "g", "labels", map[string]any{"tier": "dev (no rule uses it)"}))
	said := func() (out []string) {
		for _, f := range must.Get(w.gate.Shown(w.ctx, r.ID))(t).Facts {
			if f.IsChange() {
				out = append(out, f.Name+": "+f.Text)
			}
		}
		return out
	}
	owner := `changes label owner: from "bob" to none (no rule uses it)`
	tier := `changes label tier: from "prod" to "dev (no rule uses it)" (`
	require.Equal(t, []string{owner, tier + "a rule uses it: gated.yaml:3, gated.yaml:7)"}, said())
	var many []policy.Rule
	for i := range 10 {
		many = append(many, uses(fmt.Sprintf("gated.yaml:%d", i+1), "tier"))
	}
	w.setRules(many...)
	require.Equal(t, tier+"a rule uses it: gated.yaml:1, gated.yaml:2, gated.yaml:3, gated.yaml:4, gated.yaml:5, gated.yaml:6, gated.yaml:7, gated.yaml:8 and 2 more)", said()[1])
	w.setRules()
	require.Equal(t, []string{owner, tier + "no rule uses it)"}, said())
}

func TestAnApprovalThatCouldNotRunIsNotCounted(t *testing.T) {
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, CoolOff: 10 * time.Minute, MaxValidity: time.Hour})
	r := w.request(ask("guest.destroy", "g"))
	w.Pass(50*time.Minute + time.Minute) // the skew is allowed
	late := must.Get(w.approve(r))(t, "at the end of the time")
	require.Equal(t, op.StateAuthorized, late.Step.State)

	w.back.put("h")
	r = w.request(ask("guest.destroy", "h"))
	w.Pass(51*time.Minute + time.Second)
	must.Fail(w.approve(r))(t, refusal.Expired)
	again := must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.NotEqual(t, r.Nonce, again.Nonce, "it was issued anew at once")
	require.Equal(t, op.StatePending, again.Step.State)
	must.Get(w.approve(again))(t)
}

func TestAWindowThatDoesNotOpenInTime(t *testing.T) {
	night := must.Get(op.ParseWindow("22:00-06:00Z"))(t)
	w := people(t, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, Window: &night, MaxValidity: time.Hour})
	r := w.request(ask("guest.destroy", "g")) // at noon
	must.Fail(w.approve(r))(t, refusal.Expired)
	require.Equal(t, r.Nonce, must.Get(w.gate.Request(w.ctx, r.ID))(t).Nonce, "a new one would not help now")
	w.Pass(9*time.Hour + 30*time.Minute)
	require.NoError(t, w.gate.Tick(w.ctx))
	r = must.Get(w.gate.Request(w.ctx, r.ID))(t)
	must.Get(w.approve(r))(t)
	w.run()
	require.True(t, w.back.has("g"))
	w.Pass(30 * time.Minute)
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
	w.Pass(time.Hour)
	old := must.Get(w.gate.Request(w.ctx, r.ID))(t)
	require.Equal(t, r.IssuedAt, old.FactsAt)
	shown := must.Get(w.gate.Shown(w.ctx, r.ID))(t)
	require.Equal(t, grown, shown.Facts)
	require.Equal(t, r.Payload, shown.Payload, "a signature does not cover it")
	require.WithinDuration(t, w.Now(), shown.FactsAt, 0)

	// The refusal says nothing of another guest under the name.
	w.back.remove("g")
	shown = must.Get(w.gate.Shown(w.ctx, r.ID))(t)
	require.Equal(t, old.Facts, shown.Facts)
	require.Equal(t, old.FactsAt, shown.FactsAt)
}
