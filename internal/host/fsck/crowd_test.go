package fsck_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/driver/incident"
	"gated/internal/gate"
	"gated/internal/log/journal"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

const asOperator = `namespaces="operational@gated"`

var signersFile = op.Target{Kind: "trust", Name: "signers"}

// crowd is a world with more people than alice: bob, frank with a security key, and
// people that the CA certifies. Destroying a guest takes two of them.
type crowd struct {
	*world
	bob, frank, carol, dave, erin, greta, ca mint.Key
}

// asBatcher lets a key sign as an operator, also batches.
const asBatcher = `namespaces="operational@gated,operational@batch.gated"`

func newCrowd(t testing.TB) crowd {
	said := mint.Authenticator{Application: mint.Application, Flags: mint.UserPresent, Counter: 42}
	c := crowd{world: newWorld(t), bob: mint.Ed25519(t, "bob"), frank: mint.SKECDSA(t, "frank", said), carol: mint.ECDSA(t, "carol", 256),
		dave: mint.SKEd25519(t, "dave", said), erin: mint.Ed25519(t, "erin"), greta: mint.Ed25519(t, "greta"), ca: mint.Ed25519(t, "ca")}
	text := string(c.trust.Text()) + c.bob.Line("bob", asBatcher) + c.frank.Line("frank", asOperator) +
		c.greta.Line("greta", `namespaces="breakglass@gated"`) + c.ca.Line("*@example.com", "cert-authority,"+asOperator)
	c.trust = must.Get(authz.LoadTrust([]byte(text)))(t)
	require.NoError(t, c.store.Update(t.Context(), func(tx *store.Tx) error {
		return journal.AddTrust(tx, journal.TrustVersion{Epoch: 1, Text: []byte(text), How: "test", At: c.wall})
	}))
	require.NoError(t, c.store.Close())
	c.epoch = 1
	c.open()
	require.NoError(t, c.gate.Log(t.Context(), gate.RotatedEntry("test", authz.Rotation{Trust: c.trust}, journal.TrustVersion{Epoch: 1})))
	c.rules(nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		c.do(ask("guest.create", name))
	}
	return c
}

// rules sets the rule of two people, and the revoked keys.
func (c crowd) rules(revoked *authz.Revoked) {
	p := policy.Default()
	p.Rules = []policy.Rule{{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 2}}
	p.BreakGlass = &policy.BreakGlass{Where: "gated.yaml:9", Ops: []string{"guest.destroy"}, Threshold: 1, Delay: time.Minute, AtMost: 4}
	require.NoError(c.t, c.gate.Reload(c.t.Context(), revoked, p))
}

func (c crowd) by(k mint.Key, payload []byte) string {
	return mint.Sign(c.t, k, op.Operational.Namespace(), payload).Armored()
}

func (c crowd) certified(k mint.Key, principal string, payload []byte) string {
	return mint.SignWith(c.t, mint.Certify(c.ca, k, principal), k, op.Operational.Namespace(), payload).Armored()
}

// send approves with signatures over a request's payload.
func (c crowd) send(id op.RequestID, signatures ...string) op.Request {
	c.t.Helper()
	r, err := c.gate.Approve(c.t.Context(), hub, id, authz.Envelope{Payload: c.request(id).Payload, Signatures: signatures})
	require.NoError(c.t, err)
	return r
}

// broken has greta approve a destroy by break-glass, and returns its step.
func (c crowd) broken(name string) op.StepID {
	c.t.Helper()
	c.do(ask("guest.create", name))
	id := c.destroy(name)
	c.send(id, mint.Sign(c.t, c.greta, op.BreakGlass.Namespace(), c.request(id).Payload).Armored())
	return id
}

// review has an operator close the incidents that have ended.
func (c crowd) review() {
	c.t.Helper()
	j := c.submit(op.Requester{Source: op.SourceAPI}, op.Ask{Op: op.Review, Target: op.Incidents, Params: op.Params{}})
	id := j.Steps[0].ID
	c.approve(id)
	p := must.Get(c.gate.Permit(c.t.Context(), id))(c.t)
	must.Get(driver.Run(c.t.Context(), p, incident.New(c.gate)))(c.t)
	c.record(id, gate.Outcome{})
}

// rotation asks to add signers.
func (c crowd) rotation(lines ...string) op.RequestID {
	var add []any
	for _, l := range lines {
		add = append(add, strings.TrimSuffix(l, "\n"))
	}
	j := c.submit(hub, op.Ask{Op: op.Rotate, Target: signersFile, Params: op.Params{"add": add, "epoch": int64(2)}})
	return j.Steps[0].ID
}

func (c crowd) rotateNow(id op.StepID) {
	p := must.Get(c.gate.Permit(c.t.Context(), id))(c.t)
	now := must.Get(c.Observe(c.t.Context(), op.At(signersFile)))(c.t)
	require.NoError(c.t, p.Use(c.t.Context(), now))
	must.Get(c.gate.Rotate(c.t.Context(), p))(c.t)
	c.rotatedBy = id
	c.record(id, gate.Outcome{})
}

