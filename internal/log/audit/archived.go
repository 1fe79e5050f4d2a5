package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/store"
)

// archived checks the entries that are in segments, as far as they can be read, and leaves the walk at the bound.
func (v *verifier) archived() error {
	bound, err := Bound(v.tx)
	if err != nil || bound.Seq == 0 {
		return err
	}
	v.bound = bound.Seq
	all, err := Segments(v.tx)
	if err != nil {
		return err
	}
	if err := v.covered(bound, all); err != nil {
		return err
	}
	kept, err := KeptEntries(v.tx)
	if err != nil {
		return err
	}
	if err := v.counted(kept, all); err != nil {
		return err
	}
	if err := v.leaves(); err != nil {
		return err
	}
	if v.Older != nil {
		err = v.segments(all)
	} else {
		err = v.tiles(bound, kept)
	}
	if err == nil && v.head != bound {
		err = &BrokenError{bound.Seq, "the bound of the archived entries has another hash"}
	}
	return err
}

// covered checks that whole tiles are gone, and that segments without a gap have them.
func (v *verifier) covered(bound Head, all []Segment) error {
	if bound.Seq%TileWidth != 0 || !v.planted {
		return &BrokenError{bound.Seq, "the bound of the archived entries is not the end of a tile"}
	}
	var last int64
	for i, s := range all {
		if s.Number != int64(i+1) || s.First != last+1 || s.Last <= last || s.Last%TileWidth != 0 {
			return &BrokenError{last + 1, fmt.Sprintf("segment %d, of entries %d to %d, does not follow the one before", s.Number, s.First, s.Last)}
		}
		last = s.Last
	}
	if last < bound.Seq {
		return &BrokenError{last + 1, "is missing, and no segment has it"}
	}
	return nil
}

// counted checks that as many entries of each segment are kept as there were when it was made. Some of a segment that still has
// entries in the table are not kept yet.
func (v *verifier) counted(kept []Entry, all []Segment) error {
	for _, s := range all {
		n := 0
		for len(kept) > 0 && kept[0].Seq <= s.Last {
			kept, n = kept[1:], n+1
		}
		if s.Kept >= 0 && s.Last <= v.bound && n != s.Kept {
			return &BrokenError{s.First, fmt.Sprintf("of segment %d, which begins with it, the database keeps %d entries and should keep %d", s.Number, n, s.Kept)}
		}
	}
	return nil
}

// leaves checks the leaf hashes that the database keeps against the hashes of their tiles.
func (v *verifier) leaves() error {
	rows, err := v.tx.Query(`SELECT l.tile, l.hashes, coalesce(t.hash, x'') FROM audit_leaves l LEFT JOIN audit_tree t ON t.level = ? AND t.n = l.tile ORDER BY l.tile`, tileLevel)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var tile int64
		var hashes, node []byte
		if err := rows.Scan(&tile, &hashes, &node); err != nil {
			return err
		}
		leaves := hashesOf(hashes)
		if len(leaves) != TileWidth || tile >= v.bound/TileWidth {
			return &BrokenError{tile*TileWidth + 1, "its tile of leaf hashes is none of an archived tile"}
		}
		if root := fold(leaves); !bytes.Equal(root[:], node) {
			return &BrokenError{tile*TileWidth + 1, "the stored tree differs from the leaf hashes of its tile"}
		}
	}
	return rows.Err()
}

// segments walks the entries in segment files. Those that the table audit still has are left to walk.
func (v *verifier) segments(all []Segment) error {
	for _, s := range all {
		if s.First > v.bound {
			return nil
		}
		texts, err := v.Older.Texts(s)
		if err != nil {
			return err
		}
		if int64(len(texts)) != s.Last-s.First+1 {
			return &BrokenError{s.First, fmt.Sprintf("%s has %d entries", s.File(), len(texts))}
		}
		if sum := sha256.Sum256(texts[len(texts)-1]); hex.EncodeToString(sum[:]) != s.Hash {
			return &BrokenError{s.Last, fmt.Sprintf("segment %d is recorded with another last entry", s.Number)}
		}
		at := s.First
		texts = texts[:min(s.Last, v.bound)-s.First+1]
		err = v.take(func() (*batch, bool, error) {
			n := min(batchRows, len(texts))
			b := batchOf(at, texts[:n])
			at, texts = at+int64(n), texts[n:]
			return b, len(texts) > 0, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// batchOf makes a batch of texts, with the hashes that the table audit had beside them.
func batchOf(first int64, texts [][]byte) *batch {
	b := &batch{done: make(chan struct{})}
	for i, text := range texts {
		sum := sha256.Sum256(text)
		b.rows = append(b.rows, row{seq: first + int64(i), body: text, hash: sum[:]})
	}
	return b
}

// tiles checks the tree over the archived entries from the hashes of their tiles up, and the heads among them. Each gets the
// kept entries.
func (v *verifier) tiles(bound Head, kept []Entry) error {
	tree := &edge{}
	for tile := range bound.Seq / TileWidth {
		n, hash, ok, err := v.next(tileLevel)
		if err != nil {
			return err
		}
		if !ok || n != tile || len(hash) != tlog.HashSize {
			return &BrokenError{tile*TileWidth + 1, "the stored tree lacks the hash of its tile"}
		}
		done, err := tree.add(tlog.Hash(hash))
		if err != nil {
			return err
		}
		for above := stride; above < len(done); above += stride {
			n, hash, ok, err := v.next(tileLevel + above)
			if err != nil {
				return err
			}
			if !ok || n != tree.size>>above-1 || !bytes.Equal(hash, done[above][:]) {
				return &BrokenError{(tile + 1) * TileWidth, "the stored tree differs from the tiles up to it"}
			}
		}
	}
	v.grown, v.head = &edge{size: bound.Seq, hashes: tree.hashes}, bound
	if len(v.grown.hashes) != bits.OnesCount64(uint64(bound.Seq)) {
		return &BrokenError{bound.Seq, "the stored tree has not the form of a log of so many entries"}
	}
	if err := v.keptBelow(); err != nil {
		return err
	}
	for _, e := range kept {
		if v.Each == nil {
			break
		}
		if err := v.Each(e); err != nil {
			return err
		}
	}
	return nil
}

// keptBelow compares the heads of archived sizes with the tree, as far as leaf hashes are at hand.
func (v *verifier) keptBelow() error {
	n, err := readNodes(v.tx, nil)
	if err != nil {
		return err
	}
	for len(v.kept) > 0 && v.kept[0].Size <= v.bound {
		c := v.kept[0]
		root, err := tlog.TreeHash(c.Size, n)
		if err != nil {
			return err
		}
		if root != c.Root {
			return &BrokenError{c.Size, "the log up to it is not the one of which a head was signed"}
		}
		v.kept = v.kept[1:]
	}
	return nil
}

// RootOf returns the root of the tree over the first size entries, as the database knows it.
func RootOf(tx *store.Tx, size int64) (tlog.Hash, error) {
	n, err := readNodes(tx, nil)
	if err != nil {
		return tlog.Hash{}, err
	}
	return tlog.TreeHash(size, n)
}
