package fsck

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
)

// history is what the audit log says happened. It has only what other checks compare
// with, so a log of a million entries fits into memory.
type history struct {
	steps    map[op.StepID]life
	approved map[op.StepID]approval
	counted  map[op.StepID]tally // the signatures of steps that are not approved
	reissued map[op.StepID]bool
	needs    map[op.StepID]string // what rules asked for beyond the catalogue
	issued   map[op.StepID]issue  // the last payload that people were asked to sign
	printed  map[op.StepID][sha256.Size]byte
	rejected map[op.StepID]no
	schema   int                 // of the program that started last
	reborn   int64               // number of the last entry with which a new gate id began
	since    int64               // when the epoch began, in Unix seconds
	trusts   map[int64]string    // the digest of each version of the trust file
	wanted   map[op.JobID]string // the requesters of a job, one on a line, sorted
	names    map[string]string   // each text of wanted once, because most jobs have the same

	roll   roll
	held   map[op.ReservationID]claim // the reservations in force
	scopes map[op.StepID]string       // the targets of steps on reservations

	withdrawn map[op.JobID]bool   // one of several requesters withdrew
	left      map[op.JobID]string // the requester whose withdrawal ended a job
	made      map[op.Incarnation]making
	promoted  map[op.Incarnation]bool
	used      map[op.Incarnation]bool
	gate      op.GateID            // the gate of the newest entry
	gates     map[op.GateID]bool   // all gate ids
	keys      map[op.GateID]string // the public key of each gate id
	keyed     op.GateID            // the newest gate id that has a key
	epoch     int64                // the epoch of the trust file in force
	sets      map[string]string    // the digest of each set of desired state
	last      int64                // number of the last entry
	at        time.Time            // time of the last entry
	trusted   time.Time            // the latest entry by a trusted clock
}

// life is a step's history in the log so far.
type life struct {
	state op.State
	ran   bool // it was dispatched, as a destructive step
	class op.Class
	asks  [sha256.Size]byte // its operation and target, and its parameters if the log has them
	takes int               // the index of the step that it takes back, or 0
	words [16]byte          // the rule of its class and the reason; zero if the log does not say
	whole bool              // asks has the parameters
}

// approval is what the log says was approved, and by which signatures.
type approval struct {
	payload string
	signers [sha256.Size]byte
	when
}

// issue is what people were asked to sign, and what they saw beside it; zero if the
// log does not say.
type issue struct{ payload, shown [sha256.Size]byte }

// digestOf decodes a hex digest, to half of its size. If it cannot, it returns zero.
func digestOf(text string) (sum [sha256.Size]byte) {
	if len(text) == 2*len(sum) {
		_, _ = hex.Decode(sum[:], []byte(text)) // after an error, sum is the digest of nothing
	}
	return sum
}

// tally has the signatures and proofs of a request, sorted.
type tally struct {
	words []string
	when
}

// when is when signatures were counted.
type when struct {
	epoch int64 // of the trust file; 0 if the log has none
	unix  int64 // Unix seconds
	since int64 // when that epoch began, in Unix seconds
}

// making is how an incarnation was made, by the log.
type making struct {
	audit.Made
	job, target string
}

func newHistory() history {
	return history{steps: map[op.StepID]life{}, rejected: map[op.StepID]no{}, approved: map[op.StepID]approval{}, counted: map[op.StepID]tally{},
		reissued: map[op.StepID]bool{}, needs: map[op.StepID]string{}, issued: map[op.StepID]issue{}, printed: map[op.StepID][sha256.Size]byte{}, trusts: map[int64]string{},
		roll: newRoll(), held: map[op.ReservationID]claim{}, scopes: map[op.StepID]string{},
		wanted: map[op.JobID]string{}, names: map[string]string{}, withdrawn: map[op.JobID]bool{}, left: map[op.JobID]string{},
		made: map[op.Incarnation]making{}, promoted: map[op.Incarnation]bool{}, used: map[op.Incarnation]bool{},
		gates: map[op.GateID]bool{}, keys: map[op.GateID]string{}, sets: map[string]string{}}
}

// auditLog walks the log and keeps what other checks compare with. If the log is
// damaged, it still reads the rest, because that shows which steps have no decision.
func (c *check) auditLog() error {
	if err := c.tx.QueryRow(`SELECT count(*) FROM audit`).Scan(&c.entries); err != nil {
		return err
	}
	_, err := audit.Verify(c.tx, func(e audit.Entry) error { c.learn(e); return nil })
	var broken *audit.BrokenError
	switch {
	case errors.As(err, &broken):
		c.found(entryBroken, fmt.Sprintf("entry %d", broken.Seq), "%s", broken.Why)
	case errors.Is(err, refusal.Malformed):
		c.found(headUnreadable, "signed head", "%s", refusal.As(err).Detail)
	default:
		return err
	}
	var seq int64
	var body []byte
	return c.rows("", `SELECT seq, body FROM audit ORDER BY seq`, []any{&seq, &body}, func() {
		if seq <= c.log.last {
			return
		}
		if e, err := audit.Decode(body); err == nil {
			e.Seq = seq
			c.learn(e)
		}
	})
}

