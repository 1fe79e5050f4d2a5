package authz

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// batchVerifier is testVerifier with lines that may sign batches.
func batchVerifier(t testing.TB) Verifier {
	t.Helper()
	v := testVerifier(t)
	const options = `namespaces="operational@gated,operational@batch.gated,coordination@gated"`
	v.Trust = loadTrust(t, trustLine("alice@example.com", options, testKey(t, "alice").PublicKey()),
		trustLine("erin@example.com", `namespaces="operational@gated"`, testKey(t, "ecdsa-p256").PublicKey()),
		trustLine("rolf@example.com", `namespaces="operational@batch.gated"`, testKey(t, "rsa-3072").PublicKey()))
	return v
}

// batched signs a batch over n payloads, of which testPayload is that of the index.
func batched(t testing.TB, n, index int, change func(*op.Batch), keys ...mint.Key) Envelope {
	t.Helper()
	payloads := make([][]byte, n)
	for i := range payloads {
		p := testPayload
		if i != index {
			p.Reason = fmt.Sprintf("other %d", i)
		}
		payloads[i] = encode(t, p)
	}
	tree := must.Get(NewBatchTree(payloads))(t)
	b := op.Batch{Role: op.Operational, Count: n, Root: must.Get(tree.Root())(t), IssuedAt: issued, ExpiresAt: issued.Add(15 * time.Minute)}
	if change != nil {
		change(&b)
	}
	e := Envelope{Payload: payloads[index], Batch: &op.Inclusion{Batch: encode(t, b), Index: index, Path: must.Get(tree.Path(index))(t)}}
	for _, k := range keys {
		e.Signatures = append(e.Signatures, mint.Sign(t, k, b.Role.BatchNamespace(), e.Batch.Batch).Armored())
	}
	return e
}

// changed is a copy of an envelope with another place in the batch.
func changed(e Envelope, change func(*op.Inclusion)) Envelope {
	in := *e.Batch
	in.Batch, in.Path = slices.Clone(in.Batch), slices.Clone(in.Path)
	change(&in)
	e.Batch = &in
	return e
}

func TestBatchIsVerified(t *testing.T) {
	t.Parallel()
	v := batchVerifier(t)
	for _, n := range []int{1, 2, 3, 4, 5, 8, 9, 255, 999, op.MaxBatch} {
		for _, index := range []int{0, n / 2, n - 1} {
			e := batched(t, n, index, nil, testKey(t, "alice"))
			require.LessOrEqual(t, len(e.Batch.Path), op.MaxBatchPath)
			a := must.Get(v.Approval(e, issued))(t, "%d of %d", index, n)
			require.Equal(t, n, a.Batch.Count)
			require.Equal(t, e.Batch, a.Signers[0].Batch)
			require.Equal(t, "alice@example.com", a.Signers[0].Principal)
			by := a.Signers[0]
			stored := op.Signed{Principal: by.Principal, Role: by.Role, Key: by.Key, Armor: by.Armor, Batch: by.Batch}
			require.NoError(t, VerifyStored(e.Payload, stored))
			other := testPayload
			other.Reason = "it is not in the batch"
			err := VerifyStored(encode(t, other), stored)
			require.ErrorIs(t, err, refusal.BindingMismatch)
			require.Equal(t, refusal.StageInclusion, refusal.As(err).Stage)
			stored.Batch = nil
			refused(t, VerifyStored(e.Payload, stored), refusal.NamespaceMismatch, refusal.StageNamespace)
		}
	}
	must.Fail(NewBatchTree(nil))(t, refusal.BadParams)
	must.Fail(NewBatchTree(make([][]byte, op.MaxBatch+1)))(t, refusal.BadParams)
	must.Fail(NewBatchTree([][]byte{{1}, {2}, {1}}))(t, refusal.BadParams, "duplicate leaves")
}

