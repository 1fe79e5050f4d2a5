package fsck

import (
	"gated/internal/audit"
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
	return c.each(`SELECT gate, host FROM gate_identity`, func(scan func(...any) error) error {
		var gate op.GateID
		if err := scan(&gate, &c.host); err != nil {
			return err
		}
		if c.log.gate != "" && gate != c.log.gate {
			c.found(gateNotNewest, "gate "+op.Shown(string(gate)), "the newest entries of the audit log are of the gate %s", op.Shown(string(c.log.gate)))
		}
		return nil
	})
}
