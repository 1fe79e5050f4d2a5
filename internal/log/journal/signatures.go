package journal

import (
	"errors"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// SchemaBatches adds the batch that was signed in the place of the payload: its bytes, the
// index of the leaf, and the path. All are empty if the payload itself was signed.
const SchemaBatches = `
ALTER TABLE signatures ADD COLUMN batch BLOB NOT NULL DEFAULT x'';
ALTER TABLE signatures ADD COLUMN leaf INTEGER NOT NULL DEFAULT 0;
ALTER TABLE signatures ADD COLUMN path BLOB NOT NULL DEFAULT x'';
`

// SchemaPasskeys adds the origin of the page that had a passkey sign.
const SchemaPasskeys = `
ALTER TABLE signatures ADD COLUMN origin TEXT NOT NULL DEFAULT '';     -- empty for a key that is no passkey
`

// SchemaReasons adds why a person approved, in the words of the caller that handed the signature in.
const SchemaReasons = `
ALTER TABLE signatures ADD COLUMN reason TEXT NOT NULL DEFAULT '';     -- no signature covers it
`

// AddSignature stores a counted signature and reports whether it is new. One person
// counts once, and so does one key.
func AddSignature(tx *store.Tx, id op.RequestID, s op.Signed) (bool, error) {
	flags, counter, origin := attested(s)
	batch, leaf, path := batched(s)
	n, err := tx.Exec(`INSERT INTO signatures(job, idx, principal, role, key, ca, armor, flags, counter, origin, at, batch, leaf, path, reason)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, int64(id.Job), id.Index, s.Principal, string(s.Role), s.Key, s.CA,
		s.Armor, flags, counter, origin, s.At.UnixNano(), batch, leaf, path, s.Reason)
	return n == 1, err
}

// DropSignature deletes a signature that no longer counts.
func DropSignature(tx *store.Tx, id op.RequestID, principal string) error {
	_, err := tx.Exec(`DELETE FROM signatures WHERE job = ? AND idx = ? AND principal = ?`, int64(id.Job), id.Index, principal)
	return err
}

// AddProof stores a proof of possession and reports whether it is new.
func AddProof(tx *store.Tx, id op.RequestID, s op.Signed) (bool, error) {
	n, err := tx.Exec(`INSERT INTO proofs(job, idx, principal, role, key, armor, at) VALUES(?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, int64(id.Job), id.Index, s.Principal, string(s.Role), s.Key, s.Armor, s.At.UnixNano())
	return n == 1, err
}

// attested is the stored form of a security key's attestation. For any other key,
// flags is -1.
func attested(s op.Signed) (flags, counter int64, origin string) {
	if s.Attested == nil {
		return -1, 0, ""
	}
	return int64(s.Attested.Flags), int64(s.Attested.Counter), s.Attested.Origin
}

// batched is the stored form of a signed batch. Without one, all of it is empty.
func batched(s op.Signed) (batch []byte, leaf int, path []byte) {
	path = []byte{}
	if s.Batch == nil {
		return []byte{}, 0, path
	}
	for _, d := range s.Batch.Path {
		path = append(path, d[:]...)
	}
	return s.Batch.Batch, s.Batch.Index, path
}

// DecodeInclusion reads the stored form of a signed batch: its bytes, the leaf's index,
// and the hashes of the path one after the other. It returns nil if the payload itself
// was signed.
func DecodeInclusion(batch []byte, leaf int, path []byte) (*op.Inclusion, error) {
	if len(batch) == 0 && leaf == 0 && len(path) == 0 {
		return nil, nil
	}
	if len(batch) == 0 || leaf < 0 || len(path)%len(op.Digest{}) != 0 {
		return nil, errors.New("decode signature: its batch has not the form that a gate writes")
	}
	in := &op.Inclusion{Batch: batch, Index: leaf}
	for hash := range slices.Chunk(path, len(op.Digest{})) {
		in.Path = append(in.Path, op.Digest(hash))
	}
	return in, nil
}

func readSignatures(tx *store.Tx, id op.RequestID) ([]op.Signed, error) {
	rows, err := tx.Query(`SELECT principal, role, key, ca, armor, flags, counter, origin, at, batch, leaf, path, reason FROM signatures WHERE job = ? AND idx = ?
		ORDER BY at, principal`, int64(id.Job), id.Index)
	if err != nil {
		return nil, err
	}
	return scanSigned(rows)
}

func readProofs(tx *store.Tx, id op.RequestID) ([]op.Signed, error) {
	rows, err := tx.Query(`SELECT principal, role, key, '', armor, -1, 0, '', at, x'', 0, x'', '' FROM proofs WHERE job = ? AND idx = ? ORDER BY at, key, role`,
		int64(id.Job), id.Index)
	if err != nil {
		return nil, err
	}
	return scanSigned(rows)
}

func scanSigned(rows *store.Rows) ([]op.Signed, error) {
	defer rows.Close()
	var out []op.Signed
	for rows.Next() {
		var s op.Signed
		var at, flags, counter int64
		var origin string
		var leaf int
		var batch, path []byte
		if err := rows.Scan(&s.Principal, &s.Role, &s.Key, &s.CA, &s.Armor, &flags, &counter, &origin, &at, &batch, &leaf, &path, &s.Reason); err != nil {
			return nil, err
		}
		var err error
		if s.Batch, err = DecodeInclusion(batch, leaf, path); err != nil {
			return nil, err
		}
		if flags >= 0 {
			s.Attested = &op.Attested{Flags: byte(flags), Counter: uint32(counter), Origin: origin}
		}
		s.At = fromNano(at)
		out = append(out, s)
	}
	return out, rows.Err()
}
