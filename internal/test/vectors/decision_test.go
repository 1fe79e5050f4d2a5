package vectors

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	gates "gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// decisionCase is an envelope that comes to a gate after others, with a payload that the gate did not issue.
type decisionCase struct {
	Name      `json:"name"`
	Now       time.Time      `json:"now"`
	Gate      gate           `json:"gate"`
	Roles     []op.Role      `json:"roles"`     // the built-in ones that may approve the operation
	Threshold int            `json:"threshold"` // how many people have to sign
	Target    seen           `json:"target"`
	Before    []api.Envelope `json:"before"` // each is accepted
	Envelope  api.Envelope   `json:"envelope"`
	Outcome
}

// seen is what a look at the target shows.
type seen struct {
	Incarnation op.Incarnation `json:"incarnation"`
	State       op.Fingerprint `json:"state"`
}

// Observe implements op.Observer.
func (s seen) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	return op.Observed{Target: l.Target, Present: true, Running: "stopped", Incarnation: s.Incarnation, Fingerprint: s.State, Spec: op.Params{}}, nil
}

// read has a real gate take the envelopes.
func (c *decisionCase) read(t *testing.T) (any, error) {
	t.Helper()
	trust := must.Get(authz.LoadTrust([]byte(c.Gate.AllowedSigners)))(t)
	rules := policy.Default()
	rules.Rules = []policy.Rule{{Where: "gated.yaml:1", Op: "guest.*", Threshold: c.Threshold}}
	s := fscktest.Open(t, filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: gates.Migrations()})
	g := gateworld.New(t, s, func() nonce.Reading { return nonce.Reading{Wall: c.Now} },
		gates.Config{Observer: c.Target, ID: c.Gate.ID, Host: c.Gate.Host, Trust: trust, Policy: rules, Epoch: 1})
	take := func(e api.Envelope) (op.Request, error) {
		payload := must.Get(e.Open())(t)
		p := must.Get(op.DecodePayload(payload))(t)
		spec := must.Get(op.Lookup(p.Op))(t)
		for _, role := range op.Roles {
			require.Equal(t, spec.MayApprove(role), slices.Contains(c.Roles, role), "%s", role)
		}
		return g.ApproveOffline(t.Context(), op.Requester{Source: op.SourceAPI, UID: 1000, PID: 7}, authz.Envelope{Payload: payload, Signatures: e.Signatures})
	}
	for _, e := range c.Before {
		must.Get(take(e))(t)
	}
	r, err := take(c.Envelope)
	if err != nil {
		return nil, err
	}
	return map[string]any{"state": r.Step.State.String()}, nil
}

// decisions makes the cases of decision.json.
func decisions(t *testing.T) (out []Vector) {
	alice, bob := mint.Ed25519(t, "alice"), mint.Ed25519(t, "bob")
	every := `namespaces="operational@gated,coordination@gated,recovery@gated"`
	by := func(role op.Role, p op.Payload, keys ...mint.Key) api.Envelope {
		var made []mint.Signature
		for _, k := range keys {
			made = append(made, mint.Sign(t, k, role.Namespace(), encoded(t, p)))
		}
		return usual("", encoded(t, p), made...).Envelope
	}
	first := by(op.Operational, approval, alice)
	again := func(change func(c *decisionCase)) *decisionCase {
		c := &decisionCase{Now: noon.Add(time.Minute), Gate: usual(alice.Line("alice", every)+bob.Line("bob", every), nil).Gate, Roles: destroyers(t), Threshold: 1,
			Target: seen{approval.Incarnation, approval.State}, Before: []api.Envelope{}, Envelope: first}
		change(c)
		return c
	}
	good := func(n, state string, change func(c *decisionCase)) {
		c := again(change)
		c.Name, c.Outcome = Name(n), Accepted(t, map[string]any{"state": state})
		out = append(out, c)
	}
	bad := func(n string, stage refusal.Stage, code refusal.Code, why string, change func(c *decisionCase)) {
		c := again(change)
		c.Name, c.Outcome = Name(n), Refuses(stage, code, why)
		out = append(out, c)
	}
	good("one signature", "authorized", func(*decisionCase) {})
	good("one of two people", "pending_signature", func(c *decisionCase) { c.Threshold = 2 })
	good("two people at once", "authorized", func(c *decisionCase) { c.Threshold, c.Envelope = 2, by(op.Operational, approval, alice, bob) })
	good("the second of two people", "authorized", func(c *decisionCase) {
		c.Threshold, c.Before, c.Envelope = 2, []api.Envelope{first}, by(op.Operational, approval, bob)
	})
	good("one person twice in an envelope", "pending_signature", func(c *decisionCase) { c.Threshold, c.Envelope = 2, by(op.Operational, approval, alice, alice) })
	bad("the same envelope again", refusal.StageNonce, refusal.Replayed, "the nonce is spent", func(c *decisionCase) { c.Before = []api.Envelope{first} })
	bad("the same signature in another armor", refusal.StageNonce, refusal.Replayed, "only the nonce identifies", func(c *decisionCase) {
		c.Before = []api.Envelope{first}
		c.Envelope.Signatures = []string{mint.Armor(mint.Sign(t, alice, op.Operational.Namespace(), encoded(t, approval)).Blob(), 64)}
	})
	other := approval
	other.Target.Name = "web-2"
	bad("another payload with a spent nonce", refusal.StageNonce, refusal.Replayed, "a nonce counts once", func(c *decisionCase) {
		c.Before, c.Envelope = []api.Envelope{first}, by(op.Operational, other, alice)
	})
	bad("another payload with a nonce that waits", refusal.StageNonce, refusal.BindingMismatch, "the nonce is for other bytes", func(c *decisionCase) {
		c.Threshold, c.Before, c.Envelope = 2, []api.Envelope{first}, by(op.Operational, other, bob)
	})
	bad("a role that may not approve this", refusal.StageRole, refusal.RoleDenied, "a coordinator does not approve guest.destroy", func(c *decisionCase) {
		c.Envelope = by(op.Coordination, approval, alice)
	})
	bad("the role recovery", refusal.StageRole, refusal.RoleDenied, "recovery does not approve guest.destroy", func(c *decisionCase) { c.Envelope = by(op.Recovery, approval, alice) })
	bad("another incarnation", refusal.StageBinding, refusal.StaleTarget, "a look shows another incarnation", func(c *decisionCase) { c.Target.Incarnation = "web-1-y" })
	bad("another state", refusal.StageBinding, refusal.StaleTarget, "a look shows another state", func(c *decisionCase) { c.Target.State = op.FingerprintOf([]byte("later")) })
	bad("the same person again", refusal.StagePolicy, refusal.ThresholdUnmet, "a person counts once", func(c *decisionCase) {
		c.Threshold, c.Before = 2, []api.Envelope{first}
	})
	return out
}

func destroyers(t *testing.T) (roles []op.Role) {
	spec := must.Get(op.Lookup(approval.Op))(t)
	for _, role := range op.Roles {
		if spec.MayApprove(role) {
			roles = append(roles, role)
		}
	}
	return roles
}
