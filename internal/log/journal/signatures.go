package journal

import (
	"gated/internal/base/op"
	"gated/internal/base/store"
)

// AddSignature stores a counted signature and reports whether it is new. One person
// counts once, and so does one key.
func AddSignature(tx *store.Tx, id op.RequestID, s op.Signed) (bool, error) {
	flags, counter := attested(s)
	n, err := tx.Exec(`INSERT INTO signatures(job, idx, principal, role, key, ca, armor, flags, counter, at)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, int64(id.Job), id.Index, s.Principal, string(s.Role), s.Key, s.CA,
		s.Armor, flags, counter, s.At.UnixNano())
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
func attested(s op.Signed) (flags, counter int64) {
	if s.Attested == nil {
		return -1, 0
	}
	return int64(s.Attested.Flags), int64(s.Attested.Counter)
}

func readSignatures(tx *store.Tx, id op.RequestID) ([]op.Signed, error) {
	rows, err := tx.Query(`SELECT principal, role, key, ca, armor, flags, counter, at FROM signatures WHERE job = ? AND idx = ?
		ORDER BY at, principal`, int64(id.Job), id.Index)
	if err != nil {
		return nil, err
	}
	return scanSigned(rows)
}

func readProofs(tx *store.Tx, id op.RequestID) ([]op.Signed, error) {
	rows, err := tx.Query(`SELECT principal, role, key, '', armor, -1, 0, at FROM proofs WHERE job = ? AND idx = ? ORDER BY at, key, role`,
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
		if err := rows.Scan(&s.Principal, &s.Role, &s.Key, &s.CA, &s.Armor, &flags, &counter, &at); err != nil {
			return nil, err
		}
		if flags >= 0 {
			s.Attested = &op.Attested{Flags: byte(flags), Counter: uint32(counter)}
		}
		s.At = fromNano(at)
		out = append(out, s)
	}
	return out, rows.Err()
}
