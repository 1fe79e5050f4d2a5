package fsck

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gated/internal/agent"
	"gated/internal/audit"
	"gated/internal/op"
)

// registration is what the log says of an agent that is registered.
type registration struct {
	name  string
	uid   uint32
	bound string // agent.Registration.Binding
}

// roll is the registrations of which the log tells.
type roll struct {
	standing map[int64]registration
	named    map[string]int64 // of those
	uids     map[int64]uint32 // of all: what an agent asked for may be written when it has ended
}

func newRoll() roll {
	return roll{standing: map[int64]registration{}, named: map[string]int64{}, uids: map[int64]uint32{}}
}

// uidOf returns the uid of whoever an entry says it was.
func (r roll) uidOf(by string) (uint32, bool) {
	if n, ok := strings.CutPrefix(by, "uid:"); ok {
		uid, err := strconv.ParseUint(n, 10, 32)
		return uint32(uid), err == nil
	}
	who, ok := strings.CutPrefix(by, "agent:")
	if !ok {
		return 0, false
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

// uidOfNamed returns the uid of who is registered under a name.
func (r roll) uidOfNamed(name string) (uint32, bool) {
	id, ok := r.named[name]
	return r.uids[id], ok
}

// is reports whether the one of whom an entry says that it asked is the holder
// of a reservation.
func (r roll) is(by string, held claim) bool {
	uid, ok := r.uidOf(by)
	if who, agent := strings.CutPrefix(by, "agent:"); agent {
		by, _, _ = oneOf(who)
	}
	return ok && by == held.holder && uid == held.uid
}

// enrol follows who is registered: "builder#7: process 123", and why it ended.
func (c *check) enrol(e audit.Entry) {
	who, _, _ := strings.Cut(e.Detail, ": ")
	name, id, ok := oneOf(who)
	if !ok {
		c.found(entryUnclear, entry(e), "it is about %q, which is no registration", op.Shown(who))
		return
	}
	if e.Kind == audit.AgentEnded {
		if c.log.roll.standing[id].name != name {
			c.found(agentEndAlone, op.Shown(who), "entry %d says that it ended, and none that it began", e.Seq)
		}
		c.log.roll.strike(id)
		return
	}
	uid, ok := c.log.roll.uidOf(e.By)
	if !ok {
		c.found(agentUnclear, op.Shown(who), "entry %d does not say under which uid it was registered", e.Seq)
	}
	if other, taken := c.log.roll.named[name]; taken {
		c.found(agentTaken, op.Shown(who), "entry %d registers a name that %s#%d has", e.Seq, op.Shown(name), other)
		c.log.roll.strike(other)
	}
	c.log.roll.standing[id] = registration{name, uid, e.Digest}
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

// agents checks that those who are registered are those of whom the log tells.
// A row that was forged would give its process the name at the next start.
func (c *check) agents() error {
	left := maps.Clone(c.log.roll.standing)
	all, err := agent.All(c.tx)
	if err != nil {
		return err
	}
	for _, r := range all {
		c.report.Checked["agents"]++
		switch said := left[r.ID]; {
		case said.name != r.Name || said.uid != r.UID:
			c.found(agentUnknown, whoIs(r.Name, r.ID), "the audit log does not contain that uid %d got the name", r.UID)
		case said.bound != r.Binding():
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

// entry names an entry of the log.
func entry(e audit.Entry) string { return fmt.Sprintf("entry %d", e.Seq) }
