package fsck

import (
	"crypto/sha256"
	"fmt"

	"gated/internal/audit"
	"gated/internal/op"
	"gated/internal/reserve"
)

// claim is what the log says of a reservation in force: digests, so that a
// hundred thousand of them are little.
type claim struct {
	where  [sha256.Size]byte // the scope, its directory and the patterns
	brief  [sha256.Size]byte // the same with what later entries repeat of the patterns
	scope  string            // scope/s3
	mode   string
	holder string
	uid    uint32
	until  int64 // Unix nanoseconds
}

func whereOf(scope string, at op.Incarnation, patterns []string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %s %q", scope, at, patterns))
}

// briefOf is for entries that repeat few of the patterns, of so many.
func briefOf(scope string, at op.Incarnation, few []string, of int) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %s %q %d", scope, at, few, of))
}

// hold follows who holds what. Before its time only its holder, the end of its
// process or a step takes a reservation from somebody.
func (c *check) hold(e audit.Entry) {
	id, err := op.ParseReservationID(e.Reservation)
	if err != nil {
		c.found(entryUnclear, entry(e), "it is about %q, which is no reservation", op.Shown(e.Reservation))
		return
	}
	held, known := c.log.held[id]
	if known == (e.Kind == audit.Reserved) {
		c.found(reservationMove, id.String(), "entry %d says %s of one that %s", e.Seq, e.Kind, standing(known))
	}
	switch {
	case !known:
	case e.Kind == audit.Lapsed && e.Time.UnixNano() < held.until:
		c.found(reservationEarly, id.String(), "entry %d says that its time was up, which it was not", e.Seq)
	case e.Kind == audit.Released || e.Kind == audit.Transferred || e.Kind == audit.Renewed:
		c.entitled(id, held, e)
	}
	switch e.Kind {
	case audit.Reserved, audit.Renewed, audit.Transferred:
		c.log.held[id] = c.claimed(id, held, e)
	case audit.Released, audit.Lapsed, audit.Orphaned:
		delete(c.log.held, id)
	}
}

func standing(known bool) string {
	if known {
		return "was in force"
	}
	return "was not in force"
}

// claimed is what is in force after an entry.
func (c *check) claimed(id op.ReservationID, before claim, e audit.Entry) claim {
	now := claim{where: before.where, brief: before.brief, scope: e.Target, mode: e.Mode, holder: e.Holder, uid: before.uid, until: e.Until.UnixNano()}
	var ok bool
	switch e.Kind {
	case audit.Reserved:
		few, of := reserve.Brief(e.Patterns)
		now.where, now.brief = whereOf(e.Target, e.Incarnation, e.Patterns), briefOf(e.Target, e.Incarnation, few, of)
		now.uid, ok = c.log.roll.uidOf(e.By)
	case audit.Transferred:
		now.uid, ok = c.log.roll.uidOfNamed(e.Holder)
	default:
		ok = before.holder == e.Holder
	}
	if !ok || e.Kind == audit.Reserved && !c.log.roll.is(e.By, now) {
		c.found(reservationReceiver, id.String(), "entry %d gives it to %s, who was not there for it", e.Seq, op.Shown(e.Holder))
	}
	if e.Kind != audit.Reserved && briefOf(e.Target, e.Incarnation, e.Patterns, e.Of) != before.brief {
		c.found(reservationPaths, id.String(), "entry %d says that it is of other paths than before", e.Seq)
	}
	return now
}

// entitled checks who took a reservation away or made it last: its holder, or a
// step that was signed for that and is under way.
func (c *check) entitled(id op.ReservationID, held claim, e audit.Entry) {
	if e.Step == "" {
		if !c.log.roll.is(e.By, held) {
			c.found(reservationTaken, id.String(), "entry %d says %s by %s, who did not hold it", e.Seq, e.Kind, op.Shown(e.By))
		}
		return
	}
	step, err := op.ParseStepID(e.Step)
	l := c.log.steps[step]
	asked := digestAsk(op.ReleaseAll, held.scope, op.Params{}.Canonical())
	if e.Kind == audit.Transferred {
		asked = digestAsk(op.ForceTransfer, held.scope, op.Params{"reservation": id.String(), "to": e.Holder}.Canonical())
	}
	if err != nil || !l.ran || l.state != op.StateDispatched || l.asks != asked || e.Kind == audit.Renewed {
		c.found(takenWithoutStep, id.String(), "entry %d says %s by the step %s, which was not under way for that", e.Seq, e.Kind, op.Shown(e.Step))
	}
}
