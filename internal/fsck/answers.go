package fsck

import (
	"maps"
	"slices"
	"strings"

	"gated/internal/audit"
	"gated/internal/op"
)

// answers checks what a repeated submission would be told: the job that it made,
// or the refusal that it got.
func (c *check) answers() error {
	return c.each(`SELECT i.caller, i.job, i.code, EXISTS(SELECT 1 FROM jobs j WHERE j.id = i.job) FROM idempotency i`, func(scan func(...any) error) error {
		var caller, code string
		var job op.JobID
		var there bool
		if err := scan(&caller, &job, &code, &there); err != nil {
			return err
		}
		c.report.Checked["answers"]++
		switch {
		case (job == 0) == (code == ""):
			c.found(answerUnclear, op.Shown(caller), "a key of it stands for a job and a refusal, or for neither")
		case job != 0 && !there:
			c.found(answerWithoutJob, op.Shown(caller), "a key of it stands for %s, which is not there", job)
		}
		return nil
	})
}

// put follows the sets of desired state: "NAME sha256:DIGEST".
func (c *check) put(e audit.Entry) {
	switch e.Kind {
	case audit.DesiredPut:
		if name, digest, ok := strings.Cut(e.Detail, " sha256:"); ok {
			c.log.sets[name] = digest
		} else {
			c.found(entryUnclear, entry(e), "it does not name a set and its digest")
		}
	case audit.DesiredGone:
		delete(c.log.sets, e.Detail)
	}
}

// sets checks that the wishes over the socket are those that were put.
func (c *check) sets() error {
	left := maps.Clone(c.log.sets)
	err := c.each(`SELECT name, etag, body FROM desired_sets`, func(scan func(...any) error) error {
		var name, etag string
		var body []byte
		if err := scan(&name, &etag, &body); err != nil {
			return err
		}
		c.report.Checked["desired sets"]++
		switch digest, known := left[name]; {
		case !known:
			c.found(setUnknown, "set "+op.Shown(name), "the audit log does not contain that somebody put it")
		case digest != etag || digest != op.SHA256(body):
			c.found(setChanged, "set "+op.Shown(name), "it is not the one that the audit log says was put")
		}
		delete(left, name)
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(left)) {
		c.found(setLost, "set "+op.Shown(name), "it was put by the audit log, and there is no row of it")
	}
	return err
}
