package fsck

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"gated/internal/audit"
	"gated/internal/checkpoint"
	"gated/internal/op"
)

// begins lists the entries with which a gate id begins that is not the log's
// first: what was signed under the one before counts no more, so that nothing
// else may change it.
var begins = map[audit.Kind]bool{audit.Restored: true, audit.TimeAccepted: true}

// live follows under which gate ids the log was written. An entry without one is
// about nothing that a gate id is for.
func (c *check) live(e audit.Entry) {
	switch {
	case e.Gate == "" || e.Gate == c.log.gate:
		return
	case c.log.gate != "" && !begins[e.Kind]:
		c.found(gateUnexplained, entry(e), "it is of the gate %s, and nothing says why it is not of %s any more", op.Shown(string(e.Gate)), op.Shown(string(c.log.gate)))
	case c.log.gates[e.Gate]:
		c.found(gateReused, entry(e), "the gate %s had another id since, and has this one again", op.Shown(string(e.Gate)))
	}
	c.log.gates[e.Gate], c.log.gate = true, e.Gate
}

// identity checks that the gate whose state this is said to be is the one that
// wrote the newest entry.
func (c *check) identity() error {
	var gate op.GateID
	return c.rows("", `SELECT gate, host FROM gate_identity`, []any{&gate, &c.host}, func() {
		if c.log.gate != "" && gate != c.log.gate {
			c.found(gateNotNewest, "gate "+op.Shown(string(gate)), "the newest entries of the audit log are of the gate %s", op.Shown(string(c.log.gate)))
		}
	})
}

// keyed follows with which keys the gate ids sign the heads of the log. An id
// has one for ever: it makes itself a second one where somebody took away the
// row and the file of the first.
func (c *check) keyed(e audit.Entry) {
	if e.Kind != audit.Keyed {
		return
	}
	if was, has := c.log.keys[e.Gate]; has && was != e.Detail {
		c.found(keyChanged, fmt.Sprintf("audit entry %d", e.Seq), "gate %s made itself another key", op.Shown(string(e.Gate)))
	}
	c.log.keys[e.Gate], c.log.keyed = e.Detail, e.Gate
}

// keys checks that each gate id signs with the key that the log names and with
// no other, and that the signed head is one of the newest id that has a key. Its
// signature, and that the log begins as it says, auditLog has checked.
func (c *check) keys() error {
	left := maps.Clone(c.log.keys)
	var gate op.GateID
	var public string
	err := c.rows("keys", `SELECT gate, public FROM audit_key`, []any{&gate, &public}, func() {
		switch said, known := left[gate]; {
		case !known:
			c.found(keyUnknown, "gate "+op.Shown(string(gate)), "the audit log does not contain that it made itself a key")
		case said != public:
			c.found(keyChanged, "gate "+op.Shown(string(gate)), "the audit log has another key for it")
		}
		delete(left, gate)
	})
	if err != nil {
		return err
	}
	for _, gate := range slices.Sorted(maps.Keys(left)) {
		c.found(keyLost, "gate "+op.Shown(string(gate)), "the audit log has a key for it, and there is no row of it")
	}
	return c.signedHead()
}

func (c *check) signedHead() error {
	var note string
	err := c.rows("", `SELECT note FROM audit_head`, []any{&note}, func() {})
	if err != nil {
		return err
	}
	if note == "" {
		if c.log.keyed != "" {
			c.found(headUnsigned, "signed head", "the gate %s has a key, and signed nothing with it", op.Shown(string(c.log.keyed)))
		}
		return nil
	}
	head, err := checkpoint.Read(note)
	if err != nil {
		return nil // auditLog says so
	}
	if newest := c.log.keyed; head.Gate != newest {
		c.found(headForeign, "signed head", "it is one of the gate %s, and the newest id with a key is %q", head.Gate, op.Shown(string(newest)))
	}
	return nil
}

// trust checks that every version of the trust file is one that the log tells
// of, and that none is missing: who may approve is as good as an approval.
func (c *check) trust() error {
	next := int64(1)
	var epoch int64
	var text []byte
	err := c.rows("trust versions", `SELECT epoch, text FROM trust ORDER BY epoch`,
		[]any{&epoch, &text}, func() {
			where := fmt.Sprintf("trust epoch %d", epoch)
			switch digest, known := c.log.trusts[epoch]; {
			case epoch != next:
				c.found(trustGap, where, "the version before it is missing")
			case !known:
				c.found(trustUnknown, where, "the log does not say who made it")
			case digest != op.SHA256(text):
				c.found(trustChanged, where, "its text is not the one that the log tells of")
			}
			next = epoch + 1
		})
	if last := next - 1; err == nil && int64(len(c.log.trusts)) > last {
		c.found(trustLost, fmt.Sprintf("trust epoch %d", last), "the log tells of a later one")
	}
	return err
}

// maxAhead is how far an entry that was made by a believed clock may be ahead
// of the time mark: by the hour that the clock may have gone on by itself
// before it was believed again, and by the second to which the mark is kept.
const maxAhead = time.Hour + time.Second

// believe keeps the latest time that a believed clock showed. While the clock
// is in doubt, the log goes on by the time since boot, the mark stands still,
// and nothing is approved, run by signature or young enough to be destroyed
// without one. A new gate id begins with the time of its machine, which may be
// any. That a daemon started says nothing: in doubt, it goes on by the time since
// boot, too.
func (h *history) believe(e audit.Entry) {
	taking := e.Kind == audit.Dispatched && (e.Class == op.Destructive || e.Op == "guest.destroy")
	switch {
	case e.Kind == audit.Restored, e.Kind == audit.TimeAccepted:
		h.trusted = time.Time{}
	case (e.Kind == audit.Approved || taking) && e.Time.After(h.trusted):
		h.trusted = e.Time
	}
}
