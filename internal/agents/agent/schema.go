package agent

import (
	"errors"
	"fmt"
	"time"

	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Schema is the tables of this package. An agent has either a process or a token. A number is given once, even if its
// row is deleted (SQLite's AUTOINCREMENT). Times are Unix nanoseconds.
const Schema = `
CREATE TABLE agents(
	id    INTEGER PRIMARY KEY AUTOINCREMENT,
	name  TEXT NOT NULL UNIQUE,
	uid   INTEGER NOT NULL,
	pid   INTEGER NOT NULL,            -- 0 with a token
	start INTEGER NOT NULL,            -- clock ticks since boot
	boot  TEXT NOT NULL,
	token TEXT NOT NULL,               -- hex SHA-256, empty with a process
	at    INTEGER NOT NULL,
	CHECK ((token = '') = (pid > 1))
) STRICT;
CREATE UNIQUE INDEX agents_process ON agents(pid, start, boot) WHERE pid <> 0;
CREATE UNIQUE INDEX agents_token ON agents(token) WHERE token <> '';
`

// Add stores a registration and returns its number. If the name, process or token is registered already, it is a
// Conflict.
func Add(tx *store.Tx, r Registration) (id int64, err error) {
	id, err = tx.Insert(`INSERT INTO agents(name, uid, pid, start, boot, token, at) VALUES(?, ?, ?, ?, ?, ?, ?)`,
		r.Name, int64(r.UID), r.Process.PID, int64(r.Process.Start), r.Process.Boot, r.Token, r.At.UnixNano())
	if errors.Is(err, store.ErrConstraint) {
		return 0, refusal.New(refusal.Conflict, "the name %q, its process or its token is registered", r.Name)
	}
	if err != nil {
		return 0, fmt.Errorf("register agent: %w", err)
	}
	return id, nil
}

// Remove deletes a registration. It reports whether exactly this one was there: it keeps a later one of the same name.
func Remove(tx *store.Tx, r Registration) (bool, error) {
	n, err := tx.Exec(`DELETE FROM agents WHERE id = ?`, r.ID)
	if err != nil {
		return false, fmt.Errorf("forget agent: %w", err)
	}
	return n == 1, nil
}

// Clear deletes all registrations and returns how many there were. Their numbers are not given again.
func Clear(tx *store.Tx) (n int, err error) {
	gone, err := tx.Exec(`DELETE FROM agents`)
	if err != nil {
		return 0, fmt.Errorf("forget agents: %w", err)
	}
	return int(gone), nil
}

// Registered reports whether the registration of that number still stands.
func Registered(tx *store.Tx, name string, id int64) (ok bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM agents WHERE id = ? AND name = ?)`, id, name).Scan(&ok)
	if err != nil {
		return false, fmt.Errorf("look an agent up: %w", err)
	}
	return ok, nil
}

// All returns the registrations, by name.
func All(tx *store.Tx) ([]Registration, error) {
	rows, err := tx.Query(`SELECT id, name, uid, pid, start, boot, token, at FROM agents ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Registration
	for rows.Next() {
		var r Registration
		var id proc.ID
		var start, at int64
		if err := rows.Scan(&r.ID, &r.Name, &r.UID, &id.PID, &start, &id.Boot, &r.Token, &at); err != nil {
			return nil, err
		}
		id.Start = uint64(start)
		r.Process, r.At = id, time.Unix(0, at).UTC()
		all = append(all, r)
	}
	return all, rows.Err()
}
