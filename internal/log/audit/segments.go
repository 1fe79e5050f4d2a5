package audit

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// SchemaSegments adds what the database keeps of entries that are in segment files. segments has a row for each file.
// audit_bound says up to which entry the texts are gone from the table audit. audit_leaves has the leaf hashes of the
// newest tiles of them, and audit_kept the entries that are read later, each with its path to the tile's hash.
const SchemaSegments = `
CREATE TABLE segments(
	number INTEGER PRIMARY KEY,
	first  INTEGER NOT NULL,
	last   INTEGER NOT NULL,
	jobs   INTEGER NOT NULL,
	bytes  INTEGER NOT NULL,
	sha256 TEXT NOT NULL,
	hash   BLOB NOT NULL,
	at     INTEGER NOT NULL
) STRICT;
CREATE TABLE audit_bound(
	id   INTEGER PRIMARY KEY CHECK (id = 1),
	seq  INTEGER NOT NULL,
	hash BLOB NOT NULL
) STRICT;
CREATE TABLE audit_leaves(
	tile   INTEGER PRIMARY KEY,
	hashes BLOB NOT NULL
) STRICT;
CREATE TABLE audit_kept(
	seq  INTEGER PRIMARY KEY,
	body BLOB NOT NULL,
	path BLOB NOT NULL
) STRICT;
`

// SchemaCounted adds to each segment how many entries and rows of it the database keeps, so that some that are gone are missed
// without the file, too. -1 is of a segment from before, of which it is not known.
const SchemaCounted = `
ALTER TABLE segments ADD COLUMN kept  INTEGER NOT NULL DEFAULT -1;
ALTER TABLE segments ADD COLUMN stays INTEGER NOT NULL DEFAULT -1;
`

// TileWidth is how many entries a tile has (c2sp.org/tlog-tiles). Segments have whole tiles alone.
const TileWidth = 1 << tileLevel

// tileLevel is the level of the tree at which one node covers a tile. The stored nodes below it go with the entries.
const tileLevel = 2 * stride

// LeavesKept is of how many entries in segments, the newest, the database keeps the leaf hashes. Proofs from any size
// among them need no segment.
const LeavesKept = 1 << 18

// Segment is a file with a run of entries, and with jobs that ended in it or before. The database has its row from
// before the first of its rows is deleted.
type Segment struct {
	Number      int64 // from 1
	First, Last int64 // entries
	Jobs        int
	Bytes       int64  // of the file
	SHA256      string // of the file, hex
	Hash        string // of entry Last, hex
	At          time.Time
	Kept        int // entries of it that the database keeps, -1 if it is not known
	Stays       int // rows of its jobs that stay in the database, -1 if it is not known
}

// File returns the name of the segment's file. It has the digest, so two segments never have the same name.
func (s Segment) File() string { return fmt.Sprintf("segment-%08d-%.16s.tar.gz", s.Number, s.SHA256) }

// Older reads the entries in segment files.
type Older interface {
	// Texts returns the texts of all entries of a segment, whose file it verified. A file that is not there, or is not
	// the segment's, is a refusal that names it.
	Texts(Segment) ([][]byte, error)
}

const segmentColumns = `number, first, last, jobs, bytes, sha256, hash, at, kept, stays`

func scanSegment(row interface{ Scan(...any) error }) (s Segment, err error) {
	var hash []byte
	var at int64
	err = row.Scan(&s.Number, &s.First, &s.Last, &s.Jobs, &s.Bytes, &s.SHA256, &hash, &at, &s.Kept, &s.Stays)
	s.Hash, s.At = hex.EncodeToString(hash), time.Unix(0, at).UTC()
	return s, err
}

