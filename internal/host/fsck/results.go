package fsck

import (
	"crypto/sha256"
	"maps"
	"slices"

	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// print follows the output of steps that have ended.
func (c *check) print(id op.StepID, e audit.Entry) {
	switch e.Kind {
	case audit.Succeeded, audit.Failed, audit.Interrupted:
		if e.Digest != "" {
			c.log.printed[id] = digestOf(e.Digest)
		}
	}
}

// outputs checks that the output of each step has the digest in the log, and that
// none is missing.
func (c *check) outputs() error {
	var id op.StepID
	var text []byte
	err := c.rows("outputs", `SELECT job, idx, text FROM outputs`, []any{&id.Job, &id.Index, &text}, func() {
		switch digest, known := c.log.printed[id]; {
		case !known:
			c.found(outputUnknown, id.String(), "by the audit log it printed nothing")
		case digest != sha256.Sum256(text):
			c.found(outputChanged, id.String(), "what it printed is not what the log has the digest of")
		}
		delete(c.log.printed, id)
	})
	for _, id := range stepsOf(c.log.printed) {
		c.found(outputLost, id.String(), "the log has the digest of what it printed, and that is not there")
	}
	return err
}

// provenance compares the journal's records of makers with the log.
func (c *check) provenance() error {
	err := journal.AllProvenance(c.tx, func(p op.Provenance) error {
		c.report.Checked["incarnations"]++
		where := p.Target.String() + " " + string(p.Incarnation)
		if made, ok := c.log.made[p.Incarnation]; ok {
			c.origin(where, p, made)
		} else {
			c.found(madeUnknown, where, "the audit log does not contain that this gate made it")
		}
		delete(c.log.made, p.Incarnation)
		return nil
	})
	for _, inc := range slices.Sorted(maps.Keys(c.log.made)) {
		c.found(madeLost, c.log.made[inc].target+" "+string(inc), "the audit log says that this gate made it, the journal does not")
	}
	return err
}

func (c *check) origin(where string, p op.Provenance, made making) {
	if made.Scratch != p.Scratch || !made.ScratchUntil.Equal(p.ScratchUntil) || !made.CreatedAt.Equal(p.CreatedAt) ||
		made.Creator != p.Creator || made.Agent != p.Agent || made.job != p.Job.String() || made.target != p.Target.String() || made.Content != p.Content {
		c.found(madeChanged, where, "the audit log says otherwise how it was made")
	}
	if c.log.promoted[p.Incarnation] != (p.ScratchEnded != "") {
		c.found(scratchEnd, where, "the audit log says otherwise whether it still is scratch")
	}
	if c.log.used[p.Incarnation] != (p.Used != "") {
		c.found(usedChanged, where, "the audit log says otherwise whether its own job may take it back")
	}
	for _, s := range p.Storage {
		if !slices.Contains(made.Storage, s.ID) || s.Job != p.Job {
			c.found(storageUnknown, where, "the audit log does not contain that storage %s was made for it", s.ID)
		}
	}
	if len(p.Storage) < len(made.Storage) {
		c.found(storageLost, where, "storage is missing that the audit log says was made for it")
	}
}
