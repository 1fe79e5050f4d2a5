package journal

import (
	"database/sql"
	"errors"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Set is a named piece of desired state that an operator stored over the socket.
type Set struct {
	Name      string
	ETag      string // hex SHA-256 of Body
	Body      []byte // YAML, unchanged
	UpdatedAt time.Time
}

// PutSet stores a set and replaces one of the same name.
func PutSet(tx *store.Tx, s Set) error {
	_, err := tx.Exec(`INSERT INTO desired_sets(name, etag, body, updated_at) VALUES(?, ?, ?, ?)
		ON CONFLICT(name) DO UPDATE SET etag = excluded.etag, body = excluded.body, updated_at = excluded.updated_at`,
		s.Name, s.ETag, s.Body, s.UpdatedAt.UnixNano())
	return err
}

// ReadSet returns a set; UnknownTarget if there is none of that name.
func ReadSet(tx *store.Tx, name string) (Set, error) {
	s := Set{Name: name}
	var at int64
	err := tx.QueryRow(`SELECT etag, body, updated_at FROM desired_sets WHERE name = ?`, name).Scan(&s.ETag, &s.Body, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return s, refusal.New(refusal.UnknownTarget, "there is no desired set %q", name)
	}
	s.UpdatedAt = fromNano(at)
	return s, err
}

// SetHead is a set without its body.
type SetHead struct {
	Name, ETag string
	Bytes      int
	UpdatedAt  time.Time
}

// ReadSetHeads returns every set without its body, sorted by name.
func ReadSetHeads(tx *store.Tx) ([]SetHead, error) {
	rows, err := tx.Query(`SELECT name, etag, length(body), updated_at FROM desired_sets ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []SetHead
	for rows.Next() {
		var s SetHead
		var at int64
		if err := rows.Scan(&s.Name, &s.ETag, &s.Bytes, &at); err != nil {
			return nil, err
		}
		s.UpdatedAt = fromNano(at)
		out = append(out, s)
	}
	return out, rows.Err()
}

// ReadSets returns every set, sorted by name.
func ReadSets(tx *store.Tx) ([]Set, error) {
	rows, err := tx.Query(`SELECT name, etag, body, updated_at FROM desired_sets ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Set
	for rows.Next() {
		var s Set
		var at int64
		if err := rows.Scan(&s.Name, &s.ETag, &s.Body, &at); err != nil {
			return nil, err
		}
		s.UpdatedAt = fromNano(at)
		out = append(out, s)
	}
	return out, rows.Err()
}

// DeleteSet removes a set and reports whether it was there.
func DeleteSet(tx *store.Tx, name string) (bool, error) {
	n, err := tx.Exec(`DELETE FROM desired_sets WHERE name = ?`, name)
	return n == 1, err
}