// TestBatchStages: each stage refuses what is its own, and one change is enough.
func TestBatchStages(t *testing.T) {
	t.Parallel()
	v, alice := batchVerifier(t), testKey(t, "alice")
	good := batched(t, 5, 2, nil, alice)
	other := batched(t, 5, 3, nil, alice)
	by := func(keys ...mint.Key) Envelope { return batched(t, 5, 2, nil, keys...) }
	with := func(change func(*op.Batch)) Envelope { return batched(t, 5, 2, change, alice) }
	at := func(change func(*op.Inclusion)) Envelope { return changed(good, change) }
	signedAs := func(namespace string, over []byte) Envelope {
		e := good
		e.Signatures = []string{mint.Sign(t, alice, namespace, over).Armored()}
		return e
	}
	for _, c := range []struct {
		name  string
		e     Envelope
		code  refusal.Code
		stage refusal.Stage
	}{
		{"no batch", at(func(in *op.Inclusion) { in.Batch = nil }), refusal.Malformed, refusal.StageDecode},
		{"a payload as the batch", at(func(in *op.Inclusion) { in.Batch = good.Payload }), refusal.Malformed, refusal.StageDecode},
		{"a batch as the payload", Envelope{Payload: good.Batch.Batch, Signatures: good.Signatures, Batch: good.Batch}, refusal.Malformed, refusal.StageDecode},
		{"an index below", at(func(in *op.Inclusion) { in.Index = -1 }), refusal.Malformed, refusal.StageDecode},
		{"an index above", at(func(in *op.Inclusion) { in.Index = 5 }), refusal.Malformed, refusal.StageDecode},
		{"a path that no batch has", at(func(in *op.Inclusion) { in.Path = make([]op.Digest, op.MaxBatchPath+1) }), refusal.Oversized, refusal.StageDecode},
		{"no signature", by(), refusal.Malformed, refusal.StageDecode},
		{"the role's namespace", signedAs("operational@gated", good.Batch.Batch), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"the namespace over the payload", signedAs("operational@gated", good.Payload), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"the namespace of another role", signedAs("coordination@batch.gated", good.Batch.Batch), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"of a role that is not here", with(func(b *op.Batch) { b.Role = "manager" }), refusal.NamespaceMismatch, refusal.StageNamespace},
		{"a line for the role alone", by(testKey(t, "ecdsa-p256")), refusal.UnknownSigner, refusal.StageAllowList},
		{"a line for batches alone", by(testKey(t, "rsa-3072")), refusal.UnknownSigner, refusal.StageAllowList},
		{"no batch in the role of the line", with(func(b *op.Batch) { b.Role = op.Coordination }), refusal.UnknownSigner, refusal.StageAllowList},
		{"one of two signatures", by(alice, testKey(t, "ecdsa-p256")), refusal.UnknownSigner, refusal.StageAllowList},
		{"over the payload in the batch's namespace", signedAs("operational@batch.gated", good.Payload), refusal.BadSignature, refusal.StageCrypto},
		{"of another batch", Envelope{Payload: good.Payload, Signatures: good.Signatures, Batch: by().Batch}, "", ""},
		{"the place of another leaf", Envelope{Payload: good.Payload, Signatures: good.Signatures, Batch: other.Batch}, refusal.BadSignature, refusal.StageCrypto},
		{"another index", at(func(in *op.Inclusion) { in.Index = 3 }), refusal.BindingMismatch, refusal.StageInclusion},
		{"no path", at(func(in *op.Inclusion) { in.Path = nil }), refusal.BindingMismatch, refusal.StageInclusion},
		{"a path of more", at(func(in *op.Inclusion) { in.Path = append(in.Path, op.Digest{}) }), refusal.BindingMismatch, refusal.StageInclusion},
		{"a path of less", at(func(in *op.Inclusion) { in.Path = in.Path[1:] }), refusal.BindingMismatch, refusal.StageInclusion},
		{"another count", with(func(b *op.Batch) { b.Count = 9 }), refusal.BindingMismatch, refusal.StageInclusion},
		{"another payload", Envelope{Payload: other.Payload, Signatures: good.Signatures, Batch: good.Batch}, "", ""},
		{"expired", with(func(b *op.Batch) { b.IssuedAt, b.ExpiresAt = issued.Add(-time.Hour), issued.Add(-61*time.Second) }), refusal.Expired, refusal.StageTime},
		{"of later", with(func(b *op.Batch) { b.IssuedAt, b.ExpiresAt = issued.Add(61*time.Second), issued.Add(time.Hour) }), refusal.NotYetValid, refusal.StageTime},
		{"for too long", with(func(b *op.Batch) { b.ExpiresAt = issued.Add(op.MaxBatchValidity + time.Second) }), refusal.ValidityTooLong, refusal.StageTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := v.Approval(c.e, issued)
			if c.code == "" { // the same bytes as a good one
				require.NoError(t, err)
				return
			}
			refused(t, err, c.code, c.stage)
		})
	}
	must.Get(v.Approval(with(func(b *op.Batch) { b.ExpiresAt = issued.Add(op.MaxBatchValidity) }), issued))(t, "exactly at the limit")
	v.MaxValidity = 10 * time.Minute
	e := good
	_, err := v.Approval(e, issued)
	refused(t, err, refusal.ValidityTooLong, refusal.StageTime)
	require.ErrorContains(t, err, "the batch is valid for 15m0s", "before the payload is looked at")
	_, err = v.Rejection(Envelope{Payload: encode(t, testRejection), Signatures: good.Signatures, Batch: good.Batch}, issued)
	refused(t, err, refusal.Malformed, refusal.StageDecode)
}

