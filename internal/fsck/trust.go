package fsck

import (
	"fmt"

	"gated/internal/op"
)

// trust checks that every version of the trust file is one that the log tells
// of, and that none is missing: who may approve is as good as an approval.
func (c *check) trust() error {
	next := int64(1)
	err := c.each(`SELECT epoch, text FROM trust ORDER BY epoch`, func(scan func(...any) error) error {
		var epoch int64
		var text []byte
		if err := scan(&epoch, &text); err != nil {
			return err
		}
		c.report.Checked["trust versions"]++
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
		return nil
	})
	if last := next - 1; err == nil && int64(len(c.log.trusts)) > last {
		c.found(trustLost, fmt.Sprintf("trust epoch %d", last), "the log tells of a later one")
	}
	return err
}
