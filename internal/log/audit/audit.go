// Package audit is the append-only log of every decision. Each entry has the hash of
// the one before, so Verify finds an entry that was changed, removed or moved. The
// head is stored apart, so Verify also finds that the newest entries are missing.
//
// The log is also a Merkle tree, whose head the gate signs. The holder of an old
// head can demand a proof that the log still begins with the same entries.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Schema is the log's tables. The row id of audit is the sequence number.
const Schema = `
CREATE TABLE audit(
	seq  INTEGER PRIMARY KEY,
	body BLOB NOT NULL,
	hash BLOB NOT NULL
) STRICT;
CREATE TABLE audit_head(
	id   INTEGER PRIMARY KEY CHECK (id = 1),
	seq  INTEGER NOT NULL,
	hash BLOB NOT NULL
) STRICT;
`

// Kind says what the gate decided or did.
type Kind string

// The kinds of entries.
const (
	Started     Kind = "started"     // the daemon serves
	Stopped     Kind = "stopped"     // the daemon stopped cleanly
	Trusted     Kind = "trusted"     // revoked keys and policy were loaded
	Rotated     Kind = "rotated"     // the allowed signers changed; Keys says how
	Uncounted   Kind = "uncounted"   // signatures that counted no longer do
	Planned     Kind = "planned"     // a benign step was accepted
	Requested   Kind = "requested"   // a destructive step waits for a signature
	Joined      Kind = "joined"      // another requester wants the same
	Reissued    Kind = "reissued"    // a request got a new payload
	Signed      Kind = "signed"      // a signature counted, more are needed
	Approved    Kind = "approved"    // a step is authorized
	Rejected    Kind = "rejected"    // an operator refused
	Withdrawn   Kind = "withdrawn"   // one of several requesters withdrew; the others still want it
	Cancelled   Kind = "cancelled"   // its requester withdrew, or its job can no longer succeed
	Superseded  Kind = "superseded"  // the wish or the target has changed
	Expired     Kind = "expired"     // the time for the authorization ended
	Refused     Kind = "refused"     // the gate refused; Code says why
	Dispatched  Kind = "dispatched"  // a step was handed to its driver
	Succeeded   Kind = "succeeded"   // the step was done
	Failed      Kind = "failed"      // the step was not done
	Retried     Kind = "retried"     // a benign step goes back to planned
	Interrupted Kind = "interrupted" // the driver cannot tell whether the step was done
	Compensated Kind = "compensated" // a step was added that takes an earlier one back
	Promoted    Kind = "promoted"    // a target is no longer scratch
	Used        Kind = "used"        // the job that made it may no longer take it back unsigned
	DesiredPut  Kind = "desired-put"
	DesiredGone Kind = "desired-deleted"
	Restored    Kind = "restored" // the state came from a backup
	Canary      Kind = "canary"   // the result of watching the decisions after a change
	Keyed       Kind = "keyed"    // the gate made a key for the heads of this log
	Reviewed    Kind = "reviewed" // an operator's signature closed incidents of break-glass
	Archived    Kind = "archived" // a segment file has entries and jobs that the database may delete now

	TimeAccepted Kind = "time-accepted" // the state's owner says that the clock is right; the gate id is new

	LedgerLost Kind = "ledger-lost" // the ledger is lost, and the gate goes on from one member's database; its id is new

	AgentRegistered Kind = "agent-registered" // a name is now bound to a process or a token
	AgentEnded      Kind = "agent-ended"      // its process ended, or the agent gave the name up
	Reserved        Kind = "reserved"         // an agent has paths alone, or shares them
	Renewed         Kind = "renewed"          // a reservation lasts longer
	Released        Kind = "released"         // by its holder, or by a step that operators signed
	Transferred     Kind = "transferred"      // another agent has it now; For names both
	Lapsed          Kind = "lapsed"           // its time ended
	Orphaned        Kind = "orphaned"         // its holder's process ended
	Lapsing         Kind = "lapsing"          // its time ends soon
)

