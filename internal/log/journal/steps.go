package journal

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Wish digests what a step asks for: its operation, target, incarnation and
// parameters. The target's state is not in it, so the same wish later has the same
// digest.
func Wish(s op.Step) string {
	b := fmt.Appendf(nil, "%s\x00%s\x00%s\x00", s.Op, s.Target, s.Incarnation)
	return op.SHA256(append(b, s.Params.Canonical()...))
}

// AddStep inserts a step in the state it has.
func AddStep(tx *store.Tx, s op.Step) error {
	wish := Wish(s)
	_, err := tx.Exec(`INSERT INTO steps(job, idx, op, kind, name, incarnation, params, fingerprint, class, rule, why,
			state, birth, undoes, code, detail, wish, updated_at)
		VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(s.ID.Job), s.ID.Index, s.Op, s.Target.Kind, s.Target.Name, string(s.Incarnation), string(s.Params.Canonical()),
		string(s.Fingerprint), string(s.Verdict.Class), s.Verdict.Rule, s.Verdict.Why, string(s.State), s.Birth, s.Undoes,
		string(s.Code), s.Detail, wish, s.UpdatedAt.UnixNano())
	if err != nil {
		return fmt.Errorf("insert step: %w", err)
	}
	return overtake(tx, s, wish)
}

// overtake forgets the rejections of a destructive step's wish, if an operator rejected them before the step was added,
// or before it became destructive. A rejection of an older step that comes later counts. wish is Wish(s).
func overtake(tx *store.Tx, s op.Step, wish string) error {
	if s.Verdict.Class != op.Destructive {
		return nil
	}
	_, err := tx.Exec(`UPDATE steps SET wish = '' WHERE kind = ? AND name = ? AND state = 'rejected' AND wish <> '' AND wish = ?
		AND (job, idx) < (?, ?)`, s.Target.Kind, s.Target.Name, wish, int64(s.ID.Job), s.ID.Index)
	if err != nil {
		return fmt.Errorf("forget an older rejection: %w", err)
	}
	return nil
}

const stepColumns = `job, idx, op, kind, name, incarnation, params, fingerprint, class, rule, why, state, birth, undoes,
	task, attempts, code, detail, updated_at, before`

type scanner interface{ Scan(...any) error }

func scanStep(row scanner) (op.Step, error) {
	var s op.Step
	var params, before []byte
	var updated int64
	err := row.Scan(&s.ID.Job, &s.ID.Index, &s.Op, &s.Target.Kind, &s.Target.Name, &s.Incarnation, &params,
		&s.Fingerprint, &s.Verdict.Class, &s.Verdict.Rule, &s.Verdict.Why, &s.State, &s.Birth, &s.Undoes,
		&s.Task, &s.Attempts, &s.Code, &s.Detail, &updated, &before)
	if err != nil {
		return s, err
	}
	s.UpdatedAt = fromNano(updated)
	if len(before) > 0 {
		if err := json.Unmarshal(before, &s.Before); err != nil {
			return s, fmt.Errorf("decode what step %s found: %w", s.ID, err)
		}
	}
	s.Params, err = op.ParseParams(params)
	return s, err
}

func readSteps(tx *store.Tx, query string, args ...any) ([]op.Step, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []op.Step
	for rows.Next() {
		s, err := scanStep(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// ReadStep returns one step; UnknownTarget if there is none.
func ReadStep(tx *store.Tx, id op.StepID) (op.Step, error) {
	s, err := scanStep(tx.QueryRow(`SELECT `+stepColumns+` FROM steps WHERE job = ? AND idx = ?`, int64(id.Job), id.Index))
	if errors.Is(err, sql.ErrNoRows) {
		return s, refusal.New(refusal.UnknownTarget, "there is no step %s", id)
	}
	return s, err
}

// StepsOf returns a job's steps in order.
func StepsOf(tx *store.Tx, job op.JobID) ([]op.Step, error) {
	return readSteps(tx, `SELECT `+stepColumns+` FROM steps WHERE job = ? ORDER BY idx`, int64(job))
}

// OpenSteps returns a target's open steps, oldest first.
func OpenSteps(tx *store.Tx, t op.Target) ([]op.Step, error) {
	return readSteps(tx, `SELECT `+stepColumns+` FROM steps WHERE kind = ? AND name = ?
		AND state IN ('planned', 'pending_signature', 'authorized', 'dispatched') ORDER BY job, idx`, t.Kind, t.Name)
}

// InState returns every step in an open state, oldest first.
func InState(tx *store.Tx, state op.State) ([]op.Step, error) {
	return readSteps(tx, `SELECT `+stepColumns+` FROM steps WHERE state = ?
		AND state IN ('planned', 'pending_signature', 'authorized', 'dispatched') ORDER BY job, idx`, string(state))
}

// SchemaEnds has the index for the steps that destroyed an incarnation.
const SchemaEnds = `
CREATE INDEX steps_ends ON steps(incarnation, updated_at) WHERE op = 'guest.destroy';
`

// EndsOf returns the steps that may have destroyed an incarnation, newest first.
// These are the last one that succeeded, and later ones that the back end may have
// done although it reported a failure.
func EndsOf(tx *store.Tx, inc op.Incarnation) ([]op.Step, error) {
	all, err := readSteps(tx, `SELECT `+stepColumns+` FROM steps WHERE incarnation = ? AND op = 'guest.destroy'
		AND state IN ('dispatched', 'succeeded', 'interrupted', 'failed') ORDER BY updated_at DESC, job DESC, idx DESC`, string(inc))
	for i, s := range all {
		if s.State == op.StateSucceeded {
			return all[:max(i, 1)], err
		}
	}
	return all, err
}

// OpenOf returns the open steps of one operation, oldest first.
func OpenOf(tx *store.Tx, name string) ([]op.Step, error) {
	return readSteps(tx, `SELECT `+stepColumns+` FROM steps WHERE op = ?
		AND state IN ('planned', 'pending_signature', 'authorized', 'dispatched') ORDER BY job, idx`, name)
}

// OpenTargets returns every target with an open step.
func OpenTargets(tx *store.Tx) ([]op.Target, error) {
	rows, err := tx.Query(`SELECT DISTINCT kind, name FROM steps
		WHERE state IN ('planned', 'pending_signature', 'authorized', 'dispatched')`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []op.Target
	for rows.Next() {
		var t op.Target
		if err := rows.Scan(&t.Kind, &t.Name); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

// Rejected returns the newest step with which an operator rejected the wish of a step. If there is none, or a destructive
// step asked for the same after the rejection, ok is false.
func Rejected(tx *store.Tx, wish op.Step) (s op.Step, ok bool, err error) {
	s, err = scanStep(tx.QueryRow(`SELECT `+stepColumns+` FROM steps
		WHERE kind = ? AND name = ? AND wish = ? AND state = 'rejected' AND wish <> '' AND class = 'destructive'
		ORDER BY job DESC, idx DESC LIMIT 1`, wish.Target.Kind, wish.Target.Name, Wish(wish)))
	if errors.Is(err, sql.ErrNoRows) {
		return s, false, nil
	}
	return s, err == nil, err
}

// PendingOf returns how many steps of a requester wait for a signature.
func PendingOf(tx *store.Tx, who string) (n int, err error) {
	err = tx.QueryRow(`SELECT count(*) FROM steps s JOIN requesters r ON r.job = s.job
		WHERE s.state = 'pending_signature' AND s.state IN ('planned', 'pending_signature', 'authorized', 'dispatched')
			AND r.who = ?`, who).Scan(&n)
	return n, err
}

// nextTurn is one more than the turn of the step on the same target that began or ended last.
const nextTurn = `ifnull((SELECT max(o.turn) FROM steps o WHERE o.kind = steps.kind AND o.name = steps.name AND o.attempts > 0), 0) + 1`

// Move changes a step's state by compare-and-set, and reports whether the step was
// in the state from. If the transition does not allow the change, that is an error.
func Move(tx *store.Tx, id op.StepID, from op.State, t op.Transition, code refusal.Code, detail string, now time.Time) (bool, error) {
	if !t.Allows(from) {
		return false, fmt.Errorf("step %s is %s, and %q is no end of that", id, from, t.Entry)
	}
	n, err := tx.Exec(`UPDATE steps SET state = ?, code = ?, detail = ?, updated_at = ?, turn = iif(state = 'dispatched', `+nextTurn+`, turn)
		WHERE job = ? AND idx = ? AND state = ?`,
		string(t.To), string(code), detail, now.UnixNano(), int64(id.Job), id.Index, string(from))
	return n == 1, err
}

// Dispatch moves a step to dispatched by compare-and-set, and reports whether the
// step was in the state from. It stores what would take the step back and what the
// target had before (op.Step.Before).
func Dispatch(tx *store.Tx, id op.StepID, from op.State, undo string, before []string, now time.Time) (bool, error) {
	if !op.TransitionOf("dispatched").Allows(from) {
		return false, fmt.Errorf("step %s is %s, and cannot be dispatched", id, from)
	}
	text := ""
	if before != nil {
		b, err := json.Marshal(before)
		if err != nil {
			return false, fmt.Errorf("encode what step %s found: %w", id, err)
		}
		text = string(b)
	}
	n, err := tx.Exec(`UPDATE steps SET state = 'dispatched', undo = ?, before = ?, attempts = attempts + 1, code = '', detail = '',
			updated_at = ?, turn = `+nextTurn+` WHERE job = ? AND idx = ? AND state = ?`,
		undo, text, now.UnixNano(), int64(id.Job), id.Index, string(from))
	return n == 1, err
}

// Rebind records what an open step is about when that becomes known: the incarnation
// that an earlier step of the job made, and a verdict.
func Rebind(tx *store.Tx, s op.Step) error {
	wish := Wish(s)
	_, err := tx.Exec(`UPDATE steps SET incarnation = ?, fingerprint = ?, class = ?, rule = ?, why = ?, wish = ?
		WHERE job = ? AND idx = ?`, string(s.Incarnation), string(s.Fingerprint), string(s.Verdict.Class), s.Verdict.Rule,
		s.Verdict.Why, wish, int64(s.ID.Job), s.ID.Index)
	if err != nil {
		return err
	}
	return overtake(tx, s, wish)
}

// SetTask records the back end's task id of a dispatched step.
func SetTask(tx *store.Tx, id op.StepID, task string) error {
	_, err := tx.Exec(`UPDATE steps SET task = ? WHERE job = ? AND idx = ? AND state = 'dispatched'`,
		task, int64(id.Job), id.Index)
	return err
}

// Undo returns what Dispatch stored to take the step back, or "".
func Undo(tx *store.Tx, id op.StepID) (undo string, err error) {
	err = tx.QueryRow(`SELECT undo FROM steps WHERE job = ? AND idx = ?`, int64(id.Job), id.Index).Scan(&undo)
	return undo, err
}

// ForgetRejected lets a requester ask again for wishes for a target that an operator
// rejected, because the requester withdrew them since. The rejected wishes of other
// desired sets stay.
func ForgetRejected(tx *store.Tx, t op.Target, who string) error {
	_, err := tx.Exec(`UPDATE steps SET wish = '' WHERE kind = ? AND name = ? AND state = 'rejected' AND wish <> ''
		AND NOT EXISTS (SELECT 1 FROM requesters r WHERE r.job = steps.job AND r.source = 'desired' AND r.who <> ?)`,
		t.Kind, t.Name, who)
	return err
}

// HasRejected reports whether ForgetRejected would change anything.
func HasRejected(tx *store.Tx, t op.Target, who string) (has bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM steps WHERE kind = ? AND name = ? AND state = 'rejected' AND wish <> ''
		AND NOT EXISTS (SELECT 1 FROM requesters r WHERE r.job = steps.job AND r.source = 'desired' AND r.who <> ?))`,
		t.Kind, t.Name, who).Scan(&has)
	return has, err
}

