package fsck

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"gated/internal/audit"
	"gated/internal/op"
)

// print follows what a step printed that has ended.
func (c *check) print(id op.StepID, e audit.Entry) {
	switch e.Kind {
	case audit.Succeeded, audit.Failed, audit.Interrupted:
		if e.Digest != "" {
			c.log.printed[id] = digestOf(e.Digest)
		}
	}
}

// outputs checks that what is shown as printed by a step is what the log has the
// digest of, and that none of it is missing.
func (c *check) outputs() error {
	err := c.each(`SELECT job, idx, text FROM outputs`, func(scan func(...any) error) error {
		var id op.StepID
		var text []byte
		if err := scan(&id.Job, &id.Index, &text); err != nil {
			return err
		}
		c.report.Checked["outputs"]++
		switch digest, known := c.log.printed[id]; {
		case !known:
			c.found(outputUnknown, id.String(), "by the audit log it printed nothing")
		case digest != sha256.Sum256(text):
			c.found(outputChanged, id.String(), "what it printed is not what the log has the digest of")
		}
		delete(c.log.printed, id)
		return nil
	})
	var lost []op.StepID
	for id := range c.log.printed {
		lost = append(lost, id)
	}
	slices.SortFunc(lost, func(a, b op.StepID) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index)) })
	for _, id := range lost {
		c.found(outputLost, id.String(), "the log has the digest of what it printed, and that is not there")
	}
	return err
}
