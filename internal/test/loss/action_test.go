package loss

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"

	"gated/internal/base/op"
)

// kind is what sort of thing happens in an action.
type kind uint8

// The kinds of action.
const (
	submits   kind = iota // an actor submits a step, or one more step of the same job
	writes                // a program in a guest, or its owner by hand, writes marked bytes
	erases                // a writer deletes its own bytes
	renames               // a writer renames its own file
	wishes                // a desired set says something of a guest, or stops to
	injects               // the next steps fail, get lost, lie, panic or are killed
	passes                // time passes
	steps                 // somebody sets the wall clock
	restarts              // the daemon stops and starts
	kills                 // the daemon is killed and starts
	reboots               // the machine boots anew
	sweeps                // the trash is swept
	ticks                 // the gate does what time brings
	reloads               // the policy is read again
	cancels               // an actor cancels a job
	approves              // an operator signs what a request says now
	shows                 // an operator looks at a request, to sign it later
	signsLate             // an operator signs what was shown earlier
	rejects               // an operator rejects a request
	meddles               // somebody's hand is at a guest, beside the gate
	lurks                 // somebody's hand waits for a moment within a step
	kindCount
)

var kindNames = [kindCount]string{"submit", "write", "erase", "rename", "wish", "inject", "pass", "clock", "restart", "kill", "reboot",
	"sweep", "tick", "reload", "cancel", "approve", "show", "sign-late", "reject", "meddle", "lurk"}

// weights say how often the generator takes each kind.
var weights = [kindCount]int{submits: 60, writes: 16, erases: 3, renames: 2, wishes: 8, injects: 12, passes: 10, steps: 3, restarts: 2,
	kills: 3, reboots: 1, sweeps: 4, ticks: 1, reloads: 2, cancels: 3, approves: 6, shows: 5, signsLate: 5, rejects: 1, meddles: 8, lurks: 6}

// action is one thing that happens, as a fixed number of bytes: any bytes are a
// sequence, and to take a record out of one leaves another.
type action struct {
	kind   kind
	actor  uint8 // an index of actors; of a submitted step, the high bit adds it to the job of the record before
	target uint8 // an index of names
	op     uint16
	args   [5]uint8
}

// actionSize is how many bytes an action takes.
const actionSize = 10

// maxActions bounds a sequence that is read from bytes.
const maxActions = 200

// more is the bit of the actor that adds a step to a job.
const more = 0x80

// decode reads a sequence. Bytes that are left over at the end are not looked at.
func decode(b []byte) []action {
	var out []action
	for ; len(b) >= actionSize && len(out) < maxActions; b = b[actionSize:] {
		a := action{kind: kind(b[0]) % kindCount, actor: b[1], target: b[2], op: uint16(b[3])<<8 | uint16(b[4])}
		copy(a.args[:], b[5:])
		out = append(out, a)
	}
	return out
}

// encode is the opposite of decode.
func encode(seq []action) []byte {
	var b []byte
	for _, a := range seq {
		b = append(b, byte(a.kind), a.actor, a.target, byte(a.op>>8), byte(a.op))
		b = append(b, a.args[:]...)
	}
	return b
}

// ring has every operation of the catalogue at a place that its name decides, so
// that a new operation leaves nearly every sequence as it was.
type ring struct {
	places []uint16
	specs  map[uint16]op.Spec
}

var operations = func() ring {
	r := ring{specs: map[uint16]op.Spec{}}
	for _, s := range op.Catalogue() {
		at := placeOf(s.Name)
		for _, taken := r.specs[at]; taken; _, taken = r.specs[at] {
			at++
		}
		r.specs[at] = s
		r.places = append(r.places, at)
	}
	slices.Sort(r.places)
	return r
}()

func placeOf(name string) uint16 { return uint16(crc32.ChecksumIEEE([]byte(name))) }

// at returns the first operation at or after a place.
func (r ring) at(n uint16) op.Spec {
	i, _ := slices.BinarySearch(r.places, n)
	return r.specs[r.places[i%len(r.places)]]
}

// generator makes sequences at random, mostly of what a back end has.
type generator struct {
	*rand.Rand
	ops []string
}

// generate makes one of some length.
func (r generator) generate(length int) []action {
	var seq []action
	for len(seq) < length {
		switch r.IntN(40) {
		case 0, 1, 2:
			seq = append(seq, r.slowJob()...)
		case 3:
			seq = append(seq, r.wrongClock()...)
		case 4, 5:
			seq = append(seq, r.lifeOfOne()...)
		case 6:
			seq = append(seq, r.reader()...)
		case 7, 8:
			seq = append(seq, r.handInBetween()...)
		case 9:
			seq = append(seq, r.handAtScratch()...)
		case 10:
			seq = append(seq, r.placeAgain()...)
		case 11, 12:
			seq = append(seq, r.handWithin()...)
		default:
			seq = append(seq, r.one())
		}
	}
	return seq
}