// Busy reports whether a step of the target is dispatched.
func Busy(tx *store.Tx, t op.Target) (busy bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM steps WHERE kind = ? AND name = ? AND state = 'dispatched'
		AND state IN ('planned', 'pending_signature', 'authorized', 'dispatched'))`, t.Kind, t.Name).Scan(&busy)
	return busy, err
}

// HasOpen reports whether a target has an open step.
func HasOpen(tx *store.Tx, t op.Target) (has bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM steps WHERE kind = ? AND name = ?
		AND state IN ('planned', 'pending_signature', 'authorized', 'dispatched'))`, t.Kind, t.Name).Scan(&has)
	return has, err
}

// CountOpen returns how many open steps a target has.
func CountOpen(tx *store.Tx, t op.Target) (n int, err error) {
	err = tx.QueryRow(`SELECT count(*) FROM steps WHERE kind = ? AND name = ?
		AND state IN ('planned', 'pending_signature', 'authorized', 'dispatched')`, t.Kind, t.Name).Scan(&n)
	return n, err
}

// SchemaCopies has the index for the steps that made snapshots and backups of a
// target.
const SchemaCopies = `
CREATE INDEX steps_copies ON steps(kind, name, op, job, idx)
	WHERE op IN ('guest.snapshot', 'guest.backup') AND state = 'succeeded';
`

