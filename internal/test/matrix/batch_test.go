package matrix_test

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/people/policy"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

const (
	ofBatches = "operational@batch.gated"
	bothUses  = operational + "," + ofBatches
)

// dana is an operator who may sign batches.
func dana(w *world) key { return keyOf(w.t, "dana") }

// pair is a batch by dana over the requests to destroy victim and bystander.
type pair struct {
	*world
	victim, bystander op.Request
	batch             op.Batch
	es                []authz.Envelope // of the two
}

// signedBatch is the envelope of each payload in a batch, after a change of the batch, with a vote over it.
func (w *world) signedBatch(v vote, change func(*op.Batch), payloads ...[]byte) (op.Batch, []authz.Envelope) {
	w.t.Helper()
	b, places := gateworld.Batch(w.t, w.now(), payloads...)
	if change != nil {
		change(&b)
	}
	text := must.Get(b.Encode())(w.t)
	armored := v(w.t, text)
	var out []authz.Envelope
	for i, p := range payloads {
		places[i].Batch = text
		out = append(out, authz.Envelope{Payload: p, Signatures: []string{armored}, Batch: &places[i]})
	}
	return b, out
}

func (p *pair) sign(v vote, change func(*op.Batch)) []authz.Envelope {
	var es []authz.Envelope
	p.batch, es = p.signedBatch(v, change, p.victim.Payload, p.bystander.Payload)
	return es
}

// batchRow is a row about a batch that dana signed, or that an attacker makes of its parts.
func batchRow(id, what string, want refusal.Code, run func(p *pair) error) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		w.list(dana(w).line(bothUses))
		p := &pair{world: w, victim: w.destroyRequest(), bystander: w.request(ask("guest.destroy", "bystander"))}
		p.es = p.sign(dana(w).votes(ofBatches), nil)
		w.arm()
		return run(p)
	}}
}

// forgedBatch is a row in which the batch has other bytes, which dana signed.
func forgedBatch(id, what string, want refusal.Code, old, with string) attack {
	return batchRow(id, what, want, func(p *pair) error {
		e := p.es[0]
		in := *e.Batch
		in.Batch = []byte(strings.Replace(string(in.Batch), old, with, 1))
		require.NotEqual(p.t, e.Batch.Batch, in.Batch)
		return p.send(p.victim.ID, authz.Envelope{Payload: e.Payload, Signatures: []string{dana(p.world).forge(p.t, ofBatches, in.Batch)}, Batch: &in})
	})
}

// inPlace is the envelope with another place in its batch.
func inPlace(e authz.Envelope, change func(*op.Inclusion)) authz.Envelope {
	in := *e.Batch
	in.Path = slices.Clone(in.Path)
	change(&in)
	e.Batch = &in
	return e
}

