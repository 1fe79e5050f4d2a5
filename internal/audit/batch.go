package audit

import (
	"crypto/sha256"
	"database/sql"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"
)

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
	Seq  int64  `json:"seq"`
	Prev string `json:"prev"`
}

// readBatch reads the next entries. With the last of them, more is false.
func readBatch(rows *sql.Rows) (b *batch, more bool, err error) {
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
			r.err = json.Unmarshal(r.body, &r.links)
		} else if r.err = json.Unmarshal(r.body, &r.entry); r.err == nil {
			r.links = links{r.entry.Seq, r.entry.Prev}
		}
	}
}