// Entry is one decision. Empty members are left out of the stored body. Detail is
// for people, and no program reads it.
type Entry struct {
	Seq         int64          `json:"seq"`
	Time        time.Time      `json:"time"`
	Kind        Kind           `json:"kind"`
	By          string         `json:"by,omitempty"`  // uid:1000, desired:web, gate
	PID         int32          `json:"pid,omitzero"`  // of the caller, if there is one
	Job         string         `json:"job,omitempty"` // j12
	Step        string         `json:"step,omitempty"`
	Op          string         `json:"op,omitempty"`
	Target      string         `json:"target,omitempty"`
	Incarnation op.Incarnation `json:"incarnation,omitempty"`
	Class       op.Class       `json:"class,omitempty"`
	Rule        string         `json:"rule,omitempty"`
	Why         string         `json:"why,omitempty"`    // the rule's reason
	Params      op.Params      `json:"params,omitempty"` // of the step
	Reason      string         `json:"reason,omitempty"` // the requester's; of Signed and Approved, the approver's in the words of the caller
	Code        refusal.Code   `json:"code,omitempty"`
	Stage       refusal.Stage  `json:"stage,omitempty"`
	Detail      string         `json:"detail,omitempty"`
	Payload     string         `json:"payload_sha256,omitempty"`
	Signers     []string       `json:"signers,omitempty"` // op.Signed.String of each
	Keys        []string       `json:"keys,omitempty"`    // + or -, principal, roles, fingerprint
	Need        string         `json:"need,omitempty"`    // what rules ask beyond the built-in demand, as the journal stores it
	Count       int            `json:"count,omitzero"`    // of refusals in one entry
	Made        *Made          `json:"made,omitempty"`
	Reservation string         `json:"reservation,omitempty"` // r12
	Patterns    []string       `json:"patterns,omitempty"`    // of the reservation, as they were understood; of reserved all
	Of          int            `json:"of,omitzero"`           // how many patterns there are, if not all are here
	Mode        string         `json:"mode,omitempty"`        // exclusive or shared
	Holder      string         `json:"holder,omitempty"`      // after the entry: an agent's name, or uid:1000
	Until       time.Time      `json:"until,omitzero"`        // when the reservation ends
	For         []string       `json:"for,omitempty"`         // the agents that it concerns, by name
	Policy      string         `json:"policy,omitempty"`      // digest of the policy in force
	Revoked     string         `json:"revoked,omitempty"`     // authz.Trust.RevokedDigest
	Revokes     *bool          `json:"revokes,omitempty"`     // of started and trusted: whether keys are revoked, or may be
	Version     string         `json:"version,omitempty"`     // of the program
	Schema      int            `json:"schema,omitzero"`       // of the database
	Change      int64          `json:"change,omitzero"`       // of canary: the entry after which the canary watched
	Verdict     string         `json:"verdict,omitempty"`     // of canary: passed, alert or expired
	Parts
	Gate op.GateID `json:"gate,omitempty"`
	Prev string    `json:"prev"` // hash of the entry before, hex
}

// Made records provenance in the log, so that forged rows of the journal can be
// found.
type Made struct {
	Creator      string         `json:"creator,omitempty"`
	Agent        string         `json:"agent,omitempty"`
	CreatedAt    time.Time      `json:"created_at,omitzero"` // its age counts from then
	Scratch      bool           `json:"scratch,omitzero"`
	ScratchUntil time.Time      `json:"scratch_until,omitzero"`
	Storage      []op.StorageID `json:"storage,omitempty"`
	Content      string         `json:"content,omitempty"` // op.Observed.Content at its making
}

// Head is the newest entry's number and hash. The zero head is the head of an empty
// log.
type Head struct {
	Seq  int64
	Hash string // hex SHA-256
}

// Append writes new entries in their order, and sets Seq and Prev. It returns the
// last sequence number.
func Append(tx *store.Tx, entries ...Entry) (int64, error) {
	end := ends.In(tx)
	if end == nil {
		return 0, fmt.Errorf("append audit entry: %w", store.ErrReadOnly)
	}
	if !end.known {
		head, err := last(tx)
		if err != nil {
			return 0, err
		}
		*end = logEnd{known: true, from: head.Seq, head: head}
	}
	for _, e := range entries {
		if err := end.append(tx, e); err != nil {
			return end.head.Seq, err
		}
	}
	return end.head.Seq, nil
}

// logEnd is the end of the log as a group leaves it, so that the group reads none of
// its own entries back.
type logEnd struct {
	known  bool
	from   int64 // the newest entry before the group's first
	head   Head
	leaves []tlog.Hash // of the group's entries
}

var ends store.Memory[logEnd]