// batchRows are S24.
var batchRows = []attack{
	batchRow("S24a", "the path of another leaf", refusal.BindingMismatch, func(p *pair) error {
		return p.send(p.victim.ID, authz.Envelope{Payload: p.victim.Payload, Signatures: p.es[0].Signatures, Batch: p.es[1].Batch})
	}),
	batchRow("S24b", "the batch's signature as one over the payload, and over the batch in the place of the payload", refusal.NamespaceMismatch, func(p *pair) error {
		require.ErrorIs(p.t, p.send(p.victim.ID, one(p.es[0].Batch.Batch, p.es[0].Signatures[0])), refusal.Malformed)
		require.ErrorIs(p.t, p.sendOffline(one(p.victim.Payload, p.es[0].Signatures[0])), refusal.NamespaceMismatch)
		return p.send(p.victim.ID, one(p.victim.Payload, p.es[0].Signatures[0]))
	}),
	batchRow("S24c", "a signature over a payload as one of a batch", refusal.BadSignature, func(p *pair) error {
		e := p.es[0]
		e.Signatures = []string{dana(p.world).forge(p.t, operational, e.Payload)}
		require.ErrorIs(p.t, p.send(p.victim.ID, e), refusal.NamespaceMismatch)
		e.Signatures = []string{dana(p.world).forge(p.t, ofBatches, e.Payload)}
		return p.send(p.victim.ID, e)
	}),
	batchRow("S24d", "the leaf of another gate, and of another host", refusal.TargetMismatch, func(p *pair) error {
		for _, change := range []func(*op.Payload){func(x *op.Payload) { x.Host = "pve2" }, func(x *op.Payload) { x.Gate = "f123456789abcdef0123456789abcdef" }} {
			_, es := p.signedBatch(dana(p.world).votes(ofBatches), nil, p.altered(p.victim, change), p.bystander.Payload)
			require.ErrorIs(p.t, p.send(p.victim.ID, es[0]), refusal.TargetMismatch)
		}
		_, es := p.signedBatch(dana(p.world).votes(ofBatches), nil, p.altered(p.victim, func(x *op.Payload) { x.Host = "pve2" }))
		return p.send(p.victim.ID, es[0])
	}),
	batchRow("S24e", "the batch of another role: its signature in each namespace", refusal.UnknownSigner, func(p *pair) error {
		for _, ns := range []string{operational, coordination, "coordination@batch.gated", "recovery@batch.gated", "manager@batch.gated", ofBatches + " ", "OPERATIONAL@batch.gated"} {
			es := p.sign(dana(p.world).votes(ns), nil)
			require.ErrorIs(p.t, p.send(p.victim.ID, es[0]), refusal.NamespaceMismatch, ns)
		}
		es := p.sign(p.carol.votes("coordination@batch.gated"), func(b *op.Batch) { b.Role = op.Coordination })
		return p.send(p.victim.ID, es[0])
	}),
	batchRow("S24f", "the envelope of another request", refusal.BindingMismatch, func(p *pair) error { return p.send(p.victim.ID, p.es[1]) }),
	batchRow("S24g", "an index out of range, below, at and above the count", refusal.Malformed, func(p *pair) error {
		for _, i := range []int{-1, 2, 3, 1000, -1 << 62} {
			require.ErrorIs(p.t, p.send(p.victim.ID, inPlace(p.es[0], func(in *op.Inclusion) { in.Index = i })), refusal.Malformed)
		}
		return p.send(p.victim.ID, inPlace(p.es[0], func(in *op.Inclusion) { in.Index = 1 << 62 }))
	}),
	forgedBatch("S24h", "a count above 1,000", refusal.Malformed, `"count":2`, `"count":1001`),
	forgedBatch("S24i", "an empty batch", refusal.Malformed, `"count":2`, `"count":0`),
	batchRow("S24j", "the same leaf twice: approved by the first place, and again by the second", refusal.Replayed, func(p *pair) error {
		digest := sha256.Sum256(p.victim.Payload)
		leaf := sha256.Sum256(append([]byte{0}, digest[:]...))
		root := sha256.Sum256(slices.Concat([]byte{1}, leaf[:], leaf[:]))
		es := p.sign(dana(p.world).votes(ofBatches), func(b *op.Batch) { b.Root = root })
		at := func(i int) authz.Envelope {
			return inPlace(es[0], func(in *op.Inclusion) { in.Index, in.Path = i, []op.Digest{leaf} })
		}
		require.NoError(p.t, p.send(p.victim.ID, at(0)))
		require.NoError(p.t, p.runAll())
		require.False(p.t, p.observe("victim").Present)
		p.arm()
		p.allow.finale = []string{"victim", "bystander"}
		return p.send(p.victim.ID, at(1))
	}),
	batchRow("S24k", "a batch that expired, while its payloads live", refusal.Expired, func(p *pair) error {
		p.pass(p.batch.ExpiresAt.Sub(p.batch.IssuedAt) + gate.Skew + time.Second)
		return p.send(p.victim.ID, p.es[0])
	}),
	batchRow("S24l", "a second preimage: a node for a leaf, a leaf for a root, a payload that ends in the bytes of a node", refusal.BindingMismatch, func(p *pair) error {
		digest := sha256.Sum256(p.victim.Payload)
		leaf := op.Digest(sha256.Sum256(append([]byte{0}, digest[:]...)))
		node := slices.Concat(leaf[:], p.es[0].Batch.Path[0][:])
		require.ErrorIs(p.t, p.send(p.victim.ID, authz.Envelope{Payload: node, Signatures: p.es[0].Signatures, Batch: p.es[0].Batch}), refusal.Malformed)
		for _, root := range []op.Digest{leaf, digest, sha256.Sum256(slices.Concat(leaf[:], p.es[0].Batch.Path[0][:])),
			sha256.Sum256(slices.Concat([]byte{0}, leaf[:], p.es[0].Batch.Path[0][:]))} {
			es := p.sign(dana(p.world).votes(ofBatches), func(b *op.Batch) { b.Root = root })
			require.ErrorIs(p.t, p.send(p.victim.ID, es[0]), refusal.BindingMismatch)
		}
		return p.send(p.victim.ID, inPlace(p.es[0], func(in *op.Inclusion) { in.Path = append([]op.Digest{leaf}, in.Path...) }))
	}),
	batchRow("S24m", "by keys that may not sign one: an operator, a recovery key that lists it, one of no line", refusal.UnknownSigner, func(p *pair) error {
		for _, k := range []key{p.alice, p.rita, p.carol} {
			require.ErrorIs(p.t, p.send(p.victim.ID, p.sign(k.votes(ofBatches), nil)[0]), refusal.UnknownSigner)
		}
		return p.send(p.victim.ID, p.sign(p.mallory.votes(ofBatches), nil)[0])
	}),
	{id: "S24n", what: "the request was issued anew after the batch was signed", want: refusal.Superseded, run: func(w *world) error {
		w.list(dana(w).line(bothUses))
		r := w.destroyRequest()
		_, es := w.signedBatch(dana(w).votes(ofBatches), nil, r.Payload)
		guarded(w)
		w.again()
		w.arm()
		return w.send(r.ID, es[0])
	}},
	{id: "S24o", what: "two unsigned steps around the batch: a snapshot, and one more after the request was issued anew", want: refusal.Superseded, run: func(w *world) error {
		w.list(dana(w).line(bothUses))
		r := w.destroyRequest()
		_, es := w.signedBatch(dana(w).votes(ofBatches), nil, r.Payload)
		w.first("guest.snapshot", "victim", "snapshot", "s1")
		require.ErrorIs(w.t, w.send(r.ID, es[0]), refusal.StaleTarget)
		w.again()
		w.first("guest.snapshot", "victim", "snapshot", "s2")
		w.again()
		w.arm()
		return w.send(r.ID, es[0])
	}},
	{id: "S24p", what: "a change of the signers among the leaves", want: refusal.NotAllowed, run: func(w *world) error {
		w.list(dana(w).line(bothUses))
		r := w.request(w.next([]string{w.mallory.line(bothUses)}, nil))
		_, es := w.signedBatch(dana(w).votes(ofBatches), nil, r.Payload)
		w.arm()
		_, proof := w.signedBatch(w.mallory.votes(ofBatches), nil, r.Payload)
		require.ErrorIs(w.t, w.send(r.ID, proof[0]), refusal.UnknownSigner)
		return w.send(r.ID, es[0])
	}},
	{id: "S24q", what: "the line loses the namespace of batches after the batch counted, before the step runs", want: refusal.UnknownSigner, run: func(w *world) error {
		w.list(dana(w).line(bothUses))
		r := w.destroyRequest()
		_, es := w.signedBatch(dana(w).votes(ofBatches), nil, r.Payload)
		require.NoError(w.t, w.send(r.ID, es[0]))
		w.rotate([]string{dana(w).line(operational)}, []string{dana(w).print(w.t)}, w.alice.votes(operational))
		w.arm()
		return w.runAll()
	}},
	batchRow("S24r", "a batch where there is no request of the gate's: as an offline operation", refusal.Malformed, func(p *pair) error {
		return p.sendOffline(p.es[0])
	}),
	batchRow("S24s", "a batch as a rejection", refusal.Malformed, func(p *pair) error {
		rej := p.rejection(p.victim, dana(p.world))
		rej.Batch = p.es[0].Batch
		require.ErrorIs(p.t, failure(p.gate.Reject(p.ctx, hub, p.victim.ID, rej)), refusal.Malformed)
		return failure(p.gate.Reject(p.ctx, hub, p.victim.ID, p.es[0]))
	}),
	{id: "S24t", what: "two are needed: one key's batch and its single signature", want: refusal.ThresholdUnmet, run: func(w *world) error {
		w.list(dana(w).line(bothUses))
		w.two()
		r := w.mustSign(w.destroyRequest(), dana(w).votes(operational))
		_, es := w.signedBatch(dana(w).votes(ofBatches), nil, r.Payload)
		w.arm()
		return w.send(r.ID, es[0])
	}},
	{id: "S24u", what: "a rule refuses batches, and one that wants a verification does", want: refusal.NotAllowed, run: func(w *world) error {
		w.list(dana(w).line(bothUses))
		r := w.destroyRequest()
		_, es := w.signedBatch(dana(w).votes(ofBatches), nil, r.Payload)
		w.rule(policy.Rule{Where: "gated.yaml:3", Op: "guest.*", Threshold: 1, Touch: op.TouchVerified})
		require.ErrorIs(w.t, w.send(r.ID, es[0]), refusal.NotAllowed)
		w.rule(policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, Single: true})
		w.arm()
		return w.send(r.ID, es[0])
	}},
}