// offline asks to destroy a guest by a payload that alice wrote.
func (c crowd) offline(name string) op.RequestID {
	o := c.guests[name]
	b, err := op.Payload{Gate: c.id, Host: testHost, Op: "guest.destroy", Target: o.Target, Incarnation: o.Incarnation, State: o.Fingerprint,
		Params: op.Params{}, Nonce: op.NewNonce(time.Now()), IssuedAt: c.wall, ExpiresAt: c.wall.Add(time.Hour)}.Encode()
	require.NoError(c.t, err)
	r := must.Get(c.gate.ApproveOffline(c.t.Context(), hub, c.envelope(b)))(c.t)
	require.Equal(c.t, op.StatePending, r.Step.State)
	return r.ID
}

// TestLegalCrowdsAreSound: several people sign, one after the other, and their
// requests end in different ways.
func TestLegalCrowdsAreSound(t *testing.T) {
	for name, live := range map[string]func(c crowd){
		"two people, a certificate and a security key": func(c crowd) {
			a, b := c.destroy("a"), c.destroy("b")
			c.approve(a)
			sound(c.t, c.path)
			c.send(a, c.by(c.bob, c.request(a).Payload))
			c.send(b, c.certified(c.carol, "carol@example.com", c.request(b).Payload))
			sound(c.t, c.path)
			c.send(b, c.by(c.frank, c.request(b).Payload))
			sound(c.t, c.path)
			c.run()
			require.Equal(c.t, int64(4), sound(c.t, c.path).Checked["signatures"])
			require.NotContains(c.t, c.guests, "b")
		},
		"proofs of possession": func(c crowd) {
			id := c.rotation(c.dave.Line("dave", `namespaces="operational@gated,coordination@gated"`), c.erin.Line("erin", asOperator))
			p := c.request(id).Payload
			c.send(id, c.by(c.dave, p))
			sound(c.t, c.path)
			c.send(id, c.by(c.erin, p), c.by(c.frank, p))
			sound(c.t, c.path)
			c.send(id, mint.Sign(c.t, c.dave, op.Coordination.Namespace(), p).Armored())
			sound(c.t, c.path)
			c.send(id, c.by(c.bob, p))
			c.rotateNow(id)
			require.Equal(c.t, int64(5), sound(c.t, c.path).Checked["signatures"])
			require.Equal(c.t, int64(2), c.gate.Epoch())
		},
		"a signature that counts no more": func(c crowd) {
			id := c.destroy("a")
			c.approve(id)
			revoked := must.Get(authz.LoadRevoked([]byte(c.alice.Fingerprint() + "\n")))(c.t)
			c.rules(revoked)
			c.send(id, c.by(c.bob, c.request(id).Payload))
			require.Len(c.t, c.request(id).Signatures, 1, "alice's was taken out")
			sound(c.t, c.path)
			c.send(id, c.by(c.frank, c.request(id).Payload))
			c.run()
			require.NotContains(c.t, c.guests, "a")
		},
		"issued anew with one signature": func(c crowd) {
			id := c.destroy("a")
			c.approve(id)
			c.change("a")
			require.Empty(c.t, c.request(id).Signatures)
			sound(c.t, c.path)
			c.send(id, c.by(c.bob, c.request(id).Payload))
		},
		"rejected, cancelled and expired with one signature": func(c crowd) {
			a, b := c.destroy("a"), c.destroy("b")
			c.approve(a)
			c.reject(a)
			c.approve(b)
			must.Get(c.gate.Cancel(c.t.Context(), hub, b.Job))(c.t)
			d := c.offline("d")
			sound(c.t, c.path)
			c.pass(25 * time.Hour)
			require.NoError(c.t, c.gate.Tick(c.t.Context()))
			require.Equal(c.t, op.StateExpired, c.request(d).Step.State)
		},
		"signed offline, joined, and withdrawn by who brought it": func(c crowd) {
			id := c.offline("a")
			c.submit(other, ask("guest.destroy", "a"))
			sound(c.t, c.path)
			must.Get(c.gate.Cancel(c.t.Context(), hub, id.Job))(c.t)
			require.True(c.t, c.request(id).Offline)
			sound(c.t, c.path)
			c.submit(hub, ask("guest.destroy", "a"))
			sound(c.t, c.path)
			c.send(id, c.by(c.bob, c.request(id).Payload))
			c.run()
		},
		"signed offline twice by one key": func(c crowd) {
			o := c.guests["a"]
			b, err := op.Payload{Gate: c.id, Host: testHost, Op: "guest.destroy", Target: o.Target, Incarnation: o.Incarnation, State: o.Fingerprint,
				Params: op.Params{}, Nonce: op.NewNonce(time.Now()), IssuedAt: c.wall, ExpiresAt: c.wall.Add(time.Hour)}.Encode()
			require.NoError(c.t, err)
			s := c.by(c.frank, b)
			_, err = c.gate.ApproveOffline(c.t.Context(), hub, authz.Envelope{Payload: b, Signatures: []string{s, s, c.certified(c.carol, "x@example.com", b)}})
			require.NoError(c.t, err)
			c.run()
			require.NotContains(c.t, c.guests, "a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			live(c)
			sound(t, c.path)
		})
	}
}
