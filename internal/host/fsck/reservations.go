package fsck

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/log/audit"
)

// registration is a registered agent, by the log.
type registration struct {
	name  string
	uid   op.Account
	bound string // Agent.Binding
}

// roll has the registrations of the log.
type roll struct {
	standing map[int64]registration
	named    map[string]int64     // the present ones
	uids     map[int64]op.Account // of all, because an entry about an agent's wish may follow the agent's end
}

func newRoll() roll {
	return roll{standing: map[int64]registration{}, named: map[string]int64{}, uids: map[int64]op.Account{}}
}

// uidOf returns the uid, with its member, of the party that an entry names.
func (r roll) uidOf(by string) (op.Account, bool) {
	if n, ok := strings.CutPrefix(by, "uid:"); ok {
		uid, err := op.ParseAccount(n)
		return uid, err == nil
	}
	who, ok := strings.CutPrefix(by, "agent:")
	if !ok {
		return op.Account{}, false
	}
	_, id, ok := oneOf(who)
	uid, known := r.uids[id]
	return uid, ok && known
}

// oneOf parses "builder#7".
func oneOf(who string) (name string, id int64, ok bool) {
	name, number, _ := strings.Cut(who, "#")
	id, err := strconv.ParseInt(number, 10, 64)
	return name, id, err == nil && id > 0 && name != ""
}

// uidOfNamed returns the uid that is registered under a name.
func (r roll) uidOfNamed(name string) (op.Account, bool) {
	id, ok := r.named[name]
	return r.uids[id], ok
}

// is reports whether the party of an entry is the holder of a reservation.
func (r roll) is(by string, held claim) bool {
	uid, ok := r.uidOf(by)
	if who, agent := strings.CutPrefix(by, "agent:"); agent {
		by, _, _ = oneOf(who)
	}
	return ok && by == held.holder && uid == held.uid
}

// enrol follows the registrations.
func (c *check) enrol(e audit.Entry) {
	name, id := e.Registration.Name, e.Registration.ID
	who := whoIs(name, id)
	if name == "" || id <= 0 {
		c.found(entryUnclear, entry(e), "it is about %q, which is no registration", who)
		return
	}
	if e.Kind == audit.AgentEnded {
		if c.log.roll.standing[id].name != name {
			c.found(agentEndAlone, who, "entry %d says that it ended, and none that it began", e.Seq)
		}
		c.log.roll.strike(id)
		return
	}
	uid, ok := c.log.roll.uidOf(e.By)
	if !ok {
		c.found(agentUnclear, who, "entry %d does not say under which uid it was registered", e.Seq)
	}
	if other, taken := c.log.roll.named[name]; taken {
		c.found(agentTaken, who, "entry %d registers a name that %s#%d has", e.Seq, op.Shown(name), other)
		c.log.roll.strike(other)
	}
	c.log.roll.standing[id] = registration{name, uid, e.Registration.SHA256}
	c.log.roll.named[name], c.log.roll.uids[id] = id, uid
}

func (r roll) strike(id int64) {
	delete(r.named, r.standing[id].name)
	delete(r.standing, id)
}

func (r roll) clear() {
	clear(r.standing)
	clear(r.named)
}

// agents checks that the registered agents are those of the log. A forged row would
// give its process the name at the next start.
func (c *check) agents() error {
	left := maps.Clone(c.log.roll.standing)
	all, err := claims.Agents(c.tx)
	if err != nil {
		return err
	}
	for _, r := range all {
		c.report.Checked["agents"]++
		switch said := left[r.ID]; {
		case said.name != r.Name || said.uid != r.Account:
			c.found(agentUnknown, whoIs(r.Name, r.ID), "the audit log does not contain that uid %v got the name", r.Account)
		case said.bound != r.Binding:
			c.found(agentChanged, whoIs(r.Name, r.ID), "the audit log has another process or token for it")
		}
		delete(left, r.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		c.found(agentLost, whoIs(left[id].name, id), "it is registered by the audit log, and there is no row of it")
	}
	return nil
}

func whoIs(name string, id int64) string { return op.Shown(name) + "#" + strconv.FormatInt(id, 10) }

// entry names an entry of the log for people.
func entry(e audit.Entry) string { return fmt.Sprintf("entry %d", e.Seq) }

// claim is a reservation in force, by the log. It has digests, so that a hundred
// thousand need little memory.
type claim struct {
	where  [sha256.Size]byte // the scope, its directory and the patterns
	brief  [sha256.Size]byte // the same, with the part of the patterns that later entries repeat
	scope  string            // scope/s3
	mode   string
	holder string
	uid    op.Account
	until  int64 // Unix nanoseconds
}

func whereOf(scope string, at op.Incarnation, patterns []string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %s %q", scope, at, patterns))
}

// briefOf digests an entry that repeats only a few of its patterns.
func briefOf(scope string, at op.Incarnation, few []string, of int) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %s %q %d", scope, at, few, of))
}