// commands reports whether the back end runs commands alone.
func (r generator) commands() bool { return slices.Equal(r.ops, []string{op.Run}) }

// one makes one action.
func (r generator) one() action {
	n := 0
	for _, w := range weights {
		n += w
	}
	var a action
	for n = r.IntN(n); n >= weights[a.kind]; a.kind++ {
		n -= weights[a.kind]
	}
	a.actor, a.target = uint8(r.IntN(len(actors))), uint8(r.IntN(3))
	if r.IntN(6) == 0 {
		a.target = anyName | uint8(r.IntN(len(names)))
	}
	if r.commands() {
		a.target = uint8(r.IntN(anyName)) // any of the bed's, however many they are
	}
	for j := range a.args {
		if a.args[j] = uint8(r.IntN(256)); r.IntN(3) == 0 {
			a.args[j] = 0
		}
	}
	if a.kind != submits {
		return a
	}
	a.op = r.pick()
	if r.IntN(2) == 0 { // one parameter of those that may be left out
		a.args[0] = 1 << r.IntN(8)
	}
	if r.IntN(3) == 0 {
		a.actor, a.op = a.actor|more, r.further()
	}
	return a
}

// further takes an operation for a further step of a job: mostly one that takes
// nothing, because a job is refused whose steps change what another is signed for.
func (r generator) further() uint16 {
	at := r.pick()
	for range 4 {
		if operations.at(at).Takes == "" {
			break
		}
		at = r.pick()
	}
	return at
}

// slowJob makes a job whose steps after the first ones wait for their back end, and
// go wrong in the end: what others do meanwhile comes after it.
func (r generator) slowJob() []action {
	waits := []mishap{busy, flaky, flakyDone}[r.IntN(3)]
	wrong := uint8(1 + r.IntN(int(mishapCount)))
	steps := 2 + r.IntN(3)
	seq := []action{{kind: injects, args: [5]uint8{uint8(waits), uint8(r.IntN(steps)), uint8(r.IntN(3)), wrong}}}
	for i := range steps {
		a := r.one()
		a.kind, a.actor, a.op = submits, a.actor&^more, r.further()
		if i == 0 {
			a.op = placeOf("guest.create")
		} else {
			a.actor |= more
		}
		seq = append(seq, a)
	}
	if r.IntN(2) == 0 {
		seq = append(seq, action{kind: writes, target: uint8(r.IntN(3))})
	}
	return seq
}

// handInBetween makes a job that fails after its first step, and has another job or somebody's hand at its target before
// that.
func (r generator) handInBetween() []action {
	name := uint8(r.IntN(3))
	config := action{kind: submits, actor: uint8(r.IntN(len(actors))), target: name, op: placeOf("guest.set-config"), args: [5]uint8{1, uint8(r.IntN(256))}}
	second := action{kind: submits, actor: more, target: 1, op: r.further()}
	seq := []action{{kind: injects, args: [5]uint8{uint8(busy), 1, 0, 1 + uint8(r.IntN(int(panics)))}}, config, second}
	if r.IntN(2) == 0 {
		return append(seq, action{kind: meddles, target: name, args: [5]uint8{uint8(r.IntN(256))}}, action{kind: passes, args: [5]uint8{1}})
	}
	config.args[1] = uint8(r.IntN(256))
	return append(seq, config, action{kind: passes, args: [5]uint8{1}})
}

// handAtScratch has an actor make scratch and destroy it, after somebody gave its disk to another guest.
func (r generator) handAtScratch() []action {
	who, name := uint8(r.IntN(len(actors))), anyName|uint8(r.IntN(len(names)))
	create := action{kind: submits, actor: who, target: name, op: placeOf("guest.create"), args: [5]uint8{withScratch}}
	other := action{kind: submits, actor: uint8(r.IntN(len(actors))), target: uint8(r.IntN(3)), op: placeOf("guest.create")}
	return []action{other, create, {kind: writes, target: name}, {kind: meddles, target: name, args: [5]uint8{[]uint8{toShare, toAgain}[r.IntN(2)]}}, r.one(),
		{kind: submits, actor: who, target: name, op: placeOf("guest.destroy")}}
}

