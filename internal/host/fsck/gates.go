package fsck

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
)

// begins lists the entries that begin a gate id after the log's first one. Older
// signatures no longer count then, so no other entry may change the id.
var begins = map[audit.Kind]bool{audit.Restored: true, audit.TimeAccepted: true, audit.LedgerLost: true}

// live follows the gate ids of the log. An entry without one does not depend on the
// id.
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

// identity checks that this state's gate wrote the newest entry.
func (c *check) identity() error {
	var gate op.GateID
	return c.rows("", `SELECT gate, host FROM gate_identity`, []any{&gate, &c.host}, func() {
		if c.log.gate != "" && gate != c.log.gate {
			c.found(gateNotNewest, "gate "+op.Shown(string(gate)), "the newest entries of the audit log are of the gate %s", op.Shown(string(c.log.gate)))
		}
	})
}

// keyed follows which keys sign the heads of the log. A gate id keeps its key for
// ever. If the row and the file of the key are removed, the gate makes a second key.
func (c *check) keyed(e audit.Entry) {
	if e.Kind != audit.Keyed {
		return
	}
	if was, has := c.log.keys[e.Gate]; has && was != e.HeadKey {
		c.found(keyChanged, fmt.Sprintf("audit entry %d", e.Seq), "gate %s made itself another key", op.Shown(string(e.Gate)))
	}
	c.log.keys[e.Gate], c.log.keyed = e.HeadKey, e.Gate
}

// keys checks that each gate id signs only with the key that the log names. The
// signed head must be of the newest id that has a key. auditLog has checked its
// signature, and that the log begins as it says.
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
		return nil // auditLog reports it
	}
	if newest := c.log.keyed; head.Gate != newest {
		c.found(headForeign, "signed head", "it is one of the gate %s, and the newest id with a key is %q", head.Gate, op.Shown(string(newest)))
	}
	return nil
}

// trust checks that the log has every version of the trust file, and that none is
// missing, because a forged version could approve everything.
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
				c.found(trustUnknown, where, "the log has no entry that makes it")
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

// maxAhead is how far an entry by a trusted clock may be ahead of the time mark.
// This is the hour that the clock may continue by itself before it is trusted again,
// and the second of the mark's precision.
const maxAhead = time.Hour + time.Second

// believe keeps the latest time of a trusted clock. While the gate does not trust
// its clock, the log continues by the time since boot, and the mark stops. The gate
// then approves no step, runs no signed step, and lets no scratch be destroyed
// unsigned. A new gate id begins with any time of its machine. A start of the daemon
// proves no time, because it may continue by the time since boot too.
func (h *history) believe(e audit.Entry) {
	taking := e.Kind == audit.Dispatched && (e.Class == op.Destructive || e.Op == "guest.destroy")
	switch {
	case begins[e.Kind]:
		h.trusted = time.Time{}
	case (e.Kind == audit.Approved || taking) && e.Time.After(h.trusted):
		h.trusted = e.Time
	}
}
