package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// AddRequest inserts the request of a step that has none.
func AddRequest(tx *store.Tx, r op.Request) error {
	return writeRequest(tx, r, `INSERT INTO requests(job, idx, payload, nonce, facts, need, labels, offline, created_at, issued_at, expires_at)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
}

// PutRequest inserts a step's request. If there is one, it replaces the payload,
// nonce, facts and times and deletes the signatures, because the request is issued
// anew.
func PutRequest(tx *store.Tx, r op.Request) error {
	if _, err := tx.Exec(`DELETE FROM signatures WHERE job = ? AND idx = ?`, int64(r.ID.Job), r.ID.Index); err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM proofs WHERE job = ? AND idx = ?`, int64(r.ID.Job), r.ID.Index); err != nil {
		return err
	}
	if err := ForgetShowing(tx, r.ID); err != nil {
		return err
	}
	return writeRequest(tx, r, `INSERT INTO requests(job, idx, payload, nonce, facts, need, labels, offline, created_at, issued_at, expires_at)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT(job, idx) DO UPDATE SET payload = excluded.payload, nonce = excluded.nonce, facts = excluded.facts,
			need = excluded.need, labels = excluded.labels, issued_at = excluded.issued_at, expires_at = excluded.expires_at`)
}

func writeRequest(tx *store.Tx, r op.Request, query string) error {
	facts, labels, err := shown(r)
	if err != nil {
		return err
	}
	_, err = tx.Exec(query, int64(r.ID.Job), r.ID.Index, r.Payload, r.Nonce, string(facts), EncodeNeed(r.Need), string(labels), r.Offline,
		r.CreatedAt.UnixNano(), r.IssuedAt.UnixNano(), r.ExpiresAt.UnixNano())
	if err != nil {
		return fmt.Errorf("put request: %w", err)
	}
	return nil
}

// shown returns, as they are stored, what people see beside a payload.
func shown(r op.Request) (facts, labels []byte, err error) {
	if facts, err = json.Marshal(r.Facts); err != nil {
		return nil, nil, fmt.Errorf("encode facts: %w", err)
	}
	if labels, err = json.Marshal(r.Labels, json.Deterministic(true), json.FormatNilMapAsNull(false)); err != nil {
		return nil, nil, fmt.Errorf("encode labels: %w", err)
	}
	return facts, labels, nil
}

// DigestShown returns the hex SHA-256 of a request's facts and labels as they are
// stored. The audit log has this digest.
func DigestShown(facts, labels []byte) string {
	return op.SHA256(slices.Concat(facts, []byte("\n"), labels))
}

// ShownDigest is DigestShown of a written request. Its facts were encoded before, so
// encoding them cannot fail.
func ShownDigest(r op.Request) string {
	facts, labels, err := shown(r)
	if err != nil {
		return ""
	}
	return DigestShown(facts, labels)
}

// ReadRequest returns a request with its step, requesters, signatures, and the
// rejections of the same wish; UnknownTarget if there is none.
func ReadRequest(tx *store.Tx, id op.RequestID) (op.Request, error) {
	if err := archivedOr(tx, id.Job, nil); err != nil {
		return op.Request{ID: id}, err
	}
	s, err := ReadStep(tx, id)
	if errors.Is(err, refusal.UnknownTarget) {
		return op.Request{ID: id}, noRequest(id)
	}
	if err != nil {
		return op.Request{ID: id}, err
	}
	r, err := RequestOf(tx, s)
	if err == nil {
		r.TimesRejected, r.Rejections, err = RejectionsOf(tx, Wish(s), id)
	}
	return r, err
}

func noRequest(id op.RequestID) error {
	return refusal.New(refusal.UnknownTarget, "there is no request %s", id).WithHint("opsign list shows what waits")
}