// lurk is a hand that waits for a moment within a step, mostly the one before its work.
func (r generator) lurk(target uint8) action {
	a := action{kind: lurks, target: target, args: [5]uint8{uint8(r.IntN(256))}}
	if r.IntN(4) == 0 {
		a.args[0] = []uint8{toShare, toAgain, toNumber}[r.IntN(3)]
	}
	if r.IntN(2) == 0 {
		a.args[1] = uint8(r.IntN(lastMoment + 1))
	}
	if r.IntN(3) == 0 {
		a.args[3] = uint8(r.IntN(4))
	}
	return a
}

// handWithin has somebody's hand at a guest in the middle of the step that takes it, or that takes back what a failed job did.
func (r generator) handWithin() []action {
	if r.commands() {
		return r.roomLedElsewhere()
	}
	if r.IntN(3) == 0 {
		seq := r.handInBetween()
		last := len(seq) - 1 // time passes, and the job fails
		return append(seq[:3:3], r.lurk(seq[1].target), seq[last])
	}
	who, name := uint8(r.IntN(len(actors))), anyName|uint8(r.IntN(len(names)))
	create := action{kind: submits, actor: who, target: name, op: placeOf("guest.create"), args: [5]uint8{withScratch}}
	other := action{kind: submits, actor: uint8(r.IntN(len(actors))), target: uint8(r.IntN(3)), op: placeOf("guest.create")}
	seq := []action{other, create, {kind: writes, target: name}}
	end := action{kind: submits, actor: who, target: name, op: placeOf("guest.destroy")}
	if r.IntN(2) == 0 { // another step that takes something, perhaps of a copy
		takers := slices.DeleteFunc(slices.Clone(r.ops), func(name string) bool { return operations.at(placeOf(name)).Takes == "" })
		end.op = placeOf(takers[r.IntN(len(takers))])
		for _, made := range []string{"guest.snapshot", "guest.backup", "guest.disk-create"} {
			if slices.Contains(r.ops, made) && r.IntN(2) == 0 {
				seq = append(seq, action{kind: submits, actor: who, target: name, op: placeOf(made)}, action{kind: writes, target: name})
			}
		}
	}
	return append(seq, r.lurk(name), end, action{kind: approves})
}

// roomLedElsewhere has the owner of a room put a link to another one in its place, before or while a command empties it.
func (r generator) roomLedElsewhere() []action {
	room, other := clearEast, clearWest
	if r.IntN(2) == 0 {
		room, other = other, room
	}
	run := action{kind: submits, actor: uint8(r.IntN(len(actors))), target: room, op: placeOf(op.Run)}
	hand := r.lurk(room)
	if r.IntN(2) == 0 {
		hand = action{kind: meddles, target: room, args: [5]uint8{uint8(r.IntN(2))}}
	}
	seq := []action{{kind: writes, target: room}, {kind: writes, target: other}, run, {kind: shows}, hand, {kind: approves}}
	if r.IntN(2) == 0 { // what was shown before
		seq[5] = action{kind: signsLate, args: [5]uint8{0, uint8(r.IntN(2))}}
	}
	return seq
}

// placeAgain has a guest go away and another one come, which a back end could give the same number, and has somebody back
// the newcomer up.
func (r generator) placeAgain() []action {
	who, name, next := uint8(r.IntN(len(actors))), anyName|uint8(r.IntN(len(names))), anyName|uint8(r.IntN(len(names)))
	made := action{kind: submits, actor: who, target: name, op: placeOf("guest.create"), args: [5]uint8{withScratch}}
	newcomer := action{kind: submits, actor: uint8(r.IntN(len(actors))), target: next, op: placeOf("guest.create")}
	backUp := action{kind: meddles, target: next, args: [5]uint8{toBackUp}}
	return []action{{kind: restarts}, made, {kind: writes, target: name}, {kind: meddles, target: name, args: [5]uint8{toBackUp}},
		{kind: submits, actor: who, target: name, op: placeOf("guest.destroy")}, {kind: restarts}, newcomer, backUp, backUp, backUp}
}

// wrongClock sets the clock wrong, lets the gate meet that clock first after a start
// or a boot, and lets much time pass.
func (r generator) wrongClock() []action {
	return []action{{kind: steps, args: [5]uint8{uint8(r.IntN(len(leaps)))}},
		{kind: []kind{restarts, kills, reboots, reboots}[r.IntN(4)]},
		{kind: passes, args: [5]uint8{uint8(r.IntN(len(spans)))}}}
}

