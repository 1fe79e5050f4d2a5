package audit

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/store"
	"gated/internal/log/checkpoint"
)

// BrokenError names the entry at which the log is no longer as it was written.
type BrokenError struct {
	Seq int64
	Why string
}

// Error names the entry.
func (e *BrokenError) Error() string { return fmt.Sprintf("audit entry %d: %s", e.Seq, e.Why) }

// Verify is Checker.Verify without a Progress.
func Verify(tx *store.Tx, each func(Entry) error, kept ...checkpoint.Checkpoint) (Head, error) {
	return Checker{Each: each, Kept: kept}.Verify(tx)
}

// Checker verifies a log. The zero Checker uses the log alone.
type Checker struct {
	// Kept are heads from outside the log. Each must be the head of a beginning of
	// the log, whatever key signed it.
	Kept []checkpoint.Checkpoint
	// Each, if not nil, is called with every entry.
	Each func(Entry) error
	// Progress, if not nil, is called every few hundred entries with the number
	// done. Its error ends the walk and is returned. A slow Progress makes the walk
	// slow.
	Progress func(done int64) error
	// Older, if not nil, reads the entries in segments. Without it, Verify checks of
	// them the hashes of their tiles and the entries that the database keeps.
	Older Older
}

// Verify walks the whole log. It checks numbers without a gap, every hash over the
// stored bytes, every link and every stored node of the tree. It also checks the
// recorded head, the signed head and the kept heads. It returns the head, or a
// *BrokenError.
//
// Without Older, entries in segments are not read, and Each gets those of KeptEntries
// alone. The tree then shows that the segments' entries have not changed their hashes,
// and a caller has to say that it did not read them.
func (c Checker) Verify(tx *store.Tx) (Head, error) {
	v := &verifier{Checker: c, tx: tx, grown: &edge{}, stored: map[int]*store.Rows{}, kept: slices.Clone(c.Kept)}
	defer v.close()
	if err := v.signed(); err != nil {
		return Head{}, err
	}
	slices.SortFunc(v.kept, func(a, b checkpoint.Checkpoint) int { return int(min(1, max(-1, a.Size-b.Size))) })
	if err := v.archived(); err != nil {
		return v.head, err
	}
	if err := v.walk(); err != nil {
		return v.head, err
	}
	return v.head, v.end()
}

// walk reads the entries in batches and checks them in order. Each batch is hashed
// and decoded while walk reads the next ones.
func (v *verifier) walk() error {
	rows, err := v.tx.Query(`SELECT seq, body, hash FROM audit ORDER BY seq`)
	if err != nil {
		return err
	}
	defer rows.Close()
	return v.take(func() (*batch, bool, error) { return readBatch(rows) })
}

