package vectors

import (
	"testing"
	"time"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// batches makes the cases of batch.json.
func batches(t *testing.T) []Vector {
	b := &batched{envelopes: envelopes{t: t}, dave: mint.Ed25519(t, "dave")}
	b.line = b.dave.Line("dave", `namespaces="operational@gated,operational@batch.gated"`)
	b.places()
	b.signed()
	b.times()
	return b.out
}

type batched struct {
	envelopes
	dave mint.Key
	line string
}

// tree is the batch over n payloads, of which the approval is number index, and its path.
func (b *batched) tree(n, index int) (op.Batch, []string) {
	var payloads [][]byte
	for i := range n {
		p := approval
		if i != index {
			p.Target.Name = "other-" + string(rune('a'+i))
		}
		payloads = append(payloads, encoded(b.t, p))
	}
	tree := must.Get(authz.NewBatchTree(payloads))(b.t)
	path := []string{}
	for _, d := range must.Get(tree.Path(index))(b.t) {
		path = append(path, d.String())
	}
	return op.Batch{Role: op.Operational, Count: n, Root: must.Get(tree.Root())(b.t), IssuedAt: noon, ExpiresAt: noon.Add(15 * time.Minute)}, path
}

// over is the approval, with a signature over a batch and a place in it.
func (b *batched) over(batch op.Batch, index int, path []string, namespace string) envelopeCase {
	signed := encoded(b.t, batch)
	c := usual(b.line, encoded(b.t, approval), mint.Sign(b.t, b.dave, namespace, signed))
	c.Envelope.Batch = &api.Batched{Payload: b64(signed), Index: index, Path: path}
	return c
}

func (b *batched) places() {
	who := is(b.dave, op.Operational)
	good := func(n string, count, index int) {
		batch, path := b.tree(count, index)
		b.accept(n, b.over(batch, index, path, "operational@batch.gated"), who)
	}
	good("a batch of one", 1, 0)
	good("the second of three", 3, 1)
	good("the last of three", 3, 2)
	good("the fifth of seven", 7, 4)
	bad := func(n, why string, stage refusal.Stage, code refusal.Code, change func(c *api.Batched)) {
		batch, path := b.tree(7, 4)
		c := b.over(batch, 4, path, "operational@batch.gated")
		change(c.Envelope.Batch)
		b.refuse(n, c, stage, code, why)
	}
	inclusion, mismatch := refusal.StageInclusion, refusal.BindingMismatch
	bad("another index", "it is the leaf of another place", inclusion, mismatch, func(c *api.Batched) { c.Index = 5 })
	bad("a path that is too short", "it has as many hashes as index and count ask for", inclusion, mismatch, func(c *api.Batched) { c.Path = c.Path[1:] })
	bad("a path that is too long", "it has as many hashes as index and count ask for", inclusion, mismatch, func(c *api.Batched) { c.Path = append(c.Path, c.Path[0]) })
	bad("a path in another order", "the leaf's own sibling is the first", inclusion, mismatch, func(c *api.Batched) { c.Path[0], c.Path[1] = c.Path[1], c.Path[0] })
	bad("an index that is the count", "the index is below the count", refusal.StageDecode, refusal.Malformed, func(c *api.Batched) { c.Index = 7 })
	bad("a negative index", "the index is below the count", refusal.StageDecode, refusal.Malformed, func(c *api.Batched) { c.Index = -1 })
	bad("a hash in capitals", "hex digits are lower-case", refusal.StageDecode, refusal.Malformed, func(c *api.Batched) { c.Path[0] = "AB" + c.Path[0][2:] })
	bad("eleven hashes", "a path has at most 10", refusal.StageDecode, refusal.Oversized, func(c *api.Batched) {
		for len(c.Path) < 11 {
			c.Path = append(c.Path, c.Path[0])
		}
	})
}

func (b *batched) signed() {
	batch, path := b.tree(3, 1)
	good := b.over(batch, 1, path, "operational@batch.gated")
	b.refuse("the namespace of the role", b.over(batch, 1, path, "operational@gated"), refusal.StageNamespace, refusal.NamespaceMismatch, "a batch has a namespace of its own")
	other := batch
	other.Role = op.Coordination
	b.refuse("another role in the batch", b.over(other, 1, path, "operational@batch.gated"), refusal.StageNamespace, refusal.NamespaceMismatch, "the batch names the role")
	c := good
	c.Gate.AllowedSigners = b.dave.Line("dave", operational) + b.dave.Line("dave", `namespaces="operational@batch.gated"`)
	b.refuse("two lines with a namespace each", c, refusal.StageAllowList, refusal.UnknownSigner, "one line names both namespaces")
	c = good
	c.Gate.AllowedSigners = b.dave.Line("dave", `namespaces="operational@gated,operational@batch.gated",valid-before="20260301Z"`)
	b.refuse("a line that is over", c, refusal.StageAllowList, refusal.SignerExpired, "its time is over")
	c = b.over(batch, 1, path, "operational@batch.gated")
	c.Envelope.Signatures = []string{mint.Sign(b.t, b.dave, "operational@batch.gated", encoded(b.t, approval)).Armored()}
	b.refuse("a signature over the payload", c, refusal.StageCrypto, refusal.BadSignature, "the signatures are over the batch")
	rejection := encoded(b.t, op.Rejection{Gate: gateID, Host: host, Request: op.RequestID{Job: 12, Index: 1}, PayloadSHA256: op.SHA256(encoded(b.t, approval)),
		Nonce: "EBESExQVFhcYGRobHB0eHw", IssuedAt: noon, ExpiresAt: noon.Add(time.Hour)})
	c = usual(b.line, rejection, mint.Sign(b.t, b.dave, "operational@batch.gated", encoded(b.t, batch)))
	c.As, c.Envelope.Batch = "rejection", &api.Batched{Payload: b64(encoded(b.t, batch)), Index: 1, Path: path}
	b.refuse("a rejection in a batch", c, refusal.StageDecode, refusal.Malformed, "a rejection is signed alone")
}

func (b *batched) times() {
	who := is(b.dave, op.Operational)
	lasting := func(valid, after time.Duration) envelopeCase {
		batch, path := b.tree(3, 1)
		batch.ExpiresAt = noon.Add(valid)
		c := b.over(batch, 1, path, "operational@batch.gated")
		c.Now = noon.Add(after)
		return c
	}
	b.accept("a batch of one hour", lasting(time.Hour, 0), who)
	b.refuse("a batch of more than one hour", lasting(time.Hour+time.Second, 0), refusal.StageTime, refusal.ValidityTooLong, "a batch is valid for at most one hour")
	c := lasting(20*time.Minute, 0)
	c.Gate.MaxValidity = 600
	b.refuse("a batch of more than max_validity", c, refusal.StageTime, refusal.ValidityTooLong, "max_validity bounds a batch too")
	b.refuse("a batch that is not valid yet", lasting(time.Hour, -61*time.Second), refusal.StageTime, refusal.NotYetValid, "clocks may differ by 60 seconds")
	b.refuse("a batch that has expired", lasting(10*time.Minute, 12*time.Minute), refusal.StageTime, refusal.Expired, "the payload is valid, the batch is not")
	c = lasting(10*time.Minute, 0)
	c.Gate.Host = "pve2"
	b.refuse("a batch at another host", c, refusal.StageTarget, refusal.TargetMismatch, "the host is the payload's")
}

// proofs makes the cases of proof.json.
func proofs(t *testing.T) []Vector {
	e := &envelopes{t: t}
	alice, bob, ca := mint.Ed25519(t, "alice"), mint.Ed25519(t, "bob"), mint.Ed25519(t, "ca")
	rotation := func(lines string, add []string, signs ...mint.Key) envelopeCase {
		p := approval
		p.Op, p.Target = "trust.rotate", op.Target{Kind: "trust", Name: "allowed-signers"}
		p.Params = op.Params{"add": []any{}, "remove": []any{}}
		for _, l := range add {
			p.Params["add"] = append(p.Params["add"].([]any), l)
		}
		var made []mint.Signature
		for _, k := range signs {
			made = append(made, mint.Sign(t, k, op.Operational.Namespace(), encoded(t, p)))
		}
		return usual(lines, encoded(t, p), made...)
	}
	line := func(k mint.Key, options string) string { return k.Name + " " + options + " " + k.Text() }
	prove := func(n string, c envelopeCase, signers []signer, proofs ...signer) {
		c.Name, c.Outcome = Name(n), Accepted(t, said{Signers: signers, Proofs: proofs})
		e.out = append(e.out, &c)
	}
	mine, his, theirs := is(alice, op.Operational), is(bob, op.Operational), is(ca, op.Operational)
	prove("an approval, and the new key's proof", rotation(alice.Line("alice", operational), []string{line(bob, operational)}, alice, bob), []signer{mine}, his)
	prove("a proof alone", rotation(alice.Line("alice", operational), []string{line(bob, operational)}, bob), nil, his)
	theirs.Principal = "*@example.com"
	prove("an authority's own key", rotation(alice.Line("alice", operational), []string{"*@example.com cert-authority," + operational + " " + ca.Text()}, alice, ca), []signer{mine}, theirs)
	prove("a key that is listed counts, and proves nothing", rotation(alice.Line("alice", operational), []string{line(alice, `namespaces="operational@gated,recovery@gated"`)}, alice), []signer{mine})
	refuse := func(n string, code refusal.Code, why string, c envelopeCase) {
		e.refuse(n, c, refusal.StageAllowList, code, why)
	}
	refuse("a key that the rotation adds for another role", refusal.UnknownSigner, "add names exactly this key and role",
		rotation(alice.Line("alice", operational), []string{line(bob, `namespaces="recovery@gated"`)}, bob))
	refuse("a key that the rotation does not add", refusal.UnknownSigner, "add names exactly this key and role", rotation(alice.Line("alice", operational), []string{line(ca, operational)}, bob))
	revoked := rotation(alice.Line("alice", operational), []string{line(bob, operational)}, bob)
	text := bob.Fingerprint() + "\n"
	revoked.Gate.Revoked = &text
	refuse("a revoked key", refusal.SignerRevoked, "a revoked key proves nothing", revoked)
	other := approval
	other.Params = op.Params{"add": []any{line(bob, operational)}}
	refuse("another operation", refusal.UnknownSigner, "the operation is trust.rotate", usual(alice.Line("alice", operational), encoded(t, other),
		mint.Sign(t, bob, op.Operational.Namespace(), encoded(t, other))))
	certified := rotation(alice.Line("alice", operational), []string{line(bob, operational)}, bob)
	p := must.Get(certified.Envelope.Open())(t)
	certified.Envelope.Signatures = []string{mint.SignWith(t, mint.Certify(ca, bob, "bob"), bob, op.Operational.Namespace(), p).Armored()}
	refuse("a certificate", refusal.UnknownSigner, "a proof is a plain key's signature", certified)
	wrong := rotation(alice.Line("alice", operational), []string{line(bob, operational)}, bob)
	wrong.Envelope.Signatures = []string{mint.Sign(t, bob, op.Operational.Namespace(), []byte("other")).Armored()}
	e.refuse("a proof over other bytes", wrong, refusal.StageCrypto, refusal.BadSignature, "a proof skips the allow-list and nothing else")
	return e.out
}
