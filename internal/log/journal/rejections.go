package journal

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

// SchemaRejections has the rejections that a later ask is compared with, one row for
// each requester of a rejected request. caller is the uid or set that the requester is
// of. wish and reason are digests (Wish, DigestReason). The table requesters gets each
// requester's own reason. If several asked for an older job, it is not known which one
// gave the job's reason.
const SchemaRejections = `
CREATE TABLE rejections(
	job       INTEGER NOT NULL,
	idx       INTEGER NOT NULL,
	who       TEXT NOT NULL,
	caller    TEXT NOT NULL,
	wish      TEXT NOT NULL,
	reason    TEXT NOT NULL,
	principal TEXT NOT NULL,
	words     TEXT NOT NULL,
	at        INTEGER NOT NULL,
	PRIMARY KEY(job, idx, who),
	FOREIGN KEY(job, idx) REFERENCES requests(job, idx)
) STRICT, WITHOUT ROWID;
CREATE INDEX rejections_wish ON rejections(wish, caller, at);
CREATE INDEX rejections_caller ON rejections(caller, at);
CREATE INDEX rejections_age ON rejections(at);
ALTER TABLE requesters ADD COLUMN reason TEXT NOT NULL DEFAULT '';
UPDATE requesters SET reason = (SELECT j.reason FROM jobs j WHERE j.id = requesters.job)
	WHERE NOT EXISTS (SELECT 1 FROM requesters other WHERE other.job = requesters.job AND other.who <> requesters.who);
`

// Bounds of the rejections that are kept and shown.
const (
	// RejectionsPerCaller is how many rows one caller has at most. An older row makes room for a newer one.
	RejectionsPerCaller = 256
	rejectionsShown     = 8 // of one wish, the newest
)

// DigestReason identifies a requester's reason. White space, punctuation and the case of letters make no difference:
// "Not needed!" tells operators nothing new after "not needed".
func DigestReason(reason string) string {
	return op.SHA256([]byte(strings.Join(wordsOf(reason), " ")))
}

// EarlierDigest is DigestReason as rows of earlier programs have it: white space alone makes no difference.
func EarlierDigest(reason string) string {
	return op.SHA256([]byte(strings.Join(strings.Fields(reason), " ")))
}

func wordsOf(reason string) []string {
	return strings.FieldsFunc(strings.ToLower(reason), func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.S)
	})
}

// Rejection is the end of a request by operators, as one of its requesters' later asks are compared with it.
type Rejection struct {
	op.Rejected        // without AskedBy
	Who         string // the requester
	Caller      string // that the requester is of
	Wish        string // Wish of the step
	Reason      string // DigestReason of the requester's reason, or EarlierDigest
}

// AddRejection stores a rejection. If the caller has too many then, the oldest ones go.
func AddRejection(tx *store.Tx, r Rejection) error {
	_, err := tx.Exec(`INSERT INTO rejections(job, idx, who, caller, wish, reason, principal, words, at)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)`, int64(r.Request.Job), r.Request.Index, r.Who, r.Caller, r.Wish, r.Reason,
		strings.Join(r.By, "\n"), r.Words, r.At.UnixNano())
	if err != nil {
		return fmt.Errorf("insert rejection: %w", err)
	}
	_, err = tx.Exec(`DELETE FROM rejections WHERE caller = ? AND (job, idx, who) IN
		(SELECT job, idx, who FROM rejections WHERE caller = ? ORDER BY at DESC, job DESC, idx DESC, who LIMIT -1 OFFSET ?)`,
		r.Caller, r.Caller, RejectionsPerCaller)
	return err
}

// HasRejections reports whether a caller has any rejection after a time.
func HasRejections(tx *store.Tx, caller string, after time.Time) (has bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM rejections WHERE caller = ? AND at > ?)`, caller, after.UnixNano()).
		Scan(&has)
	return has, err
}

// RejectionAfter returns the newest rejection after a time of the same wish of the same caller for the same reason. An
// empty reason is no new one, so it finds a rejection for any reason. If there is none, ok is false.
func RejectionAfter(tx *store.Tx, caller, wish, reason string, after time.Time) (r Rejection, ok bool, err error) {
	all, err := readRejections(tx, `SELECT `+rejectionColumns+` FROM rejections
		WHERE wish = ? AND at > ? AND caller = ? AND (reason IN (?, ?) OR ?) ORDER BY at DESC, job DESC, idx DESC LIMIT 1`,
		wish, after.UnixNano(), caller, DigestReason(reason), EarlierDigest(reason), len(wordsOf(reason)) == 0)
	if err != nil || len(all) == 0 {
		return r, false, err
	}
	return all[0], true, nil
}

// RejectionsOf returns how many requests for a wish were rejected, without the request except, and the newest of them,
// with all their requesters.
func RejectionsOf(tx *store.Tx, wish string, except op.RequestID) (times int, newest []op.Rejected, err error) {
	args := []any{wish, int64(except.Job), except.Index}
	err = tx.QueryRow(`SELECT count(DISTINCT job || '.' || idx) FROM rejections
		WHERE wish = ? AND (job, idx) <> (?, ?)`, args...).Scan(&times)
	if err != nil || times == 0 {
		return 0, nil, err
	}
	all, err := readRejections(tx, `SELECT `+rejectionColumns+` FROM rejections WHERE (job, idx) IN
			(SELECT job, idx FROM rejections WHERE wish = ? AND (job, idx) <> (?, ?)
				GROUP BY job, idx ORDER BY max(at) DESC, job DESC, idx DESC LIMIT ?)
		AND wish = ? ORDER BY at DESC, job DESC, idx DESC, who`, append(args, rejectionsShown, wish)...)
	for _, r := range all {
		if n := len(newest); n == 0 || newest[n-1].Request != r.Request {
			newest = append(newest, r.Rejected)
		}
		last := &newest[len(newest)-1]
		last.AskedBy = append(last.AskedBy, r.Who)
	}
	return times, newest, err
}

// ForgetRejections deletes up to limit rejections older than t.
func ForgetRejections(tx *store.Tx, t time.Time, limit int) error {
	_, err := tx.Exec(`DELETE FROM rejections WHERE (job, idx, who) IN
		(SELECT job, idx, who FROM rejections WHERE at < ? ORDER BY at LIMIT ?)`, t.UnixNano(), limit)
	return err
}

// RejectedAtLatest moves rejections that are later than t back to t, because the gate's clock was set back on purpose.
func RejectedAtLatest(tx *store.Tx, t time.Time) error {
	_, err := tx.Exec(`UPDATE rejections SET at = ? WHERE at > ?`, t.UnixNano(), t.UnixNano())
	return err
}

const rejectionColumns = `job, idx, who, caller, wish, reason, principal, words, at`

func readRejections(tx *store.Tx, query string, args ...any) ([]Rejection, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Rejection
	for rows.Next() {
		var r Rejection
		var by string
		var at int64
		err := rows.Scan(&r.Request.Job, &r.Request.Index, &r.Who, &r.Caller, &r.Wish, &r.Reason, &by, &r.Words, &at)
		if err != nil {
			return nil, err
		}
		r.By, r.At = strings.Split(by, "\n"), fromNano(at)
		out = append(out, r)
	}
	return out, rows.Err()
}