// lifeOfOne makes a guest, often as scratch, has a few things happen to it, and has
// the same actor, or an operator by a signature, take it away.
func (r generator) lifeOfOne() []action {
	name, who := anyName|uint8(r.IntN(len(names))), uint8(r.IntN(len(actors)))
	made := action{kind: submits, actor: who, target: name, op: placeOf("guest.create"), args: r.one().args}
	if r.IntN(2) == 0 {
		made.args[0], made.args[2] = withScratch, 0
	}
	seq := []action{made}
	for range 1 + r.IntN(4) {
		a := r.one()
		if a.target = name; a.kind == submits {
			a.actor &^= more
		}
		seq = append(seq, a)
	}
	seq = append(seq, action{kind: submits, actor: who, target: name, op: placeOf("guest.destroy")})
	if r.IntN(2) == 0 {
		return seq
	}
	// An operator asks for it too, and signs; then somebody wants it back.
	return append(seq, action{kind: submits, actor: operator, target: name, op: placeOf("guest.destroy")}, action{kind: approves},
		action{kind: submits, actor: uint8(r.IntN(len(actors))), target: name, op: placeOf("guest.undelete")},
		action{kind: passes, args: [5]uint8{uint8(r.IntN(len(spans)))}}, action{kind: sweeps})
}

// reader asks for the end of a guest, and has an operator read that and sign it a
// little later: as it was, or in a second call after somebody's hand was at the guest.
func (r generator) reader() []action {
	name := uint8(r.IntN(3))
	seq := []action{{kind: submits, actor: uint8(r.IntN(len(actors))), target: name, op: placeOf("guest.destroy")},
		{kind: shows, args: [5]uint8{uint8(r.IntN(2))}}}
	for range 1 + r.IntN(2) {
		a := r.one()
		a.kind, a.target, a.actor, a.op = submits, name, a.actor&^more, r.further()
		seq = append(seq, a)
	}
	if r.IntN(2) == 0 {
		return append(seq, action{kind: signsLate})
	}
	return append(seq, action{kind: meddles, target: name, args: [5]uint8{uint8(r.IntN(256))}}, action{kind: ticks},
		action{kind: signsLate, args: [5]uint8{uint8(r.IntN(3)), 1}})
}

// often are operations that everything else needs to have happened before.
var often = []string{"guest.create", "guest.create", "guest.start", "guest.destroy", "guest.destroy", "guest.undelete", "guest.set-config"}

// pick takes an operation: what makes guests and takes them away more often, what
// the back end has, and now and then anything of the catalogue.
func (r generator) pick() uint16 {
	switch n := r.IntN(10); {
	case n < 4:
		return placeOf(often[r.IntN(len(often))])
	case n < 9 && len(r.ops) > 0:
		return placeOf(r.ops[r.IntN(len(r.ops))])
	default:
		return operations.places[r.IntN(len(operations.places))]
	}
}

// String is the action for people. What depends on what is there, like the name
// of a target, is said when it runs.
func (a action) String() string {
	what := kindNames[a.kind]
	switch a.kind {
	case submits:
		if what = "submits " + operations.at(a.op).Name; a.actor&more != 0 {
			what += " in the same job"
		}
	case lurks:
		what += fmt.Sprintf(" for moment %d", a.args[1]%(lastMoment+1))
	case injects:
		if what += " " + mishapNames[mishap(a.args[0])%mishapCount]; a.args[3] != 0 {
			what += ", then " + mishapNames[mishap(a.args[3]-1)%mishapCount]
		}
	}
	return fmt.Sprintf("%s: %s (%d) %v", a.by().name, what, a.target, a.args)
}

// names are the targets that actions are about.
// The last one differs from another one only in case.
var names = []string{"web", "db", "cache", "mail", "old", "WEB"}

// anyName is the bit of the target that means a name whether there is a guest of it
// or not.
const anyName = 0x80

// name is the target of an action. Most actions are about what is there, and those
// that make something about a name that is free.
func (a action) name(there func(string) bool) string {
	if a.target&anyName == 0 {
		var fit []string
		for _, n := range names {
			if there(n) {
				fit = append(fit, n)
			}
		}
		if len(fit) > 0 {
			return fit[int(a.target)%len(fit)]
		}
	}
	return names[int(a.target&^anyName)%len(names)]
}

// actor is a caller on the socket.
type actor struct {
	name string
	by   op.Requester
}

// daemonUID is the uid of the gate's own process, which is an operator's.
const daemonUID = 4242

// actors are two registered agents of different uids, a program without a name,
// and a caller with the daemon's own uid.
var actors = []actor{
	{"builder", op.Requester{Source: op.SourceAPI, UID: 1000, PID: 79, Agent: "builder"}},
	{"tester", op.Requester{Source: op.SourceAPI, UID: 1001, PID: 80, Agent: "tester"}},
	{"visitor", op.Requester{Source: op.SourceAPI, UID: 1002, PID: 81}},
	{"operator", op.Requester{Source: op.SourceAPI, UID: daemonUID, PID: 82}},
}

func (a action) by() actor { return actors[int(a.actor&^more)%len(actors)] }