// TestWhyAKeySignsNoBatch: a listed key needs another namespace, and a key that no line lists is told so.
func TestWhyAKeySignsNoBatch(t *testing.T) {
	v := batchVerifier(t)
	_, err := v.Approval(batched(t, 5, 2, nil, testKey(t, "ecdsa-p256")), issued)
	require.ErrorContains(t, err, "no line lists key")
	require.ErrorContains(t, err, "so it signs no batch")
	_, err = v.Approval(batched(t, 5, 2, nil, mint.Ed25519(t, "nora")), issued)
	require.ErrorContains(t, err, "is not in allowed_signers for operational@batch.gated")
}

// TestEveryBitOfABatchCounts: of the batch, the payload, the path and the index, as of a signature.
func TestEveryBitOfABatchCounts(t *testing.T) {
	t.Parallel()
	v, e := batchVerifier(t), batched(t, 6, 3, nil, testKey(t, "alice"))
	must.Get(v.Approval(e, issued))(t)
	codes := []refusal.Code{refusal.Malformed, refusal.BadSignature, refusal.BindingMismatch, refusal.NamespaceMismatch}
	check := func(e Envelope, what string, i int) {
		_, err := v.Approval(e, issued)
		require.Contains(t, codes, refusal.CodeOf(err), "%s, %d: %v", what, i, err)
	}
	for i := range len(e.Batch.Batch) * 8 {
		check(changed(e, func(in *op.Inclusion) { in.Batch[i/8] ^= 1 << (i % 8) }), "batch", i)
	}
	for i := range len(e.Payload) * 8 {
		one := e
		one.Payload = slices.Clone(e.Payload)
		one.Payload[i/8] ^= 1 << (i % 8)
		check(one, "payload", i)
	}
	for i := range len(e.Batch.Path) * 256 {
		check(changed(e, func(in *op.Inclusion) { in.Path[i/256][i%256/8] ^= 1 << (i % 8) }), "path", i)
	}
	for i := range op.MaxBatch {
		if i != e.Batch.Index {
			check(changed(e, func(in *op.Inclusion) { in.Index = i }), "index", i)
		}
	}
	for n := range op.MaxBatchPath {
		if n != len(e.Batch.Path) {
			check(changed(e, func(in *op.Inclusion) { in.Path = append(in.Path, make([]op.Digest, 10)...)[:n] }), "path's length", n)
		}
	}
}

// rootOf is RFC 6962, section 2.1, written down a second time.
func rootOf(leaves [][]byte) []byte {
	hash := func(parts ...[]byte) []byte { h := sha256.Sum256(slices.Concat(parts...)); return h[:] }
	if len(leaves) == 1 {
		digest := sha256.Sum256(leaves[0])
		return hash([]byte{0}, digest[:])
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	return hash([]byte{1}, rootOf(leaves[:k]), rootOf(leaves[k:]))
}

// TestBatchProperty: over random sets, each payload is included at its own place and at no other, and no node of the tree
// passes for a leaf (a second preimage).
func TestBatchProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		leaves := rapid.SliceOfNDistinct(rapid.SliceOfN(rapid.Byte(), 0, 40), 1, 70, func(b []byte) string { return string(b) }).Draw(t, "leaves")
		tree := must.Get(NewBatchTree(leaves))(t)
		root := must.Get(tree.Root())(t)
		require.Equal(t, hex.EncodeToString(rootOf(leaves)), root.String())
		b := op.Batch{Count: len(leaves), Root: root}
		i, j := rapid.IntRange(0, len(leaves)-1).Draw(t, "i"), rapid.IntRange(-1, len(leaves)).Draw(t, "j")
		path := must.Get(tree.Path(i))(t)
		require.NoError(t, Included(b, op.Inclusion{Index: i, Path: path}, leaves[i]))
		if i != j {
			require.Error(t, Included(b, op.Inclusion{Index: j, Path: path}, leaves[i]))
			if j >= 0 && j < len(leaves) {
				require.Error(t, Included(b, op.Inclusion{Index: i, Path: path}, leaves[j]))
			}
		}
		// The bytes of a node, and of both of its children, are no payload in the tree of half the height.
		for n := range path {
			for _, bytes := range [][]byte{path[n][:], slices.Concat([]byte{1}, path[n][:], path[n][:]), root[:]} {
				for size := 1; size <= len(leaves); size++ {
					b.Count = size
					require.Error(t, Included(b, op.Inclusion{Index: min(i, size-1), Path: path[n+1:]}, bytes))
				}
			}
		}
	})
}

