// Package gateworld is what tests with a gate of their own share: an empty database, a clock that the test moves,
// signers by role, signed envelopes, and the gate over all of them.
package gateworld

import (
	"log/slog"
	"testing"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// ID is the identity of the gates of tests.
const ID = op.GateID("0123456789abcdef0123456789abcdef")

// Noon is the time at which the clocks of tests start.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Still is the reading of a clock that stands at noon.
func Still() nonce.Reading { return nonce.Reading{Wall: Noon} }

// New returns the gate of a configuration over a store, with a clock that reads this time. Of what the configuration
// leaves out, New sets the identity, the policy and a logger that writes warnings into the test's output.
func New(t testing.TB, s *store.Store, read func() nonce.Reading, c gate.Config) *gate.Gate {
	t.Helper()
	c.Store, c.Clock = s, LoadClock(t, s, read)
	if c.ID == "" {
		c.ID = ID
	}
	if c.Policy.MaxValidity == 0 {
		c.Policy = policy.Default()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	return must.Get(gate.New(c))(t)
}

// LoadClock returns the clock of a store's gate.
func LoadClock(t testing.TB, s *store.Store, read func() nonce.Reading) (clock *nonce.Clock) {
	t.Helper()
	err := s.View(t.Context(), func(tx *store.Tx) (err error) {
		clock, err = nonce.LoadClock(tx, read)
		return err
	})
	return must.Get(clock, err)(t)
}

// Line is the line of allowed_signers by which a key may sign for roles. The key's name is the principal.
func Line(k mint.Key, roles ...op.Role) string {
	namespaces := ""
	for _, r := range roles {
		namespaces += "," + r.Namespace()
	}
	return k.Line(k.Name, `namespaces="`+namespaces[1:]+`"`)
}

// Trust is what lines of allowed_signers say.
func Trust(t testing.TB, lines string) *authz.Trust {
	t.Helper()
	return must.Get(authz.LoadTrust([]byte(lines)))(t)
}

// Signed is a payload with operational signatures by keys.
func Signed(t testing.TB, payload []byte, keys ...mint.Key) authz.Envelope {
	t.Helper()
	e := authz.Envelope{Payload: payload}
	for _, k := range keys {
		e.Signatures = append(e.Signatures, mint.Sign(t, k, op.Operational.Namespace(), payload).Armored())
	}
	return e
}

// Batch is the operational batch over payloads, valid from now for a quarter of an hour, and the place of each in it.
func Batch(t testing.TB, now time.Time, payloads ...[]byte) (b op.Batch, places []op.Inclusion) {
	t.Helper()
	tree := must.Get(authz.NewBatchTree(payloads))(t)
	now = now.UTC().Truncate(time.Second)
	b = op.Batch{Role: op.Operational, Count: tree.Size(), Root: must.Get(tree.Root())(t), IssuedAt: now, ExpiresAt: now.Add(15 * time.Minute)}
	encoded := must.Get(b.Encode())(t)
	for i := range payloads {
		places = append(places, op.Inclusion{Batch: encoded, Index: i, Path: must.Get(tree.Path(i))(t)})
	}
	return b, places
}

// BatchSigned is the envelope of each payload of a batch, with operational signatures by keys.
func BatchSigned(t testing.TB, now time.Time, payloads [][]byte, keys ...mint.Key) []authz.Envelope {
	t.Helper()
	_, places := Batch(t, now, payloads...)
	var out []authz.Envelope
	for i, p := range payloads {
		e := authz.Envelope{Payload: p, Batch: &places[i]}
		for _, k := range keys {
			e.Signatures = append(e.Signatures, mint.Sign(t, k, op.Operational.BatchNamespace(), places[i].Batch).Armored())
		}
		out = append(out, e)
	}
	return out
}

// Rejection is a rejection of a request, signed by a key. It is valid for an hour.
func Rejection(t testing.TB, g *gate.Gate, r op.Request, now time.Time, k mint.Key) authz.Envelope {
	t.Helper()
	now = now.UTC().Truncate(time.Second)
	return Signed(t, must.Get(op.Rejection{Gate: g.ID(), Host: g.Host(), Request: r.ID, PayloadSHA256: op.SHA256(r.Payload),
		Nonce: op.NewNonce(now), IssuedAt: now, ExpiresAt: now.Add(time.Hour), Reason: "no"}.Encode())(t), k)
}

// Guest is the target of a guest.
func Guest(name string) op.Target { return op.Target{Kind: op.KindGuest, Name: name} }

// Ask is a wish for one step on a guest.
func Ask(name, guest string, params ...any) op.Ask {
	return op.Ask{Op: name, Target: Guest(guest), Params: Params(params...)}
}

// Params are parameters of a step from pairs of a name and a value.
func Params(pairs ...any) op.Params {
	p := op.Params{}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i].(string)] = pairs[i+1]
	}
	return p
}
