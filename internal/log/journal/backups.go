package journal

import (
	"fmt"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// SchemaBackups adds the newest copies of the database that were handed out whole.
const SchemaBackups = `
CREATE TABLE backups(
	sha256   TEXT PRIMARY KEY,
	at       INTEGER NOT NULL,
	verified INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
`

// keptBackups is how many copies the table has at most, beside the newest verified one.
const keptBackups = 16

// Backups says when the newest copies of the database were handed out. A zero time means that none was.
type Backups struct {
	At       time.Time // the newest copy that was handed out whole
	Verified time.Time // the newest one of which the taker said that it was checked
}

// AddBackup records that a copy with this hex SHA-256 was handed out whole.
func AddBackup(tx *store.Tx, sha256 string, at time.Time) error {
	_, err := tx.Exec(`INSERT INTO backups(sha256, at) VALUES(?, ?)
		ON CONFLICT(sha256) DO UPDATE SET at = excluded.at`, sha256, at.UnixNano())
	if err != nil {
		return fmt.Errorf("add backup: %w", err)
	}
	_, err = tx.Exec(`DELETE FROM backups WHERE sha256 NOT IN (SELECT sha256 FROM backups ORDER BY at DESC LIMIT ?)
		AND sha256 NOT IN (SELECT sha256 FROM backups WHERE verified = 1 ORDER BY at DESC LIMIT 1)`, keptBackups)
	return err
}

// VerifyBackup records that the taker of a copy has checked it. It is UnknownTarget if the gate knows of no such copy.
func VerifyBackup(tx *store.Tx, sha256 string) error {
	r, err := tx.Exec(`UPDATE backups SET verified = 1 WHERE sha256 = ?`, sha256)
	if err != nil {
		return fmt.Errorf("verify backup: %w", err)
	}
	if r == 0 {
		return refusal.New(refusal.UnknownTarget, "the gate has handed out no copy with that digest lately").
			WithHint("take another one: gated backup FILE")
	}
	return nil
}

// ReadBackups returns when the newest copies were handed out.
func ReadBackups(tx *store.Tx) (b Backups, err error) {
	var at, verified int64
	err = tx.QueryRow(`SELECT coalesce(max(at), 0), coalesce(max(CASE WHEN verified = 1 THEN at END), 0) FROM backups`).
		Scan(&at, &verified)
	return Backups{At: fromNano(at), Verified: fromNano(verified)}, err
}
