package audit

import (
	"database/sql"
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/checkpoint"
)

// SchemaTree makes the log a Merkle tree (RFC 6962, section 2.1). Its leaves are the
// stored texts, hashed when they are needed. Of the inner nodes, those of every
// fourth level are stored. So at most sixteen nodes make any other node, and an
// entry costs a sixteenth of a row.
const SchemaTree = `
ALTER TABLE audit_head ADD COLUMN edge BLOB NOT NULL DEFAULT x'';
ALTER TABLE audit_head ADD COLUMN note TEXT NOT NULL DEFAULT '';
CREATE TABLE audit_tree(
	level INTEGER NOT NULL,
	n     INTEGER NOT NULL,
	hash  BLOB NOT NULL,
	PRIMARY KEY (level, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit_key(
	gate   TEXT PRIMARY KEY,
	public TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`

// stride is the number of levels from one stored level to the next.
const stride = 4

// edge is the right edge of the tree over the first size entries: the roots of its
// complete subtrees, the largest first. Appending needs nothing else.
type edge struct {
	size   int64
	hashes []tlog.Hash
}

// ReadHashes implements tlog.HashReader for the nodes on the edge.
func (e *edge) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		if e.size>>level&1 == 0 || n != e.size>>level-1 {
			return nil, fmt.Errorf("node %d of level %d is not on the edge of a tree of %d", n, level, e.size)
		}
		out[i] = e.hashes[bits.OnesCount64(uint64(e.size)>>(level+1))]
	}
	return out, nil
}

// add appends an entry's leaf and returns the nodes that it completes, by level. The
// first one is the leaf.
func (e *edge) add(leaf tlog.Hash) ([]tlog.Hash, error) {
	nodes, err := tlog.StoredHashesForRecordHash(e.size, leaf, e)
	if err != nil {
		return nil, err
	}
	merged := len(nodes) - 1
	e.hashes = append(e.hashes[:len(e.hashes)-merged], nodes[merged])
	e.size++
	return nodes, nil
}

// root returns the root of the whole tree.
func (e *edge) root() (tlog.Hash, error) { return tlog.TreeHash(e.size, e) }

func (e *edge) encode() []byte {
	out := make([]byte, 0, len(e.hashes)*tlog.HashSize)
	for _, h := range e.hashes {
		out = append(out, h[:]...)
	}
	return out
}

// decodeEdge returns nil if the bytes are not the edge of a tree of that size.
func decodeEdge(size int64, stored []byte) *edge {
	if len(stored) != bits.OnesCount64(uint64(size))*tlog.HashSize {
		return nil
	}
	e := &edge{size: size}
	for ; len(stored) > 0; stored = stored[tlog.HashSize:] {
		e.hashes = append(e.hashes, tlog.Hash(stored[:tlog.HashSize]))
	}
	return e
}

// nodes reads any node of the stored tree.
type nodes struct{ tx *store.Tx }

// ReadHashes implements tlog.HashReader.
func (r nodes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		var err error
		if out[i], err = r.node(level, n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// node makes a node from the nearest stored level at or below its own.
func (r nodes) node(level int, n int64) (tlog.Hash, error) {
	below := level % stride
	first := n << below
	row, err := r.level(level-below, first, first+1<<below)
	if err != nil {
		return tlog.Hash{}, err
	}
	if len(row) != 1<<below {
		return tlog.Hash{}, fmt.Errorf("the tree of the audit log lacks node %d of level %d", n, level)
	}
	for len(row) > 1 {
		for i := range len(row) / 2 {
			row[i] = tlog.NodeHash(row[2*i], row[2*i+1])
		}
		row = row[:len(row)/2]
	}
	return row[0], nil
}

// level returns the nodes from first up to, not including, end. The level is a
// stored one or that of the leaves.
func (r nodes) level(level int, first, end int64) ([]tlog.Hash, error) {
	query, args := `SELECT hash FROM audit_tree WHERE level = ? AND n >= ? AND n < ? ORDER BY n`, []any{level, first, end}
	if level == 0 {
		query, args = `SELECT body FROM audit WHERE seq > ? AND seq <= ? ORDER BY seq`, []any{first, end}
	}
	rows, err := r.tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []tlog.Hash
	for rows.Next() {
		var b sql.RawBytes
		if err := rows.Scan(&b); err != nil {
			return nil, err
		}
		switch {
		case level == 0:
			out = append(out, tlog.RecordHash(b))
		case len(b) == tlog.HashSize:
			out = append(out, tlog.Hash(b))
		default:
			return nil, errors.New("the tree of the audit log has a node that is no hash")
		}
	}
	return out, rows.Err()
}

// ProveConsistency returns the proof that the log's first old entries are the start
// of its first size entries. If the log is shorter, it is BadParams.
func ProveConsistency(tx *store.Tx, old, size int64) ([]tlog.Hash, error) {
	head, err := ReadHead(tx)
	if err != nil {
		return nil, err
	}
	if old < 1 || old > size || size > head.Seq {
		return nil, refusal.New(refusal.BadParams,
			"the log has %d entries: there is no proof that its first %d are among its first %d", head.Seq, old, size)
	}
	return tlog.ProveTree(size, old, nodes{tx})
}

// ProveInclusion returns the text of entry seq, and the proof that it is among the
// first size entries. If it is not, it is UnknownTarget.
func ProveInclusion(tx *store.Tx, seq, size int64) (text []byte, proof []tlog.Hash, err error) {
	bodies, err := Bodies(tx, seq-1, 1)
	if err != nil {
		return nil, nil, err
	}
	if seq < 1 || seq > size || len(bodies) == 0 {
		return nil, nil, refusal.New(refusal.UnknownTarget, "the signed log has no entry %d: it has %d", seq, size)
	}
	proof, err = tlog.ProveRecord(size, seq-1, nodes{tx})
	return bodies[0], proof, err
}

// CheckHead compares the last signed head and the recorded edge with the stored
// entries and nodes that make them. It reads a few hundred rows, however long the
// log is. It finds a log that was replaced below its head; Verify finds all other
// changes. After a *BrokenError the gate must not sign more.
func CheckHead(tx *store.Tx) error {
	head, err := SignedHead(tx)
	if err != nil || head.Note == "" {
		return err
	}
	if err := head.check(); err != nil {
		return err
	}
	var seq int64
	var stored []byte
	if err := tx.QueryRow(`SELECT seq, edge FROM audit_head`).Scan(&seq, &stored); err != nil {
		return err
	}
	e := decodeEdge(seq, stored)
	if e == nil || seq < head.Size {
		return &BrokenError{seq, "the recorded edge is not that of a log that goes on from the head that was signed last"}
	}
	recorded, err := e.root()
	if err != nil {
		return err
	}
	for _, c := range []checkpoint.Checkpoint{head.Checkpoint, {Size: seq, Root: recorded}} {
		root, err := tlog.TreeHash(c.Size, nodes{tx})
		if err != nil || root != c.Root {
			return &BrokenError{c.Size, "the log up to it is not the one of which a head was signed"}
		}
	}
	return nil
}