// Segments returns all segments in their order.
func Segments(tx *store.Tx) ([]Segment, error) {
	rows, err := tx.Query(`SELECT ` + segmentColumns + ` FROM segments ORDER BY number`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Segment
	for rows.Next() {
		s, err := scanSegment(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// LastSegment returns the newest segment, the zero one if there is none.
func LastSegment(tx *store.Tx) (Segment, error) {
	s, err := scanSegment(tx.QueryRow(`SELECT ` + segmentColumns + ` FROM segments ORDER BY number DESC LIMIT 1`))
	if errors.Is(err, sql.ErrNoRows) {
		return Segment{}, nil
	}
	return s, err
}

// ReadSegment returns the segment of a number; UnknownTarget if there is none.
func ReadSegment(tx *store.Tx, number int64) (Segment, error) {
	s, err := scanSegment(tx.QueryRow(`SELECT `+segmentColumns+` FROM segments WHERE number = ?`, number))
	if errors.Is(err, sql.ErrNoRows) {
		return s, refusal.New(refusal.UnknownTarget, "there is no segment %d", number).WithHint("gated archive status lists them")
	}
	return s, err
}

// SegmentWith returns the segment that has an entry; UnknownTarget if none has it.
func SegmentWith(tx *store.Tx, seq int64) (Segment, error) {
	s, err := scanSegment(tx.QueryRow(`SELECT `+segmentColumns+` FROM segments WHERE first <= ? ORDER BY first DESC LIMIT 1`, seq))
	if errors.Is(err, sql.ErrNoRows) || err == nil && s.Last < seq {
		return s, refusal.New(refusal.UnknownTarget, "no segment has entry %d", seq)
	}
	return s, err
}

// Bound returns the newest entry whose text is in a segment alone, the zero head if there is none. A log that begins
// later than its bound says is a *BrokenError.
func Bound(tx *store.Tx) (Head, error) {
	var first int64
	err := tx.QueryRow(`SELECT coalesce((SELECT min(seq) FROM audit), (SELECT seq + 1 FROM audit_head), 1)`).Scan(&first)
	if err != nil || first <= 1 {
		return Head{}, err
	}
	var tables int
	if err := tx.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'audit_bound'`).Scan(&tables); err != nil {
		return Head{}, err
	}
	if tables == 0 {
		return Head{}, nil // Verify finds that entries are missing
	}
	var h Head
	var hash []byte
	err = tx.QueryRow(`SELECT seq, hash FROM audit_bound`).Scan(&h.Seq, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return Head{}, nil
	}
	h.Hash = hex.EncodeToString(hash)
	return h, err
}

// AddSegment records a segment whose file was verified and is on the disk. It must be the next one, of whole tiles that the
// signed head covers, and end as the log does there.
func AddSegment(tx *store.Tx, s Segment) error {
	before, err := LastSegment(tx)
	if err != nil {
		return err
	}
	signed, err := SignedHead(tx)
	if err != nil {
		return err
	}
	hash, err := hashOf(tx, s.Last)
	switch {
	case err != nil:
		return err
	case s.Number != before.Number+1 || s.First != before.Last+1 || s.Last <= before.Last || s.Last%TileWidth != 0:
		return fmt.Errorf("segment %d of entries %d to %d does not follow segment %d, which ends at %d", s.Number, s.First, s.Last, before.Number, before.Last)
	case signed.Size < s.Last:
		return fmt.Errorf("segment %d ends at entry %d, and the last signed head has %d", s.Number, s.Last, signed.Size)
	case hash != s.Hash:
		return fmt.Errorf("segment %d ends with another entry %d than the log has", s.Number, s.Last)
	}
	sum, err := hex.DecodeString(s.Hash)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO segments(number, first, last, jobs, bytes, sha256, hash, at, kept, stays) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.Number, s.First, s.Last, s.Jobs, s.Bytes, s.SHA256, sum, s.At.UnixNano(), s.Kept, s.Stays)
	return err
}

// RemoveTile deletes the oldest tile of entries from the database. Each of them must be, byte for byte, the text that a
// verified segment has, and all of them the leaves of the stored tree. What later readers need is kept.
func RemoveTile(tx *store.Tx, s Segment, texts [][]byte) error {
	bound, err := Bound(tx)
	if err != nil {
		return err
	}
	tile := bound.Seq / TileWidth
	first := tile*TileWidth + 1
	if bound.Seq%TileWidth != 0 || first < s.First || first+TileWidth-1 > s.Last || len(texts) != int(s.Last-s.First+1) {
		return fmt.Errorf("the tile from entry %d on is not in segment %d of entries %d to %d", first, s.Number, s.First, s.Last)
	}
	stored, err := Bodies(tx, bound.Seq, TileWidth)
	if err != nil {
		return err
	}
	texts = texts[first-s.First:][:TileWidth]
	if len(stored) != TileWidth {
		return &BrokenError{first + int64(len(stored)), "is missing"}
	}
	leaves := make([]tlog.Hash, TileWidth)
	for i, body := range stored {
		if !bytes.Equal(body, texts[i]) {
			return &BrokenError{first + int64(i), fmt.Sprintf("is another one than segment %d has", s.Number)}
		}
		leaves[i] = tlog.RecordHash(body)
	}
	node, err := (nodes{tx: tx}).stored(tileLevel, tile)
	if err != nil {
		return err
	}
	if fold(leaves) != node {
		return &BrokenError{first, "the stored tree differs from the entries of its tile"}
	}
	return removeTile(tx, tile, stored, leaves)
}

// removeTile is RemoveTile after its checks.
func removeTile(tx *store.Tx, tile int64, texts [][]byte, leaves []tlog.Hash) error {
	first := tile*TileWidth + 1
	for i, text := range texts {
		if !Keeps(text) {
			continue
		}
		if _, err := tx.Exec(`INSERT INTO audit_kept(seq, body, path) VALUES(?, ?, ?)`, first+int64(i), text, encodeHashes(pathOf(leaves, i))); err != nil {
			return err
		}
	}
	last := sha256.Sum256(texts[len(texts)-1])
	for _, do := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO audit_leaves(tile, hashes) VALUES(?, ?)`, []any{tile, encodeHashes(leaves)}},
		{`DELETE FROM audit_leaves WHERE tile <= ?`, []any{tile - LeavesKept/TileWidth}},
		{`DELETE FROM audit WHERE seq >= ? AND seq < ?`, []any{first, first + TileWidth}},
		{`DELETE FROM audit_tree WHERE level = ? AND n >= ? AND n < ?`, []any{stride, tile << stride, (tile + 1) << stride}},
		{`INSERT INTO audit_bound(id, seq, hash) VALUES(1, ?, ?) ON CONFLICT(id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash`,
			[]any{first + TileWidth - 1, last[:]}},
	} {
		if _, err := tx.Exec(do.query, do.args...); err != nil {
			return fmt.Errorf("delete entries that are in a segment: %w", err)
		}
	}
	return nil
}

// keptKinds are the entries that are read for longer than others: who signs, with which keys, and since when which gate id. fsck
// looks for them in each segment, so another kind needs a rule for the segments from before.
var keptKinds = map[Kind]bool{Started: true, Trusted: true, Rotated: true, Keyed: true, Restored: true, TimeAccepted: true, LedgerLost: true}

// Keeps reports whether the database keeps an entry after its tile went to a segment.
func Keeps(text []byte) bool {
	e, err := Decode(text)
	return err == nil && e.Kind.Kept()
}

// Kept reports whether the database keeps entries of a kind after their tile went to a segment.
func (k Kind) Kept() bool { return keptKinds[k] }

// KeptEntries returns the entries of segments that the database keeps, oldest first. Each must be in its tile.
func KeptEntries(tx *store.Tx) (out []Entry, err error) {
	bound, err := Bound(tx)
	if err != nil || bound.Seq == 0 {
		return nil, err
	}
	rows, err := tx.Query(`SELECT seq, body, path FROM audit_kept ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var body, path []byte
		if err := rows.Scan(&seq, &body, &path); err != nil {
			return nil, err
		}
		node, err := (nodes{tx: tx}).stored(tileLevel, (seq-1)/TileWidth)
		if err != nil {
			return nil, err
		}
		hashes := hashesOf(path)
		if seq < 1 || seq > bound.Seq || len(hashes) != tileLevel || climb(tlog.RecordHash(body), seq-1, hashes) != node {
			return nil, &BrokenError{seq, "is kept as another one than its tile has"}
		}
		e, err := Decode(body)
		if err != nil || e.Seq != seq {
			return nil, &BrokenError{seq, "does not decode"}
		}
		if !e.Kind.Kept() {
			return nil, &BrokenError{seq, "is kept, and the gate keeps no entry of its kind"}
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

// pathOf returns the hashes from a leaf up to the root of a tile: at each level, the other node.
func pathOf(leaves []tlog.Hash, at int) (path []tlog.Hash) {
	row := append([]tlog.Hash(nil), leaves...)
	for ; len(row) > 1; at /= 2 {
		path = append(path, row[at^1])
		row = halve(row)
	}
	return path
}

// climb returns the root that a leaf has with a path.
func climb(node tlog.Hash, at int64, path []tlog.Hash) tlog.Hash {
	for _, other := range path {
		if at&1 == 0 {
			node = tlog.NodeHash(node, other)
		} else {
			node = tlog.NodeHash(other, node)
		}
		at >>= 1
	}
	return node
}

func halve(row []tlog.Hash) []tlog.Hash {
	for i := range len(row) / 2 {
		row[i] = tlog.NodeHash(row[2*i], row[2*i+1])
	}
	return row[:len(row)/2]
}

// fold returns the root over so many hashes, a power of two.
func fold(row []tlog.Hash) tlog.Hash {
	row = append([]tlog.Hash(nil), row...)
	for len(row) > 1 {
		row = halve(row)
	}
	return row[0]
}

func encodeHashes(all []tlog.Hash) []byte {
	out := make([]byte, 0, len(all)*tlog.HashSize)
	for _, h := range all {
		out = append(out, h[:]...)
	}
	return out
}

// hashesOf returns nil if the bytes are not whole hashes.
func hashesOf(b []byte) (out []tlog.Hash) {
	if len(b)%tlog.HashSize != 0 {
		return nil
	}
	for ; len(b) > 0; b = b[tlog.HashSize:] {
		out = append(out, tlog.Hash(b[:tlog.HashSize]))
	}
	return out
}

// EdgeAt returns the edge of the tree over the first size entries: the roots of its complete subtrees, the largest first.
// size is 0 or the end of a tile.
func EdgeAt(tx *store.Tx, size int64) (out []tlog.Hash, err error) {
	for level := 62; level >= tileLevel; level-- {
		if size>>level&1 == 0 {
			continue
		}
		node, err := (nodes{tx: tx}).stored(level, size>>level-1)
		if err != nil {
			return nil, err
		}
		out = append(out, node)
	}
	return out, nil
}

// RootAfter returns the root of the tree with an edge over its first size entries, after more leaves.
func RootAfter(size int64, hashes, leaves []tlog.Hash) (tlog.Hash, error) {
	e := &edge{size: size, hashes: append([]tlog.Hash(nil), hashes...)}
	if len(hashes) != bits.OnesCount64(uint64(size)) {
		return tlog.Hash{}, fmt.Errorf("a tree of %d entries has not %d hashes at its edge", size, len(hashes))
	}
	for _, leaf := range leaves {
		if _, err := e.add(leaf); err != nil {
			return tlog.Hash{}, err
		}
	}
	return e.root()
}
