package authz

import (
	"crypto/sha256"
	"errors"

	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// BatchTree is the Merkle tree of a batch (RFC 6962, section 2.1). Its leaves are the
// SHA-256 digests of the payloads, in the order of the batch.
type BatchTree struct {
	size   int64
	hashes []tlog.Hash // by tlog.StoredHashIndex
}

// NewBatchTree returns the tree over payloads. It refuses, as BadParams, no payload, more
// than op.MaxBatch, and the same payload twice.
func NewBatchTree(payloads [][]byte) (BatchTree, error) {
	if n := len(payloads); n < 1 || n > op.MaxBatch {
		return BatchTree{}, refusal.New(refusal.BadParams, "a batch has 1 to %d requests, not %d", op.MaxBatch, n)
	}
	var t BatchTree
	seen := map[op.Digest]bool{}
	for _, p := range payloads {
		digest := op.Digest(sha256.Sum256(p))
		if seen[digest] {
			return BatchTree{}, refusal.New(refusal.BadParams, "the payload %s is in the batch twice", digest)
		}
		seen[digest] = true
		more, err := tlog.StoredHashes(t.size, digest[:], &t)
		if err != nil {
			return BatchTree{}, err
		}
		t.hashes, t.size = append(t.hashes, more...), t.size+1
	}
	return t, nil
}

// ReadHashes implements tlog.HashReader.
func (t *BatchTree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		if at < 0 || at >= int64(len(t.hashes)) {
			return nil, errors.New("the tree of a batch has no such node")
		}
		out[i] = t.hashes[at]
	}
	return out, nil
}

// Size returns the number of leaves.
func (t BatchTree) Size() int { return int(t.size) }

// Root returns the root hash.
func (t BatchTree) Root() (op.Digest, error) {
	root, err := tlog.TreeHash(t.size, &t)
	return op.Digest(root), err
}

// Path returns the path that shows that the leaf of that index, from 0, is in the tree.
func (t BatchTree) Path(index int) ([]op.Digest, error) {
	proof, err := tlog.ProveRecord(t.size, int64(index), &t)
	if err != nil {
		return nil, err
	}
	out := make([]op.Digest, len(proof))
	for i, h := range proof {
		out[i] = op.Digest(h)
	}
	return out, nil
}

// Included checks that exactly this payload is the leaf of that place in a batch. The
// path has exactly the length that the index and the count ask for. Otherwise it is
// BindingMismatch.
func Included(b op.Batch, at op.Inclusion, payload []byte) error {
	proof := make(tlog.RecordProof, len(at.Path))
	for i, d := range at.Path {
		proof[i] = tlog.Hash(d)
	}
	digest := sha256.Sum256(payload)
	err := tlog.CheckRecord(proof, int64(b.Count), tlog.Hash(b.Root), int64(at.Index), tlog.RecordHash(digest[:]))
	if at.Index < 0 || at.Index >= b.Count || err != nil {
		return refusal.New(refusal.BindingMismatch, "the path does not show that this payload is leaf %d of the %d of the batch",
			at.Index, b.Count).WithHint("send the payload, the index and the path that belong together, of the batch that was signed")
	}
	return nil
}
