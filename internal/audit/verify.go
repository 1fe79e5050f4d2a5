package audit

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"gated/internal/store"
)

// BrokenError says at which entry the log stops being what was written.
type BrokenError struct {
	Seq int64
	Why string
}

// Error names the entry.
func (e *BrokenError) Error() string { return fmt.Sprintf("audit entry %d: %s", e.Seq, e.Why) }

// Verify walks the whole log: numbers without a gap, every hash over the
// stored bytes, every link, and the recorded head. It calls each, if not nil,
// with every entry. It returns the head, or a *BrokenError.
func Verify(tx *store.Tx, each func(Entry) error) (Head, error) {
	rows, err := tx.Query(`SELECT seq, body, hash FROM audit ORDER BY seq`)
	if err != nil {
		return Head{}, err
	}
	defer rows.Close()
	var head Head
	for rows.Next() {
		var seq int64
		var body, hash []byte
		if err := rows.Scan(&seq, &body, &hash); err != nil {
			return head, err
		}
		e, err := checkEntry(head, seq, body, hash)
		if err != nil {
			return head, err
		}
		head = Head{Seq: seq, Hash: hex.EncodeToString(hash)}
		if each != nil {
			if err := each(e); err != nil {
				return head, err
			}
		}
	}
	if err := rows.Err(); err != nil {
		return head, err
	}
	return head, checkHead(tx, head)
}

func checkEntry(prev Head, seq int64, body, hash []byte) (Entry, error) {
	var e Entry
	if seq <= prev.Seq {
		return e, &BrokenError{seq, "is not a number that the log gives"}
	}
	if seq != prev.Seq+1 {
		return e, &BrokenError{prev.Seq + 1, fmt.Sprintf("is missing; the next one is %d", seq)}
	}
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], hash) {
		return e, &BrokenError{seq, "was altered: its hash is another"}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return e, &BrokenError{seq, "does not decode"}
	}
	if e.Seq != seq {
		return e, &BrokenError{seq, fmt.Sprintf("says that it is entry %d", e.Seq)}
	}
	if e.Prev != prev.Hash {
		return e, &BrokenError{seq, "does not follow the entry before it"}
	}
	return e, nil
}

// checkHead finds entries that were cut off the end.
func checkHead(tx *store.Tx, head Head) error {
	var seq int64
	var hash []byte
	err := tx.QueryRow(`SELECT seq, hash FROM audit_head`).Scan(&seq, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		if head.Seq != 0 {
			return &BrokenError{head.Seq, "the recorded head is missing"}
		}
		return nil
	}
	if err != nil {
		return err
	}
	if seq < head.Seq {
		return &BrokenError{seq + 1, fmt.Sprintf("was added behind the recorded head, which is %d", seq)}
	}
	if seq > head.Seq {
		return &BrokenError{head.Seq + 1, fmt.Sprintf("the log ends at %d, but its recorded head is %d", head.Seq, seq)}
	}
	if hex.EncodeToString(hash) != head.Hash {
		return &BrokenError{seq, "the recorded head has another hash"}
	}
	return nil
}