// hold follows which reservations are held. Before its time ends, only its holder,
// the end of the holder's process or a step may take a reservation away.
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

// claimed returns the claim after an entry.
func (c *check) claimed(id op.ReservationID, before claim, e audit.Entry) claim {
	now := claim{where: before.where, brief: before.brief, scope: e.Target, mode: e.Mode, holder: e.Holder, uid: before.uid, until: e.Until.UnixNano()}
	var ok bool
	switch e.Kind {
	case audit.Reserved:
		few, of := claims.Brief(e.Patterns)
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

// entitled checks the party that ended a reservation or changed its holder: the old
// holder, or a step that was signed for that and runs.
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

// reservations checks that the reservations in force are those of the log.
func (c *check) reservations() error {
	if err := c.held(); err != nil {
		return err
	}
	if err := c.lastSteps(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(c.log.held)) {
		c.found(reservationLost, id.String(), "%s has it by the audit log, and there is no row of it", op.Shown(c.log.held[id].holder))
	}
	return nil
}

func (c *check) held() error {
	var id op.ReservationID
	var name string
	var keep bool
	var registration, scope, device, inode int64
	var key string
	var row claim
	var text []byte
	return c.rows("reservations", `SELECT r.id, r.agent, r.uid, r.member, r.registration, r.keep, r.mode, r.expires_at, r.scope,
			coalesce(s.path, ''),
			coalesce(s.device, 0), coalesce(s.inode, 0), (SELECT json_group_array(pattern) FROM
				(SELECT pattern FROM reservation_patterns p WHERE p.reservation = r.id ORDER BY pattern))
		FROM reservations r LEFT JOIN scopes s ON s.id = r.scope`,
		[]any{&id, &name, &row.uid.UID, &row.uid.Member, &registration, &keep, &row.mode, &row.until, &scope,
			&key, &device, &inode, &text}, func() {
			var patterns []string
			if json.Unmarshal(text, &patterns) != nil {
				c.found(reservationChanged, id.String(), "its patterns are no text")
			}
			row.scope, row.holder = fmt.Sprintf("%s/s%d", op.KindScope, scope), name
			if name == "" {
				row.holder = "uid:" + row.uid.String()
			}
			row.where = whereOf(row.scope, claims.Place(key, uint64(device), uint64(inode)), patterns)
			c.compare(id, row)
			c.bound(id, row, registration, keep)
			delete(c.log.held, id)
		})
}

// compare checks a row against the log.
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

// bound checks a reservation that ends with a process. It must be bound to a
// registered process with its holder's name and uid.
func (c *check) bound(id op.ReservationID, row claim, registration int64, keep bool) {
	uid, known := c.log.roll.uids[registration]
	r, stands := c.log.roll.standing[registration]
	switch {
	case registration == 0:
	case !known || uid != row.uid || stands && r.name != row.holder:
		c.found(reservationUnbound, id.String(), "it is bound to a registration that is not its holder's")
	case !stands && !keep:
		c.found(reservationUnbound, id.String(), "it is bound to %s, which has ended", whoIs(row.holder, registration))
	}
}

// lastSteps checks that the last step that a scope names is a step of that scope
// that ran. If a step's end was lost, this name says that the step was done.
func (c *check) lastSteps() error {
	var n int64
	var text string
	return c.rows("", `SELECT id, last_step FROM scopes WHERE last_step <> ''`, []any{&n, &text}, func() {
		scope := fmt.Sprintf("%s/s%d", op.KindScope, n)
		id, err := op.ParseStepID(text)
		if err != nil || !c.log.steps[id].ran || c.log.scopes[id] != scope {
			c.found(scopeStepUnknown, scope, "its last step is %s, and by the audit log none of that id ran on it", op.Shown(text))
		}
	})
}

// overlaps checks the reservations against each other, and their index. It uses the
// time of the newest entry: a reservation that has lapsed by then has no holder.
func (c *check) overlaps() error {
	problems, err := claims.Overlaps(c.tx, c.log.at)
	for _, p := range problems {
		c.found(reservationsTogether, "reservations", "%s", p)
	}
	return err
}
