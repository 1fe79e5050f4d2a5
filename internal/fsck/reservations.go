package fsck

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"gated/internal/op"
	"gated/internal/reserve"
)

// reservations checks that those in force are those of which the log tells.
func (c *check) reservations() error {
	if err := c.held(); err != nil {
		return err
	}
	if err := c.lastSteps(); err != nil {
		return err
	}
	var lost []op.ReservationID
	for id := range c.log.held {
		lost = append(lost, id)
	}
	slices.Sort(lost)
	for _, id := range lost {
		c.found(reservationLost, id.String(), "%s has it by the audit log, and there is no row of it", op.Shown(c.log.held[id].holder))
	}
	return nil
}

func (c *check) held() error {
	return c.each(`SELECT r.id, r.agent, r.uid, r.registration, r.keep, r.mode, r.expires_at, r.scope, coalesce(s.path, ''),
			coalesce(s.device, 0), coalesce(s.inode, 0), (SELECT json_group_array(pattern) FROM
				(SELECT pattern FROM reservation_patterns p WHERE p.reservation = r.id ORDER BY pattern))
		FROM reservations r LEFT JOIN scopes s ON s.id = r.scope`, func(scan func(...any) error) error {
		var id op.ReservationID
		var h reserve.Holder
		var keep bool
		var scope, device, inode int64
		var place reserve.Place
		var row claim
		var text []byte
		if err := scan(&id, &h.Name, &h.UID, &h.Registration, &keep, &row.mode, &row.until, &scope, &place.Path, &device, &inode, &text); err != nil {
			return err
		}
		c.report.Checked["reservations"]++
		var patterns []string
		if json.Unmarshal(text, &patterns) != nil {
			c.found(reservationChanged, id.String(), "its patterns are no text")
		}
		place.Device, place.Inode = uint64(device), uint64(inode)
		row.scope, row.holder, row.uid = fmt.Sprintf("%s/s%d", op.KindScope, scope), h.String(), h.UID
		row.where = whereOf(row.scope, place.Incarnation(), patterns)
		c.compare(id, row)
		c.bound(id, h, keep)
		delete(c.log.held, id)
		return nil
	})
}

// compare checks a row against what the log says of it.
func (c *check) compare(id op.ReservationID, row claim) {
	said, known := c.log.held[id]
	for _, m := range []struct {
		same bool
		code Code
		what string
	}{
		{known, reservationUnknown, "the audit log does not contain that " + op.Shown(row.holder) + " got it"},
		{row.holder == said.holder && row.uid == said.uid, reservationChanged, "the audit log has another holder for it"},
		{row.where == said.where, reservationChanged, "the audit log has another directory or other patterns for it"},
		{row.mode == said.mode, reservationChanged, "the audit log has another mode for it"},
		{row.until == said.until, reservationChanged, "the audit log has another end for it"},
	} {
		if !m.same {
			c.found(m.code, id.String(), "%s", m.what)
			return
		}
	}
}

// bound checks that what ends with a process is bound to one that is registered,
// under the name and the uid of its holder.
func (c *check) bound(id op.ReservationID, h reserve.Holder, keep bool) {
	uid, known := c.log.roll.uids[h.Registration]
	r, stands := c.log.roll.standing[h.Registration]
	switch {
	case h.Registration == 0:
	case !known || uid != h.UID || stands && r.name != h.Name:
		c.found(reservationUnbound, id.String(), "it is bound to a registration that is not its holder's")
	case !stands && !keep:
		c.found(reservationUnbound, id.String(), "it is bound to %s, which has ended", whoIs(h.Name, h.Registration))
	}
}

// lastSteps checks that what a scope says was done there last by operators is a
// step of that scope that ran: by that a step counts as done whose end nobody
// saw.
func (c *check) lastSteps() error {
	return c.each(`SELECT id, last_step FROM scopes WHERE last_step <> ''`, func(scan func(...any) error) error {
		var n int64
		var text string
		if err := scan(&n, &text); err != nil {
			return err
		}
		scope := fmt.Sprintf("%s/s%d", op.KindScope, n)
		id, err := op.ParseStepID(text)
		if err != nil || !c.log.steps[id].ran || c.log.scopes[id] != scope {
			c.found(scopeStepUnknown, scope, "its last step is %s, and by the audit log none of that id ran on it", op.Shown(text))
		}
		return nil
	})
}

// overlaps checks the reservations against each other, and their index. It goes
// by the time of the newest entry: what has lapsed by then is nobody's.
func (c *check) overlaps() error {
	problems, err := reserve.Verify(c.tx, c.log.at)
	for _, p := range problems {
		c.found(reservationsTogether, "reservations", "%s", p)
	}
	return err
}