// CopyMadeBy returns the newest step of that operation that succeeded on a target
// and ran at some moment between the two times. If params is not nil, the step has
// exactly these. If there is no such step, the error is UnknownTarget.
func CopyMadeBy(tx *store.Tx, t op.Target, name string, params op.Params, from, to time.Time) (op.Step, error) {
	query := `SELECT ` + stepColumns + ` FROM steps
		WHERE op IN ('guest.snapshot', 'guest.backup') AND state = 'succeeded' AND kind = ? AND name = ? AND op = ?
			AND updated_at >= ? AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = steps.job AND j.created_at <= ?)`
	args := []any{t.Kind, t.Name, name, from.UnixNano(), to.UnixNano()}
	if params != nil {
		query += ` AND params = ?`
		args = append(args, string(params.Canonical()))
	}
	s, err := scanStep(tx.QueryRow(query+` ORDER BY job DESC, idx DESC LIMIT 1`, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return s, refusal.New(refusal.UnknownTarget, "no step made a copy of %s then", t)
	}
	return s, err
}

// SchemaRan has the index for the steps that ran on a target, by when they began or ended.
const SchemaRan = `
CREATE INDEX steps_ran ON steps(kind, name, updated_at) WHERE attempts > 0;
`

// SchemaTurn adds the order in which the steps on a target began and ended. Their times do not tell it: the clock of a daemon that starts may
// be behind what it guessed when it ran last.
const SchemaTurn = `
ALTER TABLE steps ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
UPDATE steps SET turn = updated_at WHERE attempts > 0;
DROP INDEX steps_ran;
CREATE INDEX steps_turn ON steps(kind, name, turn) WHERE attempts > 0;
`

// OthersSince returns a step of another job on the target of a step that succeeded, if one began or ended after it, or perhaps: of two steps
// from before schema 18 with the same time nobody knows which came first. With open, it also returns one that is open and whose job came
// later.
func OthersSince(tx *store.Tx, done op.Step, open bool) (other op.StepID, ok bool, err error) {
	t, job := done.Target, int64(done.ID.Job)
	err = tx.QueryRow(`SELECT job, idx FROM steps WHERE kind = ? AND name = ? AND job <> ? AND attempts > 0
			AND turn >= (SELECT d.turn FROM steps d WHERE d.job = ? AND d.idx = ?)
		UNION ALL SELECT job, idx FROM steps WHERE ? AND kind = ? AND name = ? AND job > ?
			AND state IN ('planned', 'pending_signature', 'authorized', 'dispatched') LIMIT 1`,
		t.Kind, t.Name, job, job, done.ID.Index, open, t.Kind, t.Name, job).Scan(&other.Job, &other.Index)
	if errors.Is(err, sql.ErrNoRows) {
		return other, false, nil
	}
	return other, err == nil, err
}

// Set is a named piece of desired state that an operator stored over the socket.
type Set struct {
	Name      string
	ETag      string // hex SHA-256 of Body
	Body      []byte // YAML, unchanged
	UpdatedAt time.Time
}

// PutSet stores a set and replaces one of the same name.
func PutSet(tx *store.Tx, s Set) error {
	_, err := tx.Exec(`INSERT INTO desired_sets(name, etag, body, updated_at) VALUES(?, ?, ?, ?)
		ON CONFLICT(name) DO UPDATE SET etag = excluded.etag, body = excluded.body, updated_at = excluded.updated_at`,
		s.Name, s.ETag, s.Body, s.UpdatedAt.UnixNano())
	return err
}

// ReadSet returns a set; UnknownTarget if there is none of that name.
func ReadSet(tx *store.Tx, name string) (Set, error) {
	s := Set{Name: name}
	var at int64
	err := tx.QueryRow(`SELECT etag, body, updated_at FROM desired_sets WHERE name = ?`, name).Scan(&s.ETag, &s.Body, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return s, refusal.New(refusal.UnknownTarget, "there is no desired set %q", name)
	}
	s.UpdatedAt = fromNano(at)
	return s, err
}

// SetHead is a set without its body.
type SetHead struct {
	Name, ETag string
	Bytes      int
	UpdatedAt  time.Time
}

// ReadSetHeads returns every set without its body, sorted by name.
func ReadSetHeads(tx *store.Tx) ([]SetHead, error) {
	rows, err := tx.Query(`SELECT name, etag, length(body), updated_at FROM desired_sets ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []SetHead
	for rows.Next() {
		var s SetHead
		var at int64
		if err := rows.Scan(&s.Name, &s.ETag, &s.Bytes, &at); err != nil {
			return nil, err
		}
		s.UpdatedAt = fromNano(at)
		out = append(out, s)
	}
	return out, rows.Err()
}

// ReadSets returns every set, sorted by name.
func ReadSets(tx *store.Tx) ([]Set, error) {
	rows, err := tx.Query(`SELECT name, etag, body, updated_at FROM desired_sets ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Set
	for rows.Next() {
		var s Set
		var at int64
		if err := rows.Scan(&s.Name, &s.ETag, &s.Body, &at); err != nil {
			return nil, err
		}
		s.UpdatedAt = fromNano(at)
		out = append(out, s)
	}
	return out, rows.Err()
}

// DeleteSet removes a set and reports whether it was there.
func DeleteSet(tx *store.Tx, name string) (bool, error) {
	n, err := tx.Exec(`DELETE FROM desired_sets WHERE name = ?`, name)
	return n == 1, err
}
