package journal

import (
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// SchemaQuotas has what bounds a requester: the bytes that the gate wrote for it, in
// slots of SpentSlot, and its snapshots of each guest. The table showings has when
// operators were shown the payload of a request, because benign steps wait for that.
const SchemaQuotas = `
CREATE TABLE spent(
	who   TEXT NOT NULL,
	slot  INTEGER NOT NULL,
	bytes INTEGER NOT NULL CHECK (bytes > 0),
	PRIMARY KEY(who, slot)
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshots(
	kind     TEXT NOT NULL,
	name     TEXT NOT NULL,
	snapshot TEXT NOT NULL,
	who      TEXT NOT NULL,
	job      INTEGER NOT NULL,
	PRIMARY KEY(kind, name, snapshot)
) STRICT, WITHOUT ROWID;
CREATE TABLE showings(
	job      INTEGER NOT NULL,
	idx      INTEGER NOT NULL,
	first_at INTEGER NOT NULL,
	last_at  INTEGER NOT NULL CHECK (last_at >= first_at),
	PRIMARY KEY(job, idx),
	FOREIGN KEY(job, idx) REFERENCES requests(job, idx)
) STRICT, WITHOUT ROWID;
`

// SpentSlot is the length of a slot, in which a requester's bytes are counted
// together.
const SpentSlot = 5 * time.Minute

func slotOf(t time.Time) int64 { return t.UnixNano() / int64(SpentSlot) }

// Spend counts bytes, more than 0, that the gate wrote for a requester.
func Spend(tx *store.Tx, who string, now time.Time, bytes int64) error {
	_, err := tx.Exec(`INSERT INTO spent(who, slot, bytes) VALUES(?, ?, ?)
		ON CONFLICT(who, slot) DO UPDATE SET bytes = bytes + excluded.bytes`, who, slotOf(now), bytes)
	return err
}

// Spent returns how many bytes the gate wrote for a requester since then, to the
// precision of one slot.
func Spent(tx *store.Tx, who string, since time.Time) (n int64, err error) {
	err = tx.QueryRow(`SELECT coalesce(sum(bytes), 0) FROM spent WHERE who = ? AND slot > ?`, who, slotOf(since)).Scan(&n)
	return n, err
}

// ForgetSpent deletes up to limit slots that end before t.
func ForgetSpent(tx *store.Tx, t time.Time, limit int) error {
	_, err := tx.Exec(`DELETE FROM spent WHERE (who, slot) IN (SELECT who, slot FROM spent WHERE slot < ? ORDER BY slot LIMIT ?)`,
		slotOf(t), limit)
	return err
}

// AddSnapshot records for which requester a job took a snapshot. It replaces the
// record of an earlier snapshot of that name, which is gone.
func AddSnapshot(tx *store.Tx, t op.Target, snapshot, who string, job op.JobID) error {
	_, err := tx.Exec(`INSERT INTO snapshots(kind, name, snapshot, who, job) VALUES(?, ?, ?, ?, ?)
		ON CONFLICT(kind, name, snapshot) DO UPDATE SET who = excluded.who, job = excluded.job`, t.Kind, t.Name, snapshot, who, int64(job))
	return err
}

// SnapshotsBy returns the snapshots of a target that a requester took. Some of them
// may be gone.
func SnapshotsBy(tx *store.Tx, t op.Target, who string) ([]string, error) {
	rows, err := tx.Query(`SELECT snapshot FROM snapshots WHERE kind = ? AND name = ? AND who = ?`, t.Kind, t.Name, who)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, rows.Err()
}

// ForgetSnapshot deletes the record of a snapshot that is gone.
func ForgetSnapshot(tx *store.Tx, t op.Target, snapshot string) error {
	_, err := tx.Exec(`DELETE FROM snapshots WHERE kind = ? AND name = ? AND snapshot = ?`, t.Kind, t.Name, snapshot)
	return err
}
