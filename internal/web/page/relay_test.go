package page

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/web/passkey"
	"gated/internal/web/passkey/passkeytest"
)

// keygenTakes has ssh-keygen verify what arrived at the gate.
func (c *console) keygenTakes(s sent, principal string) []byte {
	c.t.Helper()
	require.Len(c.t, s.envelope.Signatures, 1)
	payload := must.Get(base64.StdEncoding.DecodeString(s.envelope.Payload))(c.t)
	require.NoError(c.t, passkeytest.KeygenVerifies(c.t, c.gate.trust, principal, op.Operational.Namespace(), s.envelope.Signatures[0], payload))
	return payload
}

func TestAnApprovalIsRelayed(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.gate.wait(t, "j1.1", nil)
	p := c.listed("alice@example.com", op.Operational)
	require.Equal(t, "/g/pve1/r/j1.1", asked[next](p, "/g/pve1/r/j1.1/approve", p.decided("j1.1", "approve", "")).To)
	all := c.gate.arrived()
	require.Len(t, all, 1)
	require.Equal(t, "approve", all[0].what)
	require.Equal(t, c.gate.payloads["j1.1"], c.keygenTakes(all[0], "alice@example.com"))
}

func TestARejectionIsRelayed(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.gate.wait(t, "j1.1", nil)
	p := c.listed("alice@example.com", op.Operational)
	asked[next](p, "/g/pve1/r/j1.1/reject", p.decided("j1.1", "reject", "<b>still in use</b>"))
	all := c.gate.arrived()
	require.Len(t, all, 1)
	require.Equal(t, "reject", all[0].what)
	j := must.Get(op.DecodeRejection(c.keygenTakes(all[0], "alice@example.com")))(t)
	require.Equal(t, "<b>still in use</b>", j.Reason)
	require.Equal(t, c.payloadOf("j1.1"), j.PayloadSHA256)
	require.Equal(t, 15*time.Minute, j.ExpiresAt.Sub(j.IssuedAt))
}

func TestNothingIsRelayed(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.gate.wait(t, "j1.1", nil)
	c.gate.wait(t, "j2.1", func(p *op.Payload, _ *api.Request) { p.Target.Name = "db" })
	p, bob := c.listed("alice@example.com", op.Operational), c.listed("bob@example.com", op.Operational, op.Recovery)
	at := func(id, what string) string { return "/g/pve1/r/" + id + "/" + what }
	code := func(want refusal.Code, path string, in decidedIn) {
		t.Helper()
		require.Equal(t, want, p.refused(path, in).Code)
	}

	first := p.decided("j1.1", "approve", "")
	code(refusal.StaleTarget, at("j2.1", "approve"), first)
	moved := first
	moved.Payload, moved.Seen = c.payloadOf("j2.1"), c.seenOf("j2.1")
	code(refusal.StaleTarget, at("j2.1", "approve"), moved)
	moved.Message = p.decided("j2.1", "approve", "").Message
	code(refusal.NamespaceMismatch, at("j2.1", "approve"), moved) // the signature is of the other payload
	code(refusal.Malformed, at("j1.1", "reject"), first)          // a payload is no rejection
	reject := p.decided("j1.1", "reject", "in use")
	code(refusal.StaleTarget, at("j1.1", "approve"), reject)
	reject.Payload, reject.Seen = c.payloadOf("j2.1"), c.seenOf("j2.1")
	code(refusal.BindingMismatch, at("j2.1", "reject"), reject)
	otherRole := first
	otherRole.Role = op.Recovery
	code(refusal.NamespaceMismatch, at("j1.1", "approve"), otherRole)
	otherRole.Role = "no role"
	code(refusal.BadParams, at("j1.1", "approve"), otherRole)
	code(refusal.UnknownTarget, "/g/other/r/j1.1/approve", first)
	code(refusal.UnknownTarget, at("j9.1", "approve"), first)
	code(refusal.UnknownTarget, at("x", "approve"), first)

	bobs := first
	bobs.Assertion = bob.decided("j1.1", "approve", "").Assertion
	problem := p.refused(at("j1.1", "approve"), bobs)
	require.Equal(t, refusal.UnknownSigner, problem.Code)
	require.Contains(t, problem.Detail, "not the one that signed in")

	stranger := c.person(c.device())
	bobs.Assertion = encoded(t, stranger.device.Sign(t, passkey.Challenge(op.Operational.Namespace(), c.gate.payloads["j1.1"])))
	code(refusal.UnknownSigner, at("j1.1", "approve"), bobs)
	status, _ := stranger.post(at("j1.1", "approve"), first)
	require.Equal(t, 401, status)

	c.gate.wait(t, "j1.1", func(p *op.Payload, _ *api.Request) { p.Reason = "another one" })
	code(refusal.StaleTarget, at("j1.1", "approve"), first)
	c.gate.change(func() { c.gate.requests["j1.1"].State = op.StateSuperseded })
	first.Payload, first.Seen = c.payloadOf("j1.1"), c.seenOf("j1.1")
	problem = p.refused(at("j1.1", "approve"), first)
	require.Equal(t, refusal.Conflict, problem.Code)
	require.Contains(t, problem.Detail, "superseded")
	require.Empty(t, c.gate.arrived())
}

