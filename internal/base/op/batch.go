package op

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"gated/internal/base/refusal"
)

// TypeBatch is the type member of a batch.
const TypeBatch = "gated/batch-approval/v1"

// Bounds of a batch (docs/formats/batch.md).
const (
	// MaxBatch is the most requests in a batch.
	MaxBatch = 1000
	// MaxBatchPath is the most hashes in the path of a leaf: one for each level of a tree over MaxBatch.
	MaxBatchPath = 10
	// MaxBatchValidity bounds how long gates may count a batch. A policy may have less.
	MaxBatchValidity = time.Hour
	// MaxBatchPayload bounds the bytes of a batch. The longest one has fewer.
	MaxBatchPayload = 512
)

// batchMembers are the members of a batch, sorted by their bytes (RFC 8785, 3.2.3).
var batchMembers = []string{"count", "expires_at", "issued_at", "role", "root", "type"}

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// String returns 64 lower-case hex digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// ParseDigest reads exactly what String writes.
func ParseDigest(s string) (d Digest, ok bool) {
	if !isHex(s, 2*len(d)) {
		return Digest{}, false
	}
	_, err := hex.Decode(d[:], []byte(s))
	return d, err == nil
}

// Batch is what an operator signs to approve many requests, of one gate or of several. It names them by the root of a
// Merkle tree over the digests of their payloads.
type Batch struct {
	Role      Role // of the signatures
	Count     int  // of leaves, 1 to MaxBatch
	Root      Digest
	IssuedAt  time.Time // whole seconds, UTC
	ExpiresAt time.Time // whole seconds, UTC
}

// Inclusion is the place of one request in a signed batch. Nothing in it is checked yet.
type Inclusion struct {
	Batch []byte   // the exact bytes of the batch
	Index int      // of the leaf, from 0
	Path  []Digest // from the leaf's sibling to the root's child (RFC 9162, section 2.1.3)
}

// Encode returns the canonical bytes (RFC 8785). It refuses what DecodeBatch would refuse.
func (b Batch) Encode() ([]byte, error) {
	out, err := encodeObject([]member{
		{"count", b.Count},
		{"expires_at", b.ExpiresAt.UTC().Format(timeLayout)},
		{"issued_at", b.IssuedAt.UTC().Format(timeLayout)},
		{"role", string(b.Role)},
		{"root", b.Root.String()},
		{"type", TypeBatch},
	})
	if err != nil {
		return nil, err
	}
	_, err = DecodeBatch(out)
	return out, err
}

// DecodeBatch decodes the bytes of a batch as strictly as DecodePayload does. A count outside of 1 to MaxBatch and a role
// that signs no batch are Malformed.
func DecodeBatch(b []byte) (Batch, error) {
	if len(b) > MaxBatchPayload {
		return Batch{}, refusal.New(refusal.Oversized, "the batch has %d bytes, more than %d", len(b), MaxBatchPayload).
			At(refusal.StageDecode)
	}
	f, err := openObject(b, TypeBatch, batchMembers)
	if err != nil {
		return Batch{}, err
	}
	out := Batch{
		Role:      Role(f.text("role", 1, 32)),
		Count:     f.count("count", MaxBatch),
		IssuedAt:  f.time("issued_at"),
		ExpiresAt: f.time("expires_at"),
	}
	var ok bool
	out.Root, ok = ParseDigest(f.text("root", 64, 64))
	f.check(ok, "root is not 64 lower-case hex digits")
	f.check(out.Role.SignsBatches(), "role is not the name of a role that signs batches")
	f.check(out.ExpiresAt.After(out.IssuedAt), "expires_at is not after issued_at")
	return out, f.err
}

// count returns an integer member of 1 to most.
func (f *fields) count(name string, most int) int {
	raw := string(f.members[name])
	n, err := strconv.Atoi(raw)
	f.check(err == nil && strconv.Itoa(n) == raw && n >= 1 && n <= most, name+" is not a whole number of 1 to "+strconv.Itoa(most))
	return n
}
