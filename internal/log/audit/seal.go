package audit

import (
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/checkpoint"
)

// Sealer ends each group of decisions. It adds the group's entries to the tree, and
// records and signs the new head, all in the group's own transaction. The zero
// Sealer does not sign, because some programs write without the gate's key. The last
// signed head then stays, and the daemon's next entry signs for all.
type Sealer struct {
	Gate op.GateID
	Key  checkpoint.Signer
}

// Seal is Seal of the zero Sealer.
func Seal(tx *store.Tx) error { return Sealer{}.Seal(tx) }

// broken is the edge of a log that is no longer a sequence. Its tree does not grow
// and no key signs it; Verify says what is wrong.
var broken = []byte{0}

// Seal records the head; the store calls it once per group, before COMMIT.
func (s Sealer) Seal(tx *store.Tx) error {
	var from int64
	var stored []byte
	var note string
	err := tx.QueryRow(`SELECT seq, edge, note FROM audit_head WHERE id = 1`).Scan(&from, &stored, &note)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	e := decodeEdge(from, stored)
	if unplanted(stored, note) {
		if _, err := tx.Exec(`DELETE FROM audit_tree`); err != nil {
			return err
		}
		from, e = 0, &edge{}
	}
	newest, e, err := grow(tx, from, e)
	if err != nil || newest.seq == from {
		return err
	}
	return s.record(tx, newest, e)
}

// entry is the number and the hash of an entry.
type entry struct {
	seq  int64
	hash []byte
}

// unplanted reports whether a log has no tree yet.
func unplanted(edge []byte, note string) bool { return len(edge) == 0 && note == "" }

// grow adds the entries after a head to the tree, and returns the newest one. If
// they are not a sequence, the edge is nil.
func grow(tx *store.Tx, from int64, e *edge) (newest entry, _ *edge, err error) {
	if end := ends.In(tx); end != nil && len(end.leaves) > 0 && end.from == from && e != nil && e.size == from {
		return growBy(tx, end, e)
	}
	newest.seq = from
	rows, err := tx.Query(`SELECT seq, body, hash FROM audit WHERE seq > ? ORDER BY seq`, from)
	if err != nil {
		return newest, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var body sql.RawBytes
		if err := rows.Scan(&newest.seq, &body, &newest.hash); err != nil {
			return newest, nil, err
		}
		if e == nil || newest.seq != e.size+1 {
			e = nil
			continue
		}
		if err := addLeaf(tx, e, tlog.RecordHash(body)); err != nil {
			return newest, nil, err
		}
	}
	return newest, e, rows.Err()
}

// growBy adds the group's entries to a tree of all entries before them.
func growBy(tx *store.Tx, end *logEnd, e *edge) (entry, *edge, error) {
	for _, leaf := range end.leaves {
		if err := addLeaf(tx, e, leaf); err != nil {
			return entry{}, nil, err
		}
	}
	hash, err := hex.DecodeString(end.head.Hash)
	return entry{end.head.Seq, hash}, e, err
}

// addLeaf adds one entry to the tree. Of the nodes that the entry completed, it stores
// those of stored levels.
func addLeaf(tx *store.Tx, e *edge, leaf tlog.Hash) error {
	done, err := e.add(leaf)
	if err != nil {
		return err
	}
	for level := stride; level < len(done); level += stride {
		if _, err := tx.Exec(`INSERT INTO audit_tree(level, n, hash) VALUES(?, ?, ?)`, level, e.size>>level-1, done[level][:]); err != nil {
			return fmt.Errorf("grow the tree of the audit log: %w", err)
		}
	}
	return nil
}

// record writes the head and, if there is a key and a tree, the signed head.
func (s Sealer) record(tx *store.Tx, head entry, e *edge) error {
	stored, signed := broken, ""
	if e != nil {
		stored = e.encode()
		if s.Key != nil && e.size > 0 {
			root, err := e.root()
			if err != nil {
				return err
			}
			if signed, err = (checkpoint.Checkpoint{Gate: s.Gate, Size: e.size, Root: root}).Sign(s.Key); err != nil {
				return err
			}
		}
	}
	_, err := tx.Exec(`INSERT INTO audit_head(id, seq, hash, edge, note) VALUES(1, ?, ?, ?, ?)
		ON CONFLICT(id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, edge = excluded.edge,
			note = CASE excluded.note WHEN '' THEN note ELSE excluded.note END`, head.seq, head.hash, stored, signed)
	return err
}

// NotedHead is a signed head. The zero NotedHead means none.
type NotedHead struct {
	checkpoint.Checkpoint        // what Note says, without a check of its signature
	Note                  string // the signed text
	Key                   string // the public key that signs for its gate, or ""
}

// SignedHead returns the last signed head.
func SignedHead(tx *store.Tx) (s NotedHead, err error) {
	err = tx.QueryRow(`SELECT note FROM audit_head WHERE id = 1`).Scan(&s.Note)
	if errors.Is(err, sql.ErrNoRows) || err == nil && s.Note == "" {
		return NotedHead{}, nil
	}
	if err != nil {
		return NotedHead{}, err
	}
	if s.Checkpoint, err = checkpoint.Read(s.Note); err != nil {
		return NotedHead{}, fmt.Errorf("the signed head of the audit log: %w", err)
	}
	s.Key, err = PublicKey(tx, s.Gate)
	return s, err
}

// check refuses, as a *BrokenError, a head that its gate's key did not sign.
func (s NotedHead) check() error {
	if _, err := checkpoint.Open(s.Note, s.Key); err != nil {
		return &BrokenError{s.Size, "the recorded head is not signed with the gate's key: " + err.Error()}
	}
	return nil
}

// PublicKey returns the key that signs for a gate id, or "" if it has none yet.
func PublicKey(tx *store.Tx, gate op.GateID) (public string, err error) {
	err = tx.QueryRow(`SELECT public FROM audit_key WHERE gate = ?`, gate).Scan(&public)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return public, err
}

// SetPublicKey records the key that signs for a gate id. A gate id keeps its key for
// ever.
func SetPublicKey(tx *store.Tx, gate op.GateID, public string) error {
	_, err := tx.Exec(`INSERT INTO audit_key(gate, public) VALUES(?, ?)`, gate, public)
	return err
}