// TestBatchIsNotAProof: a key that a rotation adds proves itself with a signature over the payload alone.
func TestBatchIsNotAProof(t *testing.T) {
	t.Parallel()
	v, nora := batchVerifier(t), mint.Ed25519(t, "nora")
	p := testPayload
	p.Op, p.Target = op.Rotate, op.Signers
	p.Params = op.Params{"epoch": int64(2), "add": []any{strings.TrimSuffix(nora.Line("nora", `namespaces="operational@gated,operational@batch.gated"`), "\n")}}
	payload := encode(t, p)
	a := must.Get(v.Approval(envelope(t, payload, nora), issued))(t)
	require.Len(t, a.Proofs, 1)
	tree := must.Get(NewBatchTree([][]byte{payload}))(t)
	b := encode(t, op.Batch{Role: op.Operational, Count: 1, Root: must.Get(tree.Root())(t), IssuedAt: issued, ExpiresAt: issued.Add(time.Minute)})
	_, err := v.Approval(Envelope{Payload: payload, Batch: &op.Inclusion{Batch: b},
		Signatures: []string{mint.Sign(t, nora, "operational@batch.gated", b).Armored()}}, issued)
	refused(t, err, refusal.UnknownSigner, refusal.StageAllowList)
}

// TestLinesForBatches: a batch needs both namespaces on one line, also of a CA, and people see it.
func TestLinesForBatches(t *testing.T) {
	t.Parallel()
	alice, ca := testKey(t, "alice"), mint.Ed25519(t, "ca")
	trust := loadTrust(t, alice.Line("one", `namespaces="operational@gated,recovery@gated,recovery@batch.gated"`),
		alice.Line("two", `namespaces="operational@batch.gated"`),
		ca.Line("*@example.com", `cert-authority,namespaces="operational@batch.gated,operational@gated"`))
	lines := trust.Signers()
	require.Empty(t, lines[0].Batches, "recovery signs no batch")
	require.Empty(t, lines[1].Batches)
	require.Equal(t, []op.Role{op.Operational}, lines[2].Batches)
	require.Contains(t, lines[2].String(), " batch=operational cert-authority")
	s := op.Signed{Principal: "one", Role: op.Operational, Key: alice.Fingerprint()}
	require.NoError(t, trust.Still(s, issued))
	s.Batch = &op.Inclusion{}
	require.ErrorIs(t, trust.Still(s, issued), refusal.UnknownSigner, "two lines are not one")

	v := batchVerifier(t)
	v.Trust = trust
	e := batched(t, 2, 0, nil)
	cert := mint.Certify(ca, alice, "alice@example.com")
	e.Signatures = []string{mint.SignWith(t, cert, alice, "operational@batch.gated", e.Batch.Batch).Armored()}
	by := must.Get(v.Approval(e, issued))(t).Signers[0]
	s = op.Signed{Principal: by.Principal, Role: by.Role, Key: by.Key, CA: by.CA, Armor: by.Armor, Batch: by.Batch}
	require.NoError(t, trust.Still(s, issued))
	require.NoError(t, VerifyStored(e.Payload, s))
	fewer := loadTrust(t, ca.Line("*@example.com", `cert-authority,namespaces="operational@gated"`))
	require.ErrorIs(t, fewer.Still(s, issued), refusal.UnknownSigner)
}

