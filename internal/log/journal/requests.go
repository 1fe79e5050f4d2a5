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

// ReadRequest returns a request with its step, requesters and signatures;
// UnknownTarget if there is none.
func ReadRequest(tx *store.Tx, id op.RequestID) (op.Request, error) {
	s, err := ReadStep(tx, id)
	if errors.Is(err, refusal.UnknownTarget) {
		return op.Request{ID: id}, noRequest(id)
	}
	if err != nil {
		return op.Request{ID: id}, err
	}
	return RequestOf(tx, s)
}

func noRequest(id op.RequestID) error {
	return refusal.New(refusal.UnknownTarget, "there is no request %s", id).WithHint("opsign list shows what waits")
}

// RequestOf is ReadRequest for a step that was read in the same transaction.
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
		return r, noRequest(id)
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
	if r.Requesters, err = Requesters(tx, id.Job); err != nil {
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
	return need.CoolOff != 0 || len(need.Windows) > 0, err
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
			JOIN steps s ON s.job = r.job AND s.idx = r.idx WHERE s.state = ? ORDER BY r.job DESC, r.idx DESC LIMIT ?)
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