// RequestOf is ReadRequest for a step that was read in the same transaction, without
// the rejections.
func RequestOf(tx *store.Tx, s op.Step) (op.Request, error) {
	id := s.ID
	r := op.Request{ID: id, Step: s}
	var facts, need, labels string
	var created, issued, expires int64
	err := tx.QueryRow(`SELECT r.payload, r.nonce, r.facts, r.need, r.labels, r.offline, r.created_at, r.issued_at,
			r.expires_at, j.reason
		FROM requests r JOIN jobs j ON j.id = r.job WHERE r.job = ? AND r.idx = ?`, int64(id.Job), id.Index).
		Scan(&r.Payload, &r.Nonce, &facts, &need, &labels, &r.Offline, &created, &issued, &expires, &r.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return r, archivedOr(tx, id.Job, noRequest(id))
	}
	if err != nil {
		return r, err
	}
	r.CreatedAt, r.IssuedAt, r.ExpiresAt = fromNano(created), fromNano(issued), fromNano(expires)
	r.FactsAt = r.IssuedAt // the time of the payload's look
	if r.Offline {
		r.FactsAt = r.CreatedAt // IssuedAt is the signer's own
	}
	if s.State == op.StateAuthorized {
		r.AuthorizedAt = s.UpdatedAt
	}
	if err := json.Unmarshal([]byte(facts), &r.Facts); err != nil {
		return r, fmt.Errorf("decode facts: %w", err)
	}
	if err := json.Unmarshal([]byte(labels), &r.Labels); err != nil {
		return r, fmt.Errorf("decode labels: %w", err)
	}
	if r.Need, err = DecodeNeed(need); err != nil {
		return r, err
	}
	if r.Requesters, r.Reasons, err = Reasons(tx, id.Job); err != nil {
		return r, err
	}
	if r.Signatures, err = readSignatures(tx, id); err != nil || s.Op != op.Rotate {
		return r, err
	}
	r.Proofs, err = readProofs(tx, id)
	return r, err
}

// IsDelayed reports whether a request's requirement delays its step after the
// last signature.
func IsDelayed(tx *store.Tx, id op.RequestID) (bool, error) {
	var stored string
	err := tx.QueryRow(`SELECT need FROM requests WHERE job = ? AND idx = ?`, int64(id.Job), id.Index).Scan(&stored)
	if errors.Is(err, sql.ErrNoRows) {
		return false, noRequest(id)
	}
	if err != nil {
		return false, err
	}
	need, err := DecodeNeed(stored)
	return need.Longest() != 0 || len(need.Windows) > 0, err
}

// Bounds of a list of closed requests, because no index has those of one state and
// their number only grows.
const (
	closedExamined = 10_000
	closedListed   = 500
)

// RequestFilter chooses requests.
type RequestFilter struct {
	State op.State     // empty: the open ones
	After op.RequestID // only newer requests
	Limit int          // 0: no bound
	Bytes int          // none after the requests reach this weight; 0: no bound
}

// ReadRequests returns requests, oldest first. For a closed state they are among the
// newest 500 of the newest 10,000 requests.
func ReadRequests(tx *store.Tx, f RequestFilter) ([]op.Request, error) {
	state := f.State
	query := `SELECT job, idx FROM (SELECT r.job, r.idx
			FROM (SELECT job, idx FROM requests ORDER BY job DESC, idx DESC LIMIT ?) r
			JOIN steps s ON s.job = r.job AND s.idx = r.idx WHERE s.state = ?
				AND r.job > coalesce((SELECT last FROM archived_jobs a WHERE a.first <= r.job ORDER BY a.first DESC LIMIT 1), 0)
			ORDER BY r.job DESC, r.idx DESC LIMIT ?)
		ORDER BY job, idx`
	args := []any{closedExamined, string(state), closedListed}
	switch {
	case state.Open():
		query = `SELECT s.job, s.idx FROM steps s JOIN requests r ON s.job = r.job AND s.idx = r.idx
			WHERE s.state = ? AND s.state IN ('planned', 'pending_signature', 'authorized', 'dispatched') ORDER BY s.job, s.idx`
		args = []any{string(state)}
	case state == "":
		query = `SELECT r.job, r.idx FROM steps s JOIN requests r ON s.job = r.job AND s.idx = r.idx
			WHERE s.state IN ('planned', 'pending_signature', 'authorized', 'dispatched') ORDER BY r.job, r.idx`
		args = nil
	}
	ids, err := readStepIDs(tx, query, args...)
	if err != nil {
		return nil, err
	}
	var out []op.Request
	weight := 0
	for _, id := range ids {
		if id.Job < f.After.Job || id.Job == f.After.Job && id.Index <= f.After.Index {
			continue
		}
		r, err := ReadRequest(tx, id)
		if err != nil {
			return nil, err
		}
		weight += r.Weight()
		if out = append(out, r); len(out) == f.Limit || f.Bytes > 0 && weight >= f.Bytes {
			break
		}
	}
	return out, nil
}