// TestARotationSaysWhoGetsBatches: people see it before they sign the rotation.
func TestARotationSaysWhoGetsBatches(t *testing.T) {
	t.Parallel()
	alice, bob := testKey(t, "alice"), mint.Ed25519(t, "bob")
	trust := loadTrust(t, alice.Line("alice", `namespaces="operational@gated"`))
	const both = `namespaces="operational@gated,operational@batch.gated"`
	line := func(k mint.Key, name, options string) string { return strings.TrimSuffix(k.Line(name, options), "\n") }
	r := must.Get(trust.Rotate([]string{line(alice, "alice", both), line(bob, "bob", both)}, []string{alice.Fingerprint()}, issued))(t)
	var facts []string
	for _, e := range trust.Effects(r, issued) {
		facts = append(facts, e.Fact().Name+" "+e.Fact().Text)
	}
	require.Contains(t, facts[0], "could sign as operational, and a BATCH of requests at once as operational, until now as operational")
	require.Contains(t, facts[1], "NEW person bob: no line names them now, and they could sign as operational, and a BATCH of requests")
	back := must.Get(r.Trust.Rotate([]string{line(alice, "alice", `namespaces="operational@gated"`)}, []string{alice.Fingerprint()}, issued))(t)
	fact := r.Trust.Effects(back, issued)[0].Fact()
	require.Contains(t, fact.Text, "could sign as operational, until now as operational, and a BATCH")
}

// vectorsOfBatches is testdata/batch.json: what docs/formats/batch.md says in figures.
type vectorsOfBatches struct {
	Payloads []string            `json:"payloads"`
	Leaves   []string            `json:"leaves"`
	Roots    []string            `json:"roots"` // of the first payload, of the first two, and so on
	Paths    map[string][]string `json:"paths"` // in the tree of all, by index
	Batch    string              `json:"batch"`
}

func TestBatchVectors(t *testing.T) {
	t.Parallel()
	var v vectorsOfBatches
	require.NoError(t, json.Unmarshal(must.Get(os.ReadFile("../../testdata/batch.json"))(t), &v))
	require.Len(t, v.Roots, len(v.Payloads))
	var all [][]byte
	for i, p := range v.Payloads {
		all = append(all, []byte(p))
		digest := sha256.Sum256([]byte(p))
		leaf := sha256.Sum256(append([]byte{0}, digest[:]...))
		require.Equal(t, v.Leaves[i], hex.EncodeToString(leaf[:]))
		tree := must.Get(NewBatchTree(all))(t)
		require.Equal(t, v.Roots[i], must.Get(tree.Root())(t).String())
	}
	tree := must.Get(NewBatchTree(all))(t)
	b := must.Get(op.DecodeBatch([]byte(v.Batch)))(t)
	require.Equal(t, v.Roots[len(v.Roots)-1], b.Root.String())
	require.Len(t, v.Paths, len(all))
	for i := range all {
		var path []op.Digest
		for _, text := range v.Paths[fmt.Sprint(i)] {
			d, ok := op.ParseDigest(text)
			require.True(t, ok)
			path = append(path, d)
		}
		require.Equal(t, must.Get(tree.Path(i))(t), path)
		require.NoError(t, Included(b, op.Inclusion{Index: i, Path: path}, all[i]))
	}
	require.True(t, strings.HasPrefix(v.Payloads[0], "{"), "they are like payloads")
}

// FuzzIncluded: only the one path of a payload's place is accepted.
func FuzzIncluded(f *testing.F) {
	f.Add(5, 2, []byte("x"), []byte{})
	f.Add(1, 0, []byte{}, []byte("0123456789abcdef0123456789abcdef"))
	f.Add(1000, 999, []byte("{}"), make([]byte, 320))
	f.Fuzz(func(t *testing.T, count, index int, payload, path []byte) {
		leaves := [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d"), []byte("e")}
		tree := must.Get(NewBatchTree(leaves))(t)
		in := op.Inclusion{Index: index}
		for hash := range slices.Chunk(path, 32) {
			if len(hash) == 32 {
				in.Path = append(in.Path, op.Digest(hash))
			}
		}
		err := Included(op.Batch{Count: count, Root: must.Get(tree.Root())(t)}, in, payload)
		if err != nil {
			require.ErrorIs(t, err, refusal.BindingMismatch)
			return
		}
		require.Equal(t, len(leaves), count)
		require.Equal(t, string(leaves[index]), string(payload))
		require.Equal(t, must.Get(tree.Path(index))(t), in.Path)
	})
}