// take checks batches in order, and decodes them in parallel.
func (v *verifier) take(next func() (*batch, bool, error)) (err error) {
	var ahead []*batch
	defer func() {
		for _, b := range ahead {
			<-b.done
		}
	}()
	for more := true; more || len(ahead) > 0; {
		if more {
			var b *batch
			if b, more, err = next(); err != nil {
				return err
			}
			go b.decode(v.Each != nil)
			ahead = append(ahead, b)
		}
		if more && len(ahead) <= runtime.GOMAXPROCS(0) {
			continue
		}
		b := ahead[0]
		<-b.done
		ahead = ahead[1:]
		for i := range b.rows {
			if err := v.entry(&b.rows[i]); err != nil {
				return err
			}
		}
		if v.Progress != nil {
			if err := v.Progress(v.head.Seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifier is a walk through the log.
type verifier struct {
	Checker
	tx     *store.Tx
	head   Head
	grown  *edge                   // of the tree over the entries so far
	stored map[int]*store.Rows     // the stored nodes that are not compared yet, by level
	kept   []checkpoint.Checkpoint // heads of beginnings that are not reached yet

	planted bool  // the log has a tree
	bound   int64 // the newest entry that is in a segment alone
}

func (v *verifier) close() {
	for _, rows := range v.stored {
		_ = rows.Close()
	}
}

// signed adds the last signed head to the kept heads.
func (v *verifier) signed() error {
	var edge []byte
	s, err := SignedHead(v.tx)
	if err == nil && s.Note == "" {
		err = v.tx.QueryRow(`SELECT edge FROM audit_head`).Scan(&edge)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
	}
	v.planted = !unplanted(edge, s.Note)
	if err != nil || s.Note == "" {
		return err
	}
	v.kept = append(v.kept, s.Checkpoint)
	return s.check()
}

// after refuses, as a *BrokenError, an entry that is not the one after a head.
func (r *row) after(head Head) error {
	seq := r.seq
	switch {
	case seq <= head.Seq:
		return &BrokenError{seq, "is not a number that the log gives"}
	case seq != head.Seq+1:
		return &BrokenError{head.Seq + 1, fmt.Sprintf("is missing; the next one is %d", seq)}
	case !bytes.Equal(r.sum[:], r.hash):
		return &BrokenError{seq, "was altered: its hash is another"}
	case r.err != nil:
		return &BrokenError{seq, "does not decode"}
	case r.links.Seq != seq:
		return &BrokenError{seq, fmt.Sprintf("says that it is entry %d", r.links.Seq)}
	case r.links.Prev != head.Hash:
		return &BrokenError{seq, "does not follow the entry before it"}
	}
	return nil
}

func (v *verifier) entry(r *row) error {
	if err := r.after(v.head); err != nil {
		return err
	}
	if err := v.grow(r.seq, r.leaf); err != nil {
		return err
	}
	v.head = Head{Seq: r.seq, Hash: hex.EncodeToString(r.hash)}
	if v.Each != nil {
		return v.Each(r.entry)
	}
	return nil
}

// grow compares the nodes that an entry completes with the stored ones, and the
// tree with the heads of this size.
func (v *verifier) grow(seq int64, leaf tlog.Hash) error {
	done, err := v.grown.add(leaf)
	if err != nil {
		return err
	}
	lowest := stride
	if seq <= v.bound {
		lowest = tileLevel // the nodes below went with the entries
	}
	for level := lowest; level < len(done) && v.planted; level += stride {
		n, hash, ok, err := v.next(level)
		if err != nil {
			return err
		}
		if !ok || n != seq>>level-1 || !bytes.Equal(hash, done[level][:]) {
			return &BrokenError{seq, "the stored tree differs from the entries up to it"}
		}
	}
	for len(v.kept) > 0 && v.kept[0].Size == seq {
		root, err := v.grown.root()
		if err != nil {
			return err
		}
		if root != v.kept[0].Root {
			return &BrokenError{seq, "the log up to it is not the one of which a head was signed"}
		}
		v.kept = v.kept[1:]
	}
	return nil
}

// next returns the next stored node of a level.
func (v *verifier) next(level int) (n int64, hash []byte, ok bool, err error) {
	rows := v.stored[level]
	if rows == nil {
		if rows, err = v.tx.Query(`SELECT n, hash FROM audit_tree WHERE level = ? ORDER BY n`, level); err != nil {
			return 0, nil, false, err
		}
		v.stored[level] = rows
	}
	if !rows.Next() {
		return 0, nil, false, rows.Err()
	}
	return n, hash, true, rows.Scan(&n, &hash)
}

// end checks what is beside and after the entries.
func (v *verifier) end() error {
	if err := v.recorded(); err != nil {
		return err
	}
	if len(v.kept) > 0 {
		return &BrokenError{v.head.Seq + 1, fmt.Sprintf("the log ends at %d, but a head of %d entries was signed", v.head.Seq, v.kept[0].Size)}
	}
	var nodes, tops int64
	for level := stride; level < 64 && v.planted; level += stride {
		nodes += v.head.Seq >> level
	}
	nodes -= v.bound >> stride
	if err := v.tx.QueryRow(`SELECT count(*) FROM audit_tree`).Scan(&tops); err != nil || tops == nodes {
		return err
	}
	return &BrokenError{v.head.Seq, fmt.Sprintf("the stored tree has %d nodes and not %d", tops, nodes)}
}

// recorded finds that entries were cut off at the end.
func (v *verifier) recorded() error {
	head := v.head
	var seq int64
	var hash, stored []byte
	var note string
	err := v.tx.QueryRow(`SELECT seq, hash, edge, note FROM audit_head`).Scan(&seq, &hash, &stored, &note)
	if errors.Is(err, sql.ErrNoRows) {
		if head.Seq != 0 {
			return &BrokenError{head.Seq, "the recorded head is missing"}
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := (Head{Seq: seq, Hash: hex.EncodeToString(hash)}).ends(head); err != nil {
		return err
	}
	if !unplanted(stored, note) && !bytes.Equal(stored, v.grown.encode()) {
		return &BrokenError{seq, "the recorded edge of the tree is another"}
	}
	return nil
}

// batchRows is how many entries are hashed together.
const batchRows = 256

// batch is some stored entries, with what can be told from their texts alone.
type batch struct {
	rows []row
	done chan struct{} // closed when decode has ended
}

// row is one stored entry.
type row struct {
	seq        int64
	body, hash []byte

	sum   [sha256.Size]byte // of the body
	leaf  tlog.Hash
	links links
	entry Entry // only if the caller asks for whole entries
	err   error // why the body does not decode
}

// links is what an entry must have for the check of its place in the log.
type links struct {
	V    int    `json:"v"`
	Seq  int64  `json:"seq"`
	Prev string `json:"prev"`
}

// readBatch reads the next entries. With the last of them, more is false.
func readBatch(rows *store.Rows) (b *batch, more bool, err error) {
	b = &batch{rows: make([]row, 0, batchRows), done: make(chan struct{})}
	for len(b.rows) < batchRows {
		if !rows.Next() {
			return b, false, rows.Err()
		}
		var r row
		if err := rows.Scan(&r.seq, &r.body, &r.hash); err != nil {
			return b, false, err
		}
		b.rows = append(b.rows, r)
	}
	return b, true, nil
}

// decode hashes and decodes the entries. This needs neither the database nor earlier
// entries.
func (b *batch) decode(whole bool) {
	defer close(b.done)
	for i := range b.rows {
		r := &b.rows[i]
		r.sum, r.leaf = sha256.Sum256(r.body), tlog.RecordHash(r.body)
		if !whole {
			if r.err = json.Unmarshal(r.body, &r.links); r.err == nil {
				r.err = known(r.links.V)
			}
		} else if r.entry, r.err = Decode(r.body); r.err == nil {
			r.links = links{Seq: r.entry.Seq, Prev: r.entry.Prev}
		}
	}
}
