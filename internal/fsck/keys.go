package fsck

import (
	"fmt"
	"maps"
	"slices"

	"gated/internal/audit"
	"gated/internal/checkpoint"
	"gated/internal/op"
)

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
	err := c.each(`SELECT gate, public FROM audit_key`, func(scan func(...any) error) error {
		var gate op.GateID
		var public string
		if err := scan(&gate, &public); err != nil {
			return err
		}
		c.report.Checked["keys"]++
		switch said, known := left[gate]; {
		case !known:
			c.found(keyUnknown, "gate "+op.Shown(string(gate)), "the audit log does not contain that it made itself a key")
		case said != public:
			c.found(keyChanged, "gate "+op.Shown(string(gate)), "the audit log has another key for it")
		}
		delete(left, gate)
		return nil
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
	err := c.each(`SELECT note FROM audit_head`, func(scan func(...any) error) error { return scan(&note) })
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
