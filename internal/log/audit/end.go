package audit

import (
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"gated/internal/base/store"
)

// VerifyEnd checks the newest entries, at most so many, and passes each to each. They
// must follow each other up to the recorded head, and the tree must have the signed
// root (CheckHead). It returns the number of the first one, which is 1 if it read the
// whole log. Earlier entries, among them all that are in segments, and most nodes of the
// tree are not read. A log that is not as it was written is a *BrokenError.
func VerifyEnd(tx *store.Tx, limit int, each func(Entry)) (first int64, err error) {
	recorded, err := recordedHead(tx)
	if err != nil {
		return 0, err
	}
	if err := CheckHead(tx); err != nil {
		return 0, err
	}
	bound, err := Bound(tx)
	if err != nil {
		return 0, err
	}
	head := Head{Seq: max(bound.Seq, recorded.Seq-int64(limit))}
	first = head.Seq + 1
	if head.Hash, err = hashOf(tx, head.Seq); err != nil {
		return first, err
	}
	// One more than the recorded head counts shows that entries were added behind it.
	rows, err := tx.Query(`SELECT seq, body, hash FROM audit WHERE seq > ? ORDER BY seq LIMIT ?`, head.Seq, limit+1)
	if err != nil {
		return first, err
	}
	defer rows.Close()
	for more := true; more; {
		var b *batch
		if b, more, err = readBatch(rows); err != nil {
			return first, err
		}
		b.decode(true)
		for i := range b.rows {
			r := &b.rows[i]
			if err := r.after(head); err != nil {
				return first, err
			}
			head = Head{Seq: r.seq, Hash: hex.EncodeToString(r.hash)}
			each(r.entry)
		}
	}
	return first, recorded.ends(head)
}

// recordedHead returns the head beside the log, or the zero head if there is none.
func recordedHead(tx *store.Tx) (h Head, err error) {
	var hash []byte
	err = tx.QueryRow(`SELECT seq, hash FROM audit_head`).Scan(&h.Seq, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return Head{}, nil
	}
	h.Hash = hex.EncodeToString(hash)
	return h, err
}

// hashOf returns the stored hash of an entry; entry 0 is the start of the log.
func hashOf(tx *store.Tx, seq int64) (string, error) {
	if seq == 0 {
		return "", nil
	}
	var hash []byte
	err := tx.QueryRow(`SELECT hash FROM audit WHERE seq = ?`, seq).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		if bound, err := Bound(tx); err != nil || bound.Seq == seq {
			return bound.Hash, err
		}
		err = &BrokenError{seq, "is missing"}
	}
	return hex.EncodeToString(hash), err
}

// ends refuses, as a *BrokenError, a newest entry that is not the one of the recorded
// head.
func (h Head) ends(newest Head) error {
	switch {
	case h.Seq < newest.Seq:
		return &BrokenError{h.Seq + 1, fmt.Sprintf("was added behind the recorded head, which is %d", h.Seq)}
	case h.Seq > newest.Seq:
		return &BrokenError{newest.Seq + 1, fmt.Sprintf("the log ends at %d, but its recorded head is %d", newest.Seq, h.Seq)}
	case h.Hash != newest.Hash:
		return &BrokenError{h.Seq, "the recorded head has another hash"}
	}
	return nil
}
