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

func (e *edge) encode() []byte { return encodeHashes(e.hashes) }

// decodeEdge returns nil if the bytes are not the edge of a tree of that size.
func decodeEdge(size int64, stored []byte) *edge {
	if len(stored) != bits.OnesCount64(uint64(size))*tlog.HashSize {
		return nil
	}
	return &edge{size: size, hashes: hashesOf(stored)}
}

// nodes reads any node of the stored tree. Those below a tile whose entries are in a segment it makes of the tile's leaf
// hashes.
type nodes struct {
	tx    *store.Tx
	bound int64 // Bound's number
	older Older // nil if no segment is at hand
}

// readNodes returns the nodes of a log.
func readNodes(tx *store.Tx, older Older) (nodes, error) {
	bound, err := Bound(tx)
	return nodes{tx, bound.Seq, older}, err
}

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
	if level < tileLevel && (n+1)<<level <= r.bound {
		leaves, err := r.leaves(n << level / TileWidth)
		if err != nil {
			return tlog.Hash{}, err
		}
		return fold(leaves[n<<level%TileWidth:][:1<<level]), nil
	}
	return r.stored(level, n)
}

// leaves returns the leaf hashes of a tile whose entries are in a segment.
func (r nodes) leaves(tile int64) (leaves []tlog.Hash, err error) {
	var b []byte
	err = r.tx.QueryRow(`SELECT hashes FROM audit_leaves WHERE tile = ?`, tile).Scan(&b)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		leaves, err = r.leavesOfSegment(tile)
	case err == nil:
		leaves = hashesOf(b)
	}
	if err != nil {
		return nil, err
	}
	node, err := r.stored(tileLevel, tile)
	if err == nil && (len(leaves) != TileWidth || fold(leaves) != node) {
		err = &BrokenError{tile*TileWidth + 1, "the stored tree differs from the leaf hashes of its tile"}
	}
	return leaves, err
}

func (r nodes) leavesOfSegment(tile int64) ([]tlog.Hash, error) {
	s, texts, err := textsWith(r.tx, r.older, tile*TileWidth+1)
	if err != nil {
		return nil, err
	}
	leaves := make([]tlog.Hash, TileWidth)
	for i, text := range texts[tile*TileWidth+1-s.First:][:TileWidth] {
		leaves[i] = tlog.RecordHash(text)
	}
	return leaves, nil
}

// stored is node for one that the entries and the stored nodes make.
func (r nodes) stored(level int, n int64) (tlog.Hash, error) {
	below := level % stride
	first := n << below
	row, err := r.level(level-below, first, first+1<<below)
	if err != nil {
		return tlog.Hash{}, err
	}
	if len(row) != 1<<below {
		return tlog.Hash{}, fmt.Errorf("the tree of the audit log lacks node %d of level %d", n, level)
	}
	return fold(row), nil
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

// Proofs makes proofs over a log, also over entries in segments.
type Proofs struct {
	Older Older // nil if no segment is at hand
}

// Consistency returns the proof that the log's first old entries are the start
// of its first size entries. If the log is shorter, it is BadParams.
func (p Proofs) Consistency(tx *store.Tx, old, size int64) ([]tlog.Hash, error) {
	head, err := ReadHead(tx)
	if err != nil {
		return nil, err
	}
	if old < 1 || old > size || size > head.Seq {
		return nil, refusal.New(refusal.BadParams,
			"the log has %d entries: there is no proof that its first %d are among its first %d", head.Seq, old, size)
	}
	n, err := readNodes(tx, p.Older)
	if err != nil {
		return nil, err
	}
	return tlog.ProveTree(size, old, n)
}

// Inclusion returns the text of entry seq, and the proof that it is among the
// first size entries. If it is not, it is UnknownTarget.
func (p Proofs) Inclusion(tx *store.Tx, seq, size int64) (text []byte, proof []tlog.Hash, err error) {
	n, err := readNodes(tx, p.Older)
	if err != nil {
		return nil, nil, err
	}
	head, err := ReadHead(tx)
	if err != nil {
		return nil, nil, err
	}
	if seq < 1 || seq > size || size > head.Seq {
		return nil, nil, refusal.New(refusal.UnknownTarget, "the signed log has no entry %d: it has %d", seq, size)
	}
	if text, err = n.text(seq); err != nil {
		return nil, nil, err
	}
	proof, err = tlog.ProveRecord(size, seq-1, n)
	return text, proof, err
}

// text returns the text of an entry.
func (r nodes) text(seq int64) ([]byte, error) {
	if seq <= r.bound {
		s, texts, err := textsWith(r.tx, r.older, seq)
		if err != nil {
			return nil, err
		}
		return texts[seq-s.First], nil
	}
	bodies, err := Bodies(r.tx, seq-1, 1)
	if err == nil && len(bodies) == 0 {
		err = &BrokenError{seq, "is missing"}
	}
	if err != nil {
		return nil, err
	}
	return bodies[0], nil
}

// textsWith returns the segment that has an entry, and its texts.
func textsWith(tx *store.Tx, older Older, seq int64) (s Segment, texts [][]byte, err error) {
	if s, err = SegmentWith(tx, seq); err != nil {
		return s, nil, err
	}
	if older == nil {
		return s, nil, NotAtHand(s)
	}
	if texts, err = older.Texts(s); err == nil && int64(len(texts)) != s.Last-s.First+1 {
		err = &BrokenError{s.First, fmt.Sprintf("segment %d has %d entries", s.Number, len(texts))}
	}
	return s, texts, err
}

// NotAtHand is the refusal of what only the file of a segment can answer.
func NotAtHand(s Segment) *refusal.Refusal {
	return refusal.New(refusal.Unavailable, "entries %d to %d are archived, and the file %s is not at hand", s.First, s.Last, s.File()).
		WithHint("put the file back into the archive's directory")
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
	n, err := readNodes(tx, nil)
	if err != nil {
		return err
	}
	for _, c := range []checkpoint.Checkpoint{head.Checkpoint, {Size: seq, Root: recorded}} {
		root, err := tlog.TreeHash(c.Size, n)
		if errors.Is(err, store.ErrUnavailable) && !store.Damaged(err) {
			return err // the disk could not be read, and nothing is known of the log
		}
		if err != nil || root != c.Root {
			return &BrokenError{c.Size, "the log up to it is not the one of which a head was signed"}
		}
	}
	return nil
}
