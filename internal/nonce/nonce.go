// Package nonce makes a signed payload count once. A nonce is issued with a request
// and spent with its decision. It is kept until its payload has expired by a clock
// that never goes back.
package nonce

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Schema is the tables of this package. A nonce with an empty fate is not spent.
const Schema = `
CREATE TABLE nonces(
	nonce      TEXT PRIMARY KEY,
	job        INTEGER NOT NULL,
	idx        INTEGER NOT NULL,
	payload    TEXT NOT NULL,
	expires_at INTEGER NOT NULL,
	fate       TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX nonces_expiry ON nonces(expires_at);
CREATE TABLE time_mark(
	id   INTEGER PRIMARY KEY CHECK (id = 1),
	unix INTEGER NOT NULL
) STRICT;
`

// SchemaBoot adds the time since boot to the mark, so that the gate notices a jump
// after a restart too, if the machine has not booted.
const SchemaBoot = `
ALTER TABLE time_mark ADD COLUMN boot TEXT NOT NULL DEFAULT '';
ALTER TABLE time_mark ADD COLUMN elapsed INTEGER NOT NULL DEFAULT 0;
`

// Fate is how a nonce was spent.
type Fate string

// The fates. Only Unspent can still change.
const (
	Unspent    Fate = ""
	Used       Fate = "used" // an approval, or a rejection's own nonce
	Rejected   Fate = "rejected"
	Cancelled  Fate = "cancelled"
	Superseded Fate = "superseded"
	Expired    Fate = "expired"
)

// Record is what the gate has stored about a nonce.
type Record struct {
	Nonce     string
	Request   op.RequestID // zero for a rejection's own nonce
	Payload   string       // hex SHA-256 of the bytes with the nonce
	ExpiresAt time.Time
	Fate      Fate
}

// Issue records r. If the nonce has a record already, it refuses as Replayed.
func Issue(tx *store.Tx, r Record) error {
	n, err := tx.Exec(`INSERT INTO nonces(nonce, job, idx, payload, expires_at, fate) VALUES(?, ?, ?, ?, ?, ?)
		ON CONFLICT(nonce) DO NOTHING`,
		r.Nonce, int64(r.Request.Job), r.Request.Index, r.Payload, r.ExpiresAt.Unix(), string(r.Fate))
	if err != nil {
		return fmt.Errorf("issue nonce: %w", err)
	}
	if n != 1 {
		return refusal.New(refusal.Replayed, "the nonce is known already").At(refusal.StageNonce)
	}
	return nil
}

// Lookup returns the record of a nonce. If there is none, ok is false.
func Lookup(tx *store.Tx, nonce string) (r Record, ok bool, err error) {
	var expires int64
	r.Nonce = nonce
	err = tx.QueryRow(`SELECT job, idx, payload, expires_at, fate FROM nonces WHERE nonce = ?`, nonce).
		Scan(&r.Request.Job, &r.Request.Index, &r.Payload, &expires, &r.Fate)
	if errors.Is(err, sql.ErrNoRows) {
		return Record{}, false, nil
	}
	r.ExpiresAt = time.Unix(expires, 0).UTC()
	return r, err == nil, err
}

// Spend moves a nonce from unspent to fate, by compare-and-set. If the nonce is not
// unspent, it refuses as Replayed and changes nothing.
func Spend(tx *store.Tx, nonce string, fate Fate) error {
	n, err := tx.Exec(`UPDATE nonces SET fate = ? WHERE nonce = ? AND fate = ''`, string(fate), nonce)
	if err != nil {
		return fmt.Errorf("spend nonce: %w", err)
	}
	if n != 1 {
		return refusal.New(refusal.Replayed, "the nonce was spent").At(refusal.StageNonce)
	}
	return nil
}

// Prune deletes up to limit spent nonces whose payload expired before t. The time
// mark must have passed t. Then a payload with a deleted nonce is refused as expired
// for ever.
func Prune(tx *store.Tx, t time.Time, limit int) (int64, error) {
	return tx.Exec(`DELETE FROM nonces WHERE nonce IN
		(SELECT nonce FROM nonces WHERE expires_at < ? AND fate <> '' ORDER BY expires_at LIMIT ?)`, t.Unix(), limit)
}
