package journal

import (
	"database/sql"
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// AddProvenance records an incarnation that this gate made.
func AddProvenance(tx *store.Tx, p op.Provenance) error {
	_, err := tx.Exec(`INSERT INTO incarnations(incarnation, kind, name, creator, agent, job, scratch, scratch_until, created_at, content)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, string(p.Incarnation), p.Target.Kind, p.Target.Name, p.Creator, p.Agent,
		int64(p.Job), p.Scratch, toNano(p.ScratchUntil), p.CreatedAt.UnixNano(), p.Content)
	if err != nil {
		return err
	}
	for _, s := range p.Storage {
		if err := AddStorage(tx, p.Incarnation, s); err != nil {
			return err
		}
	}
	return nil
}

// AddStorage records a storage object that a job made for an incarnation of this
// gate. If it is recorded already, that is no error.
func AddStorage(tx *store.Tx, inc op.Incarnation, s op.StorageOrigin) error {
	_, err := tx.Exec(`INSERT INTO storage(incarnation, id, job) VALUES(?, ?, ?) ON CONFLICT DO NOTHING`,
		string(inc), string(s.ID), int64(s.Job))
	return err
}

// IsStorage reports whether a storage object is recorded for any incarnation.
func IsStorage(tx *store.Tx, id op.StorageID) (is bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM storage WHERE id = ?)`, string(id)).Scan(&is)
	return is, err
}

// EndScratch ends an incarnation's scratch status for ever, and reports whether it
// had that status.
func EndScratch(tx *store.Tx, inc op.Incarnation, why string) (bool, error) {
	n, err := tx.Exec(`UPDATE incarnations SET ended = ? WHERE incarnation = ? AND ended = ''`, why, string(inc))
	return n == 1, err
}

// SetUsed records, once, why the job that made an incarnation may no longer take it
// back unsigned. It reports whether the record is new.
func SetUsed(tx *store.Tx, inc op.Incarnation, why string) (bool, error) {
	n, err := tx.Exec(`UPDATE incarnations SET used = ? WHERE incarnation = ? AND used = ''`, why, string(inc))
	return n == 1, err
}

// MadeWith returns the incarnation that a step of this gate made with a birth token,
// or "".
func MadeWith(tx *store.Tx, birth string) (inc op.Incarnation, err error) {
	if birth == "" {
		return "", nil
	}
	err = tx.QueryRow(`SELECT incarnation FROM steps WHERE birth = ? AND birth <> '' AND incarnation <> '' LIMIT 1`, birth).Scan(&inc)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return inc, err
}

// Incarnations returns every incarnation with a prefix that this gate made, or that a step was for. It reads every step,
// because an index of what a step is for would cost each decision a page at a random place.
func Incarnations(tx *store.Tx, prefix string) ([]op.Incarnation, error) {
	rows, err := tx.Query(`SELECT incarnation FROM incarnations WHERE substr(incarnation, 1, ?) = ?
		UNION SELECT incarnation FROM steps WHERE substr(incarnation, 1, ?) = ?`, len(prefix), prefix, len(prefix), prefix)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []op.Incarnation
	for rows.Next() {
		var inc op.Incarnation
		if err := rows.Scan(&inc); err != nil {
			return nil, err
		}
		out = append(out, inc)
	}
	return out, rows.Err()
}

// MayEnd returns the incarnations made after t that may still be destroyed unsigned
// by their records.
func MayEnd(tx *store.Tx, t time.Time) ([]op.Provenance, error) {
	var out []op.Provenance
	err := AllProvenance(tx, func(p op.Provenance) error {
		if p.ScratchEnded == "" && p.CreatedAt.After(t) {
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

// ReadProvenance returns the record of an incarnation, nil if this gate did not make
// it.
func ReadProvenance(tx *store.Tx, inc op.Incarnation) (*op.Provenance, error) {
	if inc == "" {
		return nil, nil
	}
	p := op.Provenance{Incarnation: inc}
	var until, created int64
	err := tx.QueryRow(`SELECT kind, name, creator, agent, job, scratch, scratch_until, ended, created_at, used, content
		FROM incarnations WHERE incarnation = ?`, string(inc)).Scan(&p.Target.Kind, &p.Target.Name, &p.Creator, &p.Agent,
		&p.Job, &p.Scratch, &until, &p.ScratchEnded, &created, &p.Used, &p.Content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p.ScratchUntil, p.CreatedAt = fromNano(until), fromNano(created)
	p.Storage, err = readStorage(tx, inc)
	return &p, err
}

func readStorage(tx *store.Tx, inc op.Incarnation) ([]op.StorageOrigin, error) {
	rows, err := tx.Query(`SELECT id, job FROM storage WHERE incarnation = ? ORDER BY id`, string(inc))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []op.StorageOrigin
	for rows.Next() {
		var s op.StorageOrigin
		if err := rows.Scan(&s.ID, &s.Job); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// AllProvenance calls each for every recorded incarnation, for fsck.
func AllProvenance(tx *store.Tx, each func(op.Provenance) error) error {
	rows, err := tx.Query(`SELECT incarnation FROM incarnations ORDER BY incarnation`)
	if err != nil {
		return err
	}
	var all []op.Incarnation
	for rows.Next() {
		var inc op.Incarnation
		if err := rows.Scan(&inc); err != nil {
			rows.Close()
			return err
		}
		all = append(all, inc)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, inc := range all {
		p, err := ReadProvenance(tx, inc)
		if err != nil {
			return err
		}
		if err := each(*p); err != nil {
			return err
		}
	}
	return nil
}
