package journal

import (
	"database/sql"
	"errors"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// TrustVersion is one version of the allowed_signers file.
type TrustVersion struct {
	Epoch int64 // from 1; each change adds 1
	Text  []byte
	How   string // "init", "adopted", or the step that rotated it
	At    time.Time
}

// ReadTrust returns the newest version, or the zero one if there is none.
func ReadTrust(tx *store.Tx) (TrustVersion, error) { return ReadTrustOf(tx, 0) }

// ReadTrustOf returns the version of an epoch, and for 0 the newest. It is the zero
// version if there is none.
func ReadTrustOf(tx *store.Tx, epoch int64) (v TrustVersion, err error) {
	var at int64
	err = tx.QueryRow(`SELECT epoch, text, how, at FROM trust WHERE ? IN (0, epoch) ORDER BY epoch DESC LIMIT 1`, epoch).
		Scan(&v.Epoch, &v.Text, &v.How, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return TrustVersion{}, nil
	}
	v.At = fromNano(at)
	return v, err
}

// AddTrust appends a version. If it is not the next one, that is a Conflict.
func AddTrust(tx *store.Tx, v TrustVersion) error {
	n, err := tx.Exec(`INSERT INTO trust(epoch, text, how, at)
		SELECT ?, ?, ?, ? WHERE ? = 1 + coalesce((SELECT max(epoch) FROM trust), 0)`, v.Epoch, v.Text, v.How, v.At.UnixNano(), v.Epoch)
	if err == nil && n != 1 {
		err = refusal.New(refusal.Conflict, "the allowed_signers file is not at epoch %d", v.Epoch-1)
	}
	return err
}

// Trusts returns every version, oldest first.
func Trusts(tx *store.Tx) ([]TrustVersion, error) {
	rows, err := tx.Query(`SELECT epoch, text, how, at FROM trust ORDER BY epoch`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []TrustVersion
	for rows.Next() {
		var v TrustVersion
		var at int64
		if err := rows.Scan(&v.Epoch, &v.Text, &v.How, &at); err != nil {
			return nil, err
		}
		v.At = fromNano(at)
		out = append(out, v)
	}
	return out, rows.Err()
}