// learn adds an entry to the history.
func (c *check) learn(e audit.Entry) {
	c.report.Checked["audit entries"]++
	if done := c.report.Checked["audit entries"]; done%tellEvery == 0 {
		c.Progress(logPart, done, c.entries)
	}
	c.log.last, c.log.at = e.Seq, e.Time
	c.live(e)
	c.keyed(e)
	c.put(e)
	c.make(e)
	if e.Kind == audit.Rotated {
		f := e.SignersFile
		c.log.trusts[f.Epoch], c.log.epoch, c.log.since = f.SHA256, f.Epoch, e.Time.Unix()
	}
	c.log.believe(e)
	switch e.Kind {
	case audit.Started:
		c.log.schema = e.Schema
	case audit.Restored, audit.TimeAccepted, audit.LedgerLost: // ends all registrations and reservations
		c.log.reborn = e.Seq
		c.log.roll.clear()
		clear(c.log.held)
	case audit.AgentRegistered, audit.AgentEnded:
		if c.has("agents") {
			c.enrol(e)
		}
	case audit.Reserved, audit.Renewed, audit.Transferred, audit.Released, audit.Lapsed, audit.Orphaned:
		if c.has("agents") { // only the roll knows which agents they are
			c.hold(e)
		}
	default:
		if c.has("steps") {
			c.decided(e)
		}
	}
}

// make follows which incarnations were made, which are no longer scratch, and which
// their own job may no longer take back.
func (c *check) make(e audit.Entry) {
	if e.Kind == audit.Promoted {
		c.log.promoted[e.Incarnation] = true
	}
	if e.Kind == audit.Used {
		c.log.used[e.Incarnation] = true
	}
	if e.Made == nil {
		return
	}
	if _, again := c.log.made[e.Incarnation]; again {
		c.found(madeTwice, string(e.Incarnation), "the audit log says twice that it was made")
	}
	c.log.made[e.Incarnation] = making{*e.Made, e.Job, e.Target}
}

// decided follows what an entry says about a step, if it is about one.
func (c *check) decided(e audit.Entry) {
	t := op.TransitionOf(string(e.Kind))
	ok := t.To != ""
	if !ok && !beside[e.Kind] || !ofStep(e) {
		return
	}
	id, err := op.ParseStepID(e.Step)
	if err != nil {
		c.found(entryUnclear, entry(e), "it is about %q, which is no step", op.Shown(e.Step))
		return
	}
	if e.Kind == audit.Requested && (e.Op == op.ReleaseAll || e.Op == op.ForceTransfer) {
		c.log.scopes[id] = e.Target
	}
	c.log.want(id.Job, e)
	c.log.sign(id, e)
	c.log.reject(id, e)
	if !ok {
		return
	}
	c.print(id, e)
	if e.Kind == audit.Requested || e.Kind == audit.Reissued {
		c.log.issued[id] = issue{digestOf(e.Payload), digestOf(e.ShownSHA256)}
		delete(c.log.needs, id)
		if e.Need != "" {
			c.log.needs[id] = e.Need
		}
	}
	c.follow(id, e, t)
}

// ofStep reports whether an entry tells of a step. If a refusal ended one, it has the
// step's class. A refusal of a caller has none.
func ofStep(e audit.Entry) bool {
	return e.Step != "" && (e.Kind != audit.Refused || e.Class != "")
}

// follow moves a step as an entry says, and reports a move that is not possible.
func (c *check) follow(id op.StepID, e audit.Entry, t op.Transition) {
	l := c.log.steps[id]
	from, destructive := l.state, e.Class == op.Destructive
	switch {
	case e.Kind == audit.Dispatched && l.ran:
		c.found(dispatchedTwice, e.Step, "a destructive step was dispatched more than once (entry %d)", e.Seq)
	case e.Kind == audit.Dispatched && destructive && from != op.StateAuthorized:
		c.found(dispatchedUnapproved, e.Step, "it was dispatched without an approval in the audit log (entry %d)", e.Seq)
	case e.Kind == audit.Retried && l.ran:
		c.found(retriedDestructive, e.Step, "a destructive step was to run again (entry %d)", e.Seq)
	case !t.Allows(from):
		c.found(moveImpossible, e.Step, "entry %d says %s of a step that was %s", e.Seq, e.Kind, shown(from))
	}
	l.state, l.ran = t.To, l.ran || e.Kind == audit.Dispatched && destructive
	c.log.steps[id] = l.asked(e)
}

func shown(s op.State) string {
	if s == "" {
		return "not known"
	}
	return string(s)
}

// beside lists the entries about a step that do not change its state.
var beside = map[audit.Kind]bool{audit.Joined: true, audit.Withdrawn: true, audit.Uncounted: true}

// digestWords digests a list. Two different lists never digest the same text.
func digestWords(words []string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q", words))
}
