package fsck

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// RejectionsSchema is the number of the daemon's first schema with the table of
// rejections. A program with an older one kept none.
const RejectionsSchema = 13

// rejectionsKept is how long a rejection is kept at least. It is the gate's time, less
// what the time mark may lag.
const rejectionsKept = 30*24*time.Hour - time.Hour

// no is the rejection of a request in the log.
type no struct {
	said [sha256.Size]byte // who signed it, and their words
	at   time.Time
	seq  int64
	kept bool // by a program that keeps rejections
}

// said digests who signed a rejection, and their words.
func said(by []string, words string) [sha256.Size]byte {
	return digestWords(append(slices.Clip(by), words))
}

// reject follows the rejections.
func (h *history) reject(id op.StepID, e audit.Entry) {
	if e.Kind != audit.Rejected {
		return
	}
	by := make([]string, len(e.Signers))
	for i, s := range e.Signers {
		by[i], _ = op.WhoSigned(s)
	}
	h.rejected[id] = no{said(by, e.Detail), e.Time, e.Seq, h.schema >= RejectionsSchema}
}

// remembered is a row of rejections, with its step and its requester.
type remembered struct {
	id                               op.StepID
	who, caller, wish, reason, words string
	by                               string // one on a line
	at                               int64
	known                            bool // the request has the requester
	asker                            op.Requester
	asked                            string // why, in its words
	step                             op.Step
	params                           []byte
}

const rememberedRows = `SELECT x.job, x.idx, x.who, x.caller, x.wish, x.reason, x.principal, x.words, x.at,
		r.who IS NOT NULL, coalesce(r.source, ''), coalesce(r.uid, 0), coalesce(r.agent, ''), coalesce(r.setname, ''),
		coalesce(r.reason, ''), s.op, s.kind, s.name, s.incarnation, s.params
	FROM rejections x JOIN steps s ON s.job = x.job AND s.idx = x.idx
	LEFT JOIN requesters r ON r.job = x.job AND r.who = x.who`

// rejections checks that each remembered rejection is one of the log, of that wish and
// of a requester of the request, for that requester's reason.
func (c *check) rejections() error {
	var x remembered
	r, s := &x.asker, &x.step
	err := c.rows("rejections", rememberedRows, []any{&x.id.Job, &x.id.Index, &x.who, &x.caller, &x.wish, &x.reason,
		&x.by, &x.words, &x.at, &x.known, &r.Source, &r.UID, &r.Agent, &r.Set, &x.asked,
		&s.Op, &s.Target.Kind, &s.Target.Name, &s.Incarnation, &x.params}, func() { c.rejection(x) })
	if err != nil {
		return err
	}
	return c.rejectionsLost()
}

func (c *check) rejection(x remembered) {
	where := x.id.String()
	n, rejected := c.log.rejected[x.id]
	var err error
	x.step.Params, err = op.ParseParams(x.params)
	switch {
	case !rejected || !x.known:
		c.found(rejectionUnknown, where, "the audit log does not contain that it was rejected, or that %s asked for it",
			op.Shown(x.who))
	case n.said != said(strings.Split(x.by, "\n"), x.words) || !c.near(n, time.Unix(0, x.at)):
		c.found(rejectionChanged, where, "the audit log has other operators, words or another time for its rejection")
	case err != nil || x.wish != journal.Wish(x.step) || x.caller != x.asker.Payer() ||
		x.reason != journal.DigestReason(x.asked) && x.reason != journal.EarlierDigest(x.asked):
		c.found(rejectionChanged, where, "its rejection is remembered for another wish, caller or reason")
	}
}

// near reports whether a rejection is remembered with its time. If a new gate id began
// later, it may be remembered with an earlier time, because the clock was set back.
func (c *check) near(n no, at time.Time) bool {
	by := at.Sub(n.at)
	return by.Abs() <= countTook || by < 0 && n.seq < c.log.reborn
}

// rejectionsLost finds rejections of the log that are not remembered, although they are
// neither old nor more than a caller may have.
func (c *check) rejectionsLost() error {
	var mark int64
	if err := c.rows("", `SELECT unix FROM time_mark`, []any{&mark}, func() {}); err != nil {
		return err
	}
	for _, id := range stepsOf(c.log.rejected) {
		n := c.log.rejected[id]
		if !n.kept || n.seq < c.log.reborn || n.at.Before(time.Unix(mark, 0).Add(-rejectionsKept)) {
			continue
		}
		if err := c.rejectionLost(id, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) rejectionLost(id op.StepID, n no) error {
	who, err := journal.Requesters(c.tx, id.Job)
	if err != nil {
		return err
	}
	for _, r := range who {
		var there bool
		var newer int
		err := c.tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM rejections WHERE job = ? AND idx = ? AND who = ?),
				(SELECT count(*) FROM rejections WHERE caller = ? AND at >= ?)`, int64(id.Job), id.Index, r.String(),
			r.Payer(), n.at.Add(-countTook).UnixNano()).Scan(&there, &newer)
		if err != nil {
			return err
		}
		if !there && newer < journal.RejectionsPerCaller {
			c.found(rejectionLost, id.String(), "it was rejected by the audit log, and that is not remembered for %s",
				op.Shown(r.String()))
		}
	}
	return nil
}