// OutOfTime returns up to limit waiting requests after the request after whose
// signatures cannot count now. Their payload expired, lives for longer than longest,
// or was issued by a clock that was ahead and is set back now. Of an offline payload
// only the end counts, because an operator wrote it. Clocks may differ by skew.
func OutOfTime(tx *store.Tx, now time.Time, skew, longest time.Duration, after op.RequestID, limit int) ([]op.RequestID, error) {
	return readStepIDs(tx, `SELECT s.job, s.idx FROM steps s JOIN requests r ON s.job = r.job AND s.idx = r.idx
		WHERE s.state = 'pending_signature' AND s.state IN ('planned', 'pending_signature', 'authorized', 'dispatched')
			AND (s.job, s.idx) > (?, ?) AND (r.expires_at < ? OR r.expires_at - r.issued_at > ? OR r.issued_at > ? AND NOT r.offline)
		ORDER BY s.job, s.idx LIMIT ?`, int64(after.Job), after.Index, now.Add(-skew).UnixNano(), int64(longest), now.Add(skew).UnixNano(), limit)
}

func readStepIDs(tx *store.Tx, query string, args ...any) ([]op.StepID, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []op.StepID
	for rows.Next() {
		var id op.StepID
		if err := rows.Scan(&id.Job, &id.Index); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// ExpireRequests ends the time of every waiting payload, so that the gate issues
// each anew. After a restore they name a gate id that no longer exists.
func ExpireRequests(tx *store.Tx) error {
	_, err := tx.Exec(`UPDATE requests SET expires_at = 0 WHERE EXISTS (SELECT 1 FROM steps s
		WHERE s.job = requests.job AND s.idx = requests.idx AND s.state = 'pending_signature')`)
	return err
}

// Showing has the first and the last time when operators were shown the present
// payload of a request. After a pause the first time starts again.
type Showing struct {
	First, Last time.Time
}

// Show records that an operator was shown the payload of a request. If the first
// showing was at least pause ago, this one counts as a first one.
func Show(tx *store.Tx, id op.RequestID, now time.Time, pause time.Duration) error {
	_, err := tx.Exec(`INSERT INTO showings(job, idx, first_at, last_at) VALUES(?, ?, ?, ?)
		ON CONFLICT(job, idx) DO UPDATE SET last_at = max(last_at, excluded.last_at),
			first_at = iif(first_at <= excluded.first_at - ?, excluded.first_at, first_at)`,
		int64(id.Job), id.Index, now.UnixNano(), now.UnixNano(), int64(pause))
	return err
}

// ShownAt returns when the present payload of a request was shown. If it was not
// shown, ok is false.
func ShownAt(tx *store.Tx, id op.RequestID) (s Showing, ok bool, err error) {
	var first, last int64
	err = tx.QueryRow(`SELECT first_at, last_at FROM showings WHERE job = ? AND idx = ?`, int64(id.Job), id.Index).Scan(&first, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	return Showing{First: fromNano(first), Last: fromNano(last)}, err == nil, err
}

// ForgetShowing deletes the record, because the payload has changed.
func ForgetShowing(tx *store.Tx, id op.RequestID) error {
	_, err := tx.Exec(`DELETE FROM showings WHERE job = ? AND idx = ?`, int64(id.Job), id.Index)
	return err
}

// ShownRequests returns the requests with a record, oldest first.
func ShownRequests(tx *store.Tx, limit int) ([]op.RequestID, error) {
	return readStepIDs(tx, `SELECT job, idx FROM showings ORDER BY job, idx LIMIT ?`, limit)
}

// LastSigned returns when the newest signature of a request counted, the zero time
// if it has none.
func LastSigned(tx *store.Tx, id op.RequestID) (time.Time, error) {
	var at int64
	err := tx.QueryRow(`SELECT coalesce(max(at), 0) FROM signatures WHERE job = ? AND idx = ?`, int64(id.Job), id.Index).Scan(&at)
	return fromNano(at), err
}

// SchemaQuotas has what bounds a requester: the bytes that the gate wrote for it, in
// slots of SpentSlot, and its snapshots of each guest. The table showings has when
// operators were shown the payload of a request, because benign steps wait for that.
const SchemaQuotas = `
CREATE TABLE spent(
	who   TEXT NOT NULL,
	slot  INTEGER NOT NULL,
	bytes INTEGER NOT NULL CHECK (bytes > 0),
	PRIMARY KEY(who, slot)
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshots(
	kind     TEXT NOT NULL,
	name     TEXT NOT NULL,
	snapshot TEXT NOT NULL,
	who      TEXT NOT NULL,
	job      INTEGER NOT NULL,
	PRIMARY KEY(kind, name, snapshot)
) STRICT, WITHOUT ROWID;
CREATE TABLE showings(
	job      INTEGER NOT NULL,
	idx      INTEGER NOT NULL,
	first_at INTEGER NOT NULL,
	last_at  INTEGER NOT NULL CHECK (last_at >= first_at),
	PRIMARY KEY(job, idx),
	FOREIGN KEY(job, idx) REFERENCES requests(job, idx)
) STRICT, WITHOUT ROWID;
`

// SpentSlot is the length of a slot, in which a requester's bytes are counted
// together.
const SpentSlot = 5 * time.Minute

func slotOf(t time.Time) int64 { return t.UnixNano() / int64(SpentSlot) }

// Spend counts bytes, more than 0, that the gate wrote for a requester.
func Spend(tx *store.Tx, who string, now time.Time, bytes int64) error {
	_, err := tx.Exec(`INSERT INTO spent(who, slot, bytes) VALUES(?, ?, ?)
		ON CONFLICT(who, slot) DO UPDATE SET bytes = bytes + excluded.bytes`, who, slotOf(now), bytes)
	return err
}

// Spent returns how many bytes the gate wrote for a requester since then, to the
// precision of one slot.
func Spent(tx *store.Tx, who string, since time.Time) (n int64, err error) {
	err = tx.QueryRow(`SELECT coalesce(sum(bytes), 0) FROM spent WHERE who = ? AND slot > ?`, who, slotOf(since)).Scan(&n)
	return n, err
}

// ForgetSpent deletes up to limit slots that end before t.
func ForgetSpent(tx *store.Tx, t time.Time, limit int) error {
	_, err := tx.Exec(`DELETE FROM spent WHERE (who, slot) IN (SELECT who, slot FROM spent WHERE slot < ? ORDER BY slot LIMIT ?)`,
		slotOf(t), limit)
	return err
}

// AddSnapshot records for which requester a job took a snapshot. It replaces the
// record of an earlier snapshot of that name, which is gone.
func AddSnapshot(tx *store.Tx, t op.Target, snapshot, who string, job op.JobID) error {
	_, err := tx.Exec(`INSERT INTO snapshots(kind, name, snapshot, who, job) VALUES(?, ?, ?, ?, ?)
		ON CONFLICT(kind, name, snapshot) DO UPDATE SET who = excluded.who, job = excluded.job`, t.Kind, t.Name, snapshot, who, int64(job))
	return err
}

// SnapshotsBy returns the snapshots of a target that a requester took. Some of them
// may be gone.
func SnapshotsBy(tx *store.Tx, t op.Target, who string) ([]string, error) {
	rows, err := tx.Query(`SELECT snapshot FROM snapshots WHERE kind = ? AND name = ? AND who = ?`, t.Kind, t.Name, who)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, rows.Err()
}

// ForgetSnapshot deletes the record of a snapshot that is gone.
func ForgetSnapshot(tx *store.Tx, t op.Target, snapshot string) error {
	_, err := tx.Exec(`DELETE FROM snapshots WHERE kind = ? AND name = ? AND snapshot = ?`, t.Kind, t.Name, snapshot)
	return err
}
