package fsck

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/audit"
	"gated/internal/op"
)

// history is what the audit log says happened. It holds only what the other
// checks compare with: a log of a million entries fits into memory.
type history struct {
	steps    map[op.StepID]life
	approved map[op.StepID]approval
	counted  map[op.StepID]tally // of what is not approved
	reissued map[op.StepID]bool
	needs    map[op.StepID]string // what rules asked beyond the catalogue
	issued   map[op.StepID]issue  // what people were asked, last
	printed  map[op.StepID][sha256.Size]byte
	since    int64               // when the epoch began, in Unix seconds
	trusts   map[int64]string    // the digest of each epoch of the trust file
	wanted   map[op.JobID]string // who asks for a job, a line each, sorted
	names    map[string]string   // each text of wanted once: most jobs share theirs

	roll   roll
	held   map[op.ReservationID]claim // what is in force
	scopes map[op.StepID]string       // the targets of steps on reservations

	withdrawn map[op.JobID]bool // one of several requesters did
	made      map[op.Incarnation]making
	promoted  map[op.Incarnation]bool
	used      map[op.Incarnation]bool
	gate      op.GateID            // of the newest entry
	gates     map[op.GateID]bool   // of all
	keys      map[op.GateID]string // the public key of each
	keyed     op.GateID            // the newest one that has a key
	epoch     int64                // of the trust file, in force
	sets      map[string]string    // the digest of each set of desired state
	last      int64                // its number
	at        time.Time            // and its time
	trusted   time.Time            // the latest entry that was made by a believed clock
}

// life is how far the log has followed a step.
type life struct {
	state op.State
	ran   bool // it was dispatched as a destructive step
	class op.Class
	asks  [sha256.Size]byte // its operation and target, and its parameters where the log has them
	takes int               // the index of the step that it takes back, or 0
	words [16]byte          // the rule that decided its class, and its reason; zero where the log does not say
	whole bool              // asks has the parameters
}

// approval is what the log says was approved, and by whom.
type approval struct {
	payload string
	signers [sha256.Size]byte
	when
}

// issue is what was issued for people to sign, and what they were shown beside
// it; zero where the log does not say.
type issue struct{ payload, shown [sha256.Size]byte }

// digestOf decodes a digest in hex, to half of its size; of anything else it is
// the zero one.
func digestOf(text string) (sum [sha256.Size]byte) {
	if len(text) == 2*len(sum) {
		_, _ = hex.Decode(sum[:], []byte(text)) // what it does not decode is no digest of anything
	}
	return sum
}

// tally is the signatures and proofs that a request has, sorted.
type tally struct {
	words []string
	when
}

// when is the moment at which signatures were counted.
type when struct {
	epoch int64 // of the trust file; 0 where the log does not know any
	unix  int64 // Unix seconds
	since int64 // when that epoch began, in Unix seconds
}

// making is what the log says of how an incarnation came to be.
type making struct {
	audit.Made
	job, target string
}

func newHistory() history {
	return history{steps: map[op.StepID]life{}, approved: map[op.StepID]approval{}, counted: map[op.StepID]tally{},
		reissued: map[op.StepID]bool{}, needs: map[op.StepID]string{}, issued: map[op.StepID]issue{}, printed: map[op.StepID][sha256.Size]byte{}, trusts: map[int64]string{},
		roll: newRoll(), held: map[op.ReservationID]claim{}, scopes: map[op.StepID]string{},
		wanted: map[op.JobID]string{}, names: map[string]string{}, withdrawn: map[op.JobID]bool{},
		made: map[op.Incarnation]making{}, promoted: map[op.Incarnation]bool{}, used: map[op.Incarnation]bool{},
		gates: map[op.GateID]bool{}, keys: map[op.GateID]string{}, sets: map[string]string{}}
}

// auditLog walks the log and keeps what the other checks compare with. Where
// the log is not whole, what is left of it is read all the same: it still shows
// which steps nobody decided.
func (c *check) auditLog() error {
	if err := c.tx.QueryRow(`SELECT count(*) FROM audit`).Scan(&c.entries); err != nil {
		return err
	}
	_, err := audit.Verify(c.tx, func(e audit.Entry) error { c.learn(e); return nil })
	var broken *audit.BrokenError
	switch {
	case errors.As(err, &broken):
		c.found(entryBroken, fmt.Sprintf("entry %d", broken.Seq), "%s", broken.Why)
	case errors.Is(err, op.Malformed):
		c.found(headUnreadable, "signed head", "%s", op.AsRefusal(err).Detail)
	default:
		return err
	}
	var seq int64
	var body []byte
	return c.rows("", `SELECT seq, body FROM audit ORDER BY seq`, []any{&seq, &body}, func() {
		var e audit.Entry
		if seq > c.log.last && json.Unmarshal(body, &e) == nil {
			e.Seq = seq
			c.learn(e)
		}
	})
}

// learn takes in an entry.
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
		c.log.trusts[e.Epoch], c.log.epoch, c.log.since = e.Digest, e.Epoch, e.Time.Unix()
	}
	c.log.believe(e)
	switch e.Kind {
	case audit.Restored, audit.TimeAccepted: // ends every registration and reservation
		c.log.roll.clear()
		clear(c.log.held)
	case audit.AgentRegistered, audit.AgentEnded:
		if c.has("agents") {
			c.enrol(e)
		}
	case audit.Reserved, audit.Renewed, audit.Transferred, audit.Released, audit.Lapsed, audit.Orphaned:
		if c.has("agents") { // who they are is not known otherwise
			c.hold(e)
		}
	default:
		if c.has("steps") {
			c.decided(e)
		}
	}
}

// make follows what was made, what is scratch no more, and what its own job may
// not take back any more.
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

// decided follows what an entry says of a step, if it is about one.
func (c *check) decided(e audit.Entry) {
	t := op.TransitionOf(string(e.Kind))
	ok := t.To != ""
	// A refusal that ended a step says the step's class; one of a caller who was
	// refused something does not.
	if !ok && !beside[e.Kind] || e.Step == "" || e.Kind == audit.Refused && e.Class == "" {
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
	if !ok {
		return
	}
	c.print(id, e)
	if e.Kind == audit.Requested || e.Kind == audit.Reissued {
		c.log.issued[id] = issue{digestOf(e.Payload), digestOf(e.Digest)}
		delete(c.log.needs, id)
		if e.Need != "" {
			c.log.needs[id] = e.Need
		}
	}
	c.follow(id, e, t)
}

// follow moves a step as an entry says, and reports a move that cannot be.
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

// beside lists the entries about a step that say nothing of its state.
var beside = map[audit.Kind]bool{audit.Joined: true, audit.Withdrawn: true, audit.Uncounted: true}

// digestWords digests a list, so that no text of one element is that of two.
func digestWords(words []string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q", words))
}