func TestNoChallengeIsGiven(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.gate.wait(t, "j1.1", nil)
	c.gate.wait(t, "j2.1", func(_ *op.Payload, r *api.Request) {
		r.Demands[0].Touch = op.TouchVerified
		r.Demands[0].Roles, r.Roles = []op.Role{op.Recovery}, []op.Role{op.Recovery}
	})
	p, bob := c.listed("alice@example.com", op.Operational), c.listed("bob@example.com", op.Recovery)
	for name, in := range map[string]decisionIn{
		"no reason":       {Decision: "reject", Role: op.Operational},
		"another role":    {Decision: "approve", Role: op.Recovery},
		"no role":         {Decision: "approve"},
		"reject as other": {Decision: "reject", Role: op.Recovery, Reason: "x"},
		"no decision":     {Role: op.Operational},
	} {
		in.Payload, in.Seen = c.payloadOf("j1.1"), c.seenOf("j1.1")
		p.refused("/g/pve1/r/j1.1/challenge", in)
		require.NotEmpty(t, name)
	}
	require.Equal(t, refusal.StaleTarget, p.refused("/g/pve1/r/j1.1/challenge", decisionIn{Decision: "approve", Role: op.Operational, Payload: "00"}).Code)
	problem := p.refused("/g/pve1/r/j2.1/challenge", decisionIn{Decision: "approve", Role: op.Operational, Payload: c.payloadOf("j2.1"), Seen: c.seenOf("j2.1")})
	require.Equal(t, refusal.RoleDenied, problem.Code)
	require.Contains(t, problem.Detail, "needs a signature as recovery, and your passkey signs as operational")
	verified := asked[ceremony](bob, "/g/pve1/r/j2.1/challenge", decisionIn{Decision: "approve", Role: op.Recovery, Payload: c.payloadOf("j2.1"), Seen: c.seenOf("j2.1")})
	require.Equal(t, "required", verified.UserVerification)
}

func TestAGatesRefusalIsSaid(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.gate.wait(t, "j1.1", nil)
	p := c.listed("alice@example.com", op.Operational)
	in := p.decided("j1.1", "approve", "")
	c.gate.change(func() {
		c.gate.refuses = refusal.New(refusal.TouchRequired, "the rule wants verification").WithHint("sign with a PIN")
	})
	problem := p.refused("/g/pve1/r/j1.1/approve", in)
	require.Equal(t, refusal.TouchRequired, problem.Code)
	require.Equal(t, "the rule wants verification", problem.Detail)
	require.Equal(t, "sign with a PIN", problem.Hint)
}

func TestAGateThatShowsAnotherRequestIsRefused(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.gate.wait(t, "j1.1", nil)
	p := c.listed("alice@example.com", op.Operational)
	c.gate.mu.Lock()
	c.gate.payloads["j1.1"] = []byte("nonsense")
	c.gate.mu.Unlock()
	require.Equal(t, refusal.Malformed, p.refused("/g/pve1/r/j1.1/challenge",
		decisionIn{Decision: "approve", Role: op.Operational, Payload: c.payloadOf("j1.1"), Seen: c.seenOf("j1.1")}).Code)
	c.gate.wait(t, "j1.1", func(p *op.Payload, _ *api.Request) { p.Host = "pve2" })
	require.Equal(t, refusal.TargetMismatch, p.refused("/g/pve1/r/j1.1/challenge",
		decisionIn{Decision: "approve", Role: op.Operational, Payload: c.payloadOf("j1.1"), Seen: c.seenOf("j1.1")}).Code)
}

// What a look finds is no part of the payload, but it is what a person decides by.
func TestOtherFactsAreReadAgain(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.gate.wait(t, "j1.1", nil)
	p := c.listed("alice@example.com", op.Operational)
	in := p.decided("j1.1", "approve", "")
	c.gate.change(func() { c.gate.requests["j1.1"].Facts = []op.Fact{{Name: "snapshot", Text: "before the upgrade"}} })
	require.Equal(t, refusal.StaleTarget, p.refused("/g/pve1/r/j1.1/approve", in).Code)
	require.Empty(t, c.gate.arrived())
	asked[next](p, "/g/pve1/r/j1.1/approve", p.decided("j1.1", "approve", ""))
}