// append writes e as the newest entry.
func (end *logEnd) append(tx *store.Tx, e Entry) error {
	e.Seq, e.Prev, e.Time = end.head.Seq+1, end.head.Hash, e.Time.UTC()
	body, err := e.encode()
	if err == nil {
		err = e.Kind.fits(len(body))
	}
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	if _, err := tx.Exec(`INSERT INTO audit(seq, body, hash) VALUES(?, ?, ?)`, e.Seq, body, sum[:]); err != nil {
		return fmt.Errorf("append audit entry: %w", err)
	}
	end.head = Head{Seq: e.Seq, Hash: hex.EncodeToString(sum[:])}
	end.leaves = append(end.leaves, tlog.RecordHash(body))
	return nil
}

// ReadHead returns the newest entry's number and hash.
func ReadHead(tx *store.Tx) (Head, error) { return last(tx) }

// last returns the newest entry, or the recorded head if the log is shorter or
// contradicts it. So new entries cannot hide that entries were cut off or changed,
// because Verify misses them before the new ones.
func last(tx *store.Tx) (Head, error) {
	var newest, recorded int64
	var newestHash, recordedHash []byte
	// Scalar queries: a sorted union would make a temporary table for every entry.
	err := tx.QueryRow(`SELECT coalesce((SELECT max(seq) FROM audit), 0), (SELECT hash FROM audit ORDER BY seq DESC LIMIT 1),
		coalesce((SELECT seq FROM audit_head WHERE id = 1), 0), (SELECT hash FROM audit_head WHERE id = 1)`).
		Scan(&newest, &newestHash, &recorded, &recordedHash)
	if recorded >= newest {
		newest, newestHash = recorded, recordedHash
	}
	return Head{Seq: newest, Hash: hex.EncodeToString(newestHash)}, err
}

// After returns up to limit entries with a number above after, oldest first.
func After(tx *store.Tx, after int64, limit int) ([]Entry, error) {
	bodies, err := Bodies(tx, after, limit)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(bodies))
	for i, body := range bodies {
		if out[i], err = Decode(body); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Newest returns the newest entry of some kinds, the zero entry if there is none. It reads from the end. Of entries in segments, it
// knows those that KeptEntries returns.
func Newest(tx *store.Tx, kinds ...Kind) (Entry, error) {
	const page = 512
	head, err := last(tx)
	if err != nil {
		return Entry{}, err
	}
	bound, err := Bound(tx)
	for end := head.Seq; err == nil && end > bound.Seq; end -= page {
		after := max(end-page, bound.Seq)
		var entries []Entry
		if entries, err = After(tx, after, int(end-after)); err != nil {
			break
		}
		for _, e := range slices.Backward(entries) {
			if slices.Contains(kinds, e.Kind) {
				return e, nil
			}
		}
	}
	if err != nil {
		return Entry{}, err
	}
	kept, err := KeptEntries(tx)
	for _, e := range slices.Backward(kept) {
		if slices.Contains(kinds, e.Kind) {
			return e, err
		}
	}
	return Entry{}, err
}

// Bodies is After with the stored text of each entry, which its hash covers.
func Bodies(tx *store.Tx, after int64, limit int) ([][]byte, error) {
	return BodiesOf(tx, after, limit, 0)
}

// BodiesOf is Bodies up to the entry that reaches so many bytes; 0 means no bound. If entries are in segments alone, after 0 it
// begins with the oldest one that the database has; after another number of them it refuses, because entries would be left out.
func BodiesOf(tx *store.Tx, after int64, limit, bytes int) ([][]byte, error) {
	rows, err := tx.Query(`SELECT seq, body FROM audit WHERE seq > ? ORDER BY seq LIMIT ?`, after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out [][]byte
	has := 0
	for rows.Next() {
		var seq int64
		var body []byte
		if err := rows.Scan(&seq, &body); err != nil {
			return nil, err
		}
		if len(out) == 0 && seq != after+1 {
			if err := archivedAfter(tx, after); err != nil {
				return nil, err
			}
		}
		out = append(out, body)
		if has += len(body); bytes > 0 && has >= bytes {
			break
		}
	}
	if err := rows.Err(); err != nil || len(out) > 0 {
		return out, err
	}
	return nil, archivedAfter(tx, after)
}

// archivedAfter refuses, as UnknownTarget, to read on after an entry if the next ones are in segments alone. After 0 a reader
// begins with what there is.
func archivedAfter(tx *store.Tx, after int64) error {
	if after <= 0 {
		return nil
	}
	bound, err := Bound(tx)
	if err != nil || after >= bound.Seq {
		return err
	}
	return refusal.New(refusal.UnknownTarget, "entries 1 to %d are archived in segment files", bound.Seq).
		WithHint("read on after %d; gated archive show prints the ones before", bound.Seq)
}
