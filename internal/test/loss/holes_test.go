package loss

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"gated/internal/base/op"
)

// hole is a sequence that lost something once, or had the gate believe what was not
// so. It is a seed of FuzzSequence, too.
type hole struct {
	name string
	seq  []action
}

// does is an action of builder, about the first name that fits.
func does(k kind, args ...uint8) action {
	a := action{kind: k}
	copy(a.args[:], args)
	return a
}

// asks is a step that an actor submits.
func asks(actor uint8, name string, args ...uint8) action {
	a := does(submits, args...)
	a.actor, a.op = actor, placeOf(name)
	return a
}

// then is a further step of the same job.
func then(name string, args ...uint8) action { return asks(more, name, args...) }

// second is an action about the second name that fits.
func second(a action) action {
	a.target = 1
	return a
}

// The actors by their index, and further bits and values that sequences use.
const (
	builder, tester, visitor, operator = 0, 1, 2, 3

	withScratch = 1 << 1 // of guest.create
	withMemory  = 1 << 2
	withCommand = 1 << 4 // of guest.create: its second argument is twice the command's index
	toCommand   = 1 << 2 // of guest.set-config: its fourth argument is the command's index
	toMemory    = 1 << 0
	toLabels    = 1 << 3
	toProtected = 1 << 4

	keepIndex, purgeIndex, fillIndex, probeIndex, hideIndex = 1, 2, 3, 4, 5

	leaveWeb             = uint8(3) // of targets, where a command runs
	clearEast, clearWest = uint8(8), uint8(9)

	toProtect = 1 // of meddles, in memory

	toExchange = 3 // of directories
	toSwap     = 2 // of rooms
	toLimit    = 4
	toGuard    = 224 // and above

	toShare    = 1 // of meddles, where guests can have one disk
	toBackUp   = 5 // on Proxmox VE
	toSnapshot = 7
	toAgain    = 13
	toHold     = 14
	toNumber   = 15
	toLink     = 16

	noneIndex = 2 // of the names of snapshots, where there is none
)

var holes = []hole{
	{"an agent gives another program to a guest with data", []action{
		asks(builder, "guest.create", withCommand, 2*keepIndex), does(writes),
		asks(tester, "guest.set-config", toCommand, 0, 0, purgeIndex), asks(tester, "guest.start"),
	}},
	{"desired state gives another program to a guest with data", []action{
		asks(builder, "guest.create", withCommand, 2*keepIndex), does(writes), does(wishes, 0, 1, 0, 0, purgeIndex),
	}},
	{"a failed job takes back what others filled", []action{
		does(injects, uint8(busy), 1, 0, 1+uint8(refused)),
		asks(builder, "guest.create"), then("guest.start"),
		does(writes), does(passes, 1), does(passes, 1),
	}},
	{"a failed job takes back what its own program filled", []action{
		does(injects, uint8(refused), 2),
		asks(builder, "guest.create", withCommand, 2*fillIndex), then("guest.start"), then("guest.snapshot"),
	}},
	{"a job that a kill cut off takes back what others filled", []action{
		does(injects, uint8(refused), 1, 0, 1+uint8(killed)),
		asks(builder, "guest.create"), then("guest.snapshot"), does(writes), does(restarts),
	}},
	{"an agent destroys its scratch that another agent uses", []action{
		asks(builder, "guest.create", withScratch), asks(tester, "guest.start"), does(writes), asks(builder, "guest.destroy"),
	}},
	{"an agent destroys its scratch that desired state mentions", []action{
		asks(builder, "guest.create", withScratch), does(wishes), does(writes), asks(builder, "guest.destroy"),
	}},
	{"a back end says that it changed what it did not", []action{
		asks(builder, "guest.create"), does(injects, uint8(lied)), asks(builder, "guest.set-config", toProtected),
	}},
	{"a back end says that it made a snapshot", []action{
		asks(builder, "guest.create"), does(injects, uint8(lied)), asks(builder, "guest.snapshot"),
	}},
	{"a back end says that it took a label away", []action{
		asks(builder, "guest.create"), asks(builder, "guest.set-config", toLabels, 0, 0, 0, 3), asks(builder, "guest.set-config", toLabels),
		does(injects, uint8(lied)), does(approves),
	}},
	{"a snapshot and its restore take what came between", []action{
		asks(builder, "guest.create"), asks(builder, "guest.snapshot"), does(writes), asks(builder, "guest.restore"),
	}},
	{"labels are added while an operator reads", []action{
		asks(builder, "guest.create"), asks(builder, "guest.destroy"), does(shows), asks(tester, "guest.set-config", toLabels), does(signsLate),
	}},
	{"memory is changed while an operator reads", []action{
		asks(builder, "guest.create"), asks(builder, "guest.destroy"), does(shows), asks(tester, "guest.set-config", 1), does(signsLate),
	}},
	{"scratch does not grow old while the clock is wrong", []action{
		asks(builder, "guest.create", withScratch), does(writes), does(steps, 7), does(reboots), does(passes, 6), asks(builder, "guest.destroy"),
	}},
	{"a destroy that a kill cut off", []action{
		asks(builder, "guest.create"), does(writes), asks(builder, "guest.destroy"), does(injects, uint8(killed)), does(approves), does(passes, 1),
	}},
	{"a name is taken whose guest is in the trash", []action{
		asks(builder, "guest.create"), does(writes), asks(tester, "guest.destroy"), does(approves), asks(visitor, "guest.create"),
	}},
	{"an agent brings back what an operator destroyed", []action{
		asks(builder, "guest.create"), does(writes), asks(operator, "guest.destroy"), does(approves), asks(builder, "guest.undelete"),
	}},
	{"an agent brings back what an operator's failed destroy destroyed", []action{
		asks(builder, "guest.create"), does(writes), asks(builder, "guest.destroy"), does(injects, uint8(lost)), does(approves),
		asks(operator, "guest.destroy"), does(injects, uint8(flakyDone)), does(approves), asks(builder, "guest.undelete"),
	}},
	{"a back end says that it made a backup", []action{
		asks(builder, "guest.create"), does(injects, uint8(lied)), asks(builder, "guest.backup"),
	}},
	{"the clock was ahead when a request was issued", []action{
		does(steps, 6), does(reboots), does(passes, 6), does(steps, 7), asks(builder, "guest.create"), asks(builder, "guest.destroy"), does(reboots),
	}},
	{"the clock jumps within the second of a boot, and the daemon is killed", []action{
		asks(builder, "guest.create"), does(writes), asks(builder, "guest.destroy"), does(approves), does(reboots), does(steps, 6), does(kills), does(sweeps),
	}},
	{"a guest's program reaches files of the gate", []action{
		asks(builder, "guest.create", withCommand, 2*probeIndex), asks(builder, "guest.start"),
	}},
	{"a sweep takes what a caller asked to undelete", []action{
		asks(builder, "guest.create"), does(writes), asks(builder, "guest.destroy"), does(approves), asks(tester, "guest.undelete"),
		does(passes, 7), does(sweeps),
	}},
	{"a set asks again and again for what waits", []action{
		does(wishes, 0, 0), does(injects, uint8(busy), 0, 0, 1+uint8(flakyDone)), asks(tester, "guest.snapshot"),
		does(wishes, 0, 0, 0, 0, purgeIndex), does(passes, 2),
	}},
	{"a failed job sets back what another one set since", []action{
		asks(builder, "guest.create", withMemory), asks(builder, "guest.create"), does(injects, uint8(busy), 1),
		asks(builder, "guest.set-config", toMemory, 1), second(then("guest.snapshot")), asks(operator, "guest.set-config", toMemory, 1),
		does(injects, uint8(failed)), does(passes, 1),
	}},
	{"a failed job sets back what somebody set by hand since", []action{
		asks(builder, "guest.create", withMemory, 0, 0, 2), asks(builder, "guest.create"), does(passes), does(injects, uint8(busy), 1),
		asks(builder, "guest.set-config", toMemory, 1), second(then("guest.snapshot")), does(meddles), does(injects, uint8(failed)), does(passes, 1),
	}},
	{"an agent destroys its scratch whose disk an administrator gave to another guest", []action{
		asks(builder, "guest.create", withScratch), asks(tester, "guest.create"), does(writes), does(meddles, toShare), asks(builder, "guest.destroy"),
	}},
	{"a newcomer has the number of a guest that is gone, and its backups", []action{
		asks(builder, "guest.create", withScratch), does(writes), does(meddles, toBackUp), asks(builder, "guest.destroy"), does(restarts),
		asks(tester, "guest.create"), does(meddles, toBackUp), does(meddles, toBackUp), does(meddles, toBackUp),
	}},
	{"a request is issued anew between two calls", []action{
		asks(builder, "guest.create"), asks(builder, "guest.destroy"), does(shows), does(meddles, toProtect), does(ticks), does(signsLate, 0, 1),
	}},
	{"a stop leaves a process that no look finds", []action{
		asks(builder, "guest.create", withCommand, 2*hideIndex), asks(builder, "guest.start"), asks(builder, "guest.stop"),
	}},
	{"a command leaves a process", []action{{kind: submits, target: leaveWeb, op: placeOf("command.run")}}},
	{"a guest is protected after the permit of its destroy", []action{
		asks(builder, "guest.create"), does(writes), does(lurks, toProtect), asks(builder, "guest.destroy"), does(approves),
	}},
	{"a guest is protected in its file after the permit of its destroy", []action{
		asks(builder, "guest.create", withScratch), does(writes), does(lurks, toGuard), asks(builder, "guest.destroy"),
	}},
	{"a failed job sets back what somebody set by hand within that", []action{
		asks(builder, "guest.create", withMemory, 0, 0, 2), asks(builder, "guest.create"), does(passes), does(injects, uint8(busy), 1),
		asks(builder, "guest.set-config", toMemory, 1), second(then("guest.snapshot")), does(lurks), does(injects, uint8(failed)), does(passes, 1),
	}},
	{"a failed job sets back what somebody wrote into a guest's file within that", []action{
		asks(builder, "guest.create", withMemory, 0, 0, 2), asks(builder, "guest.create"), does(passes), does(injects, uint8(busy), 1),
		asks(builder, "guest.set-config", toMemory, 1), second(then("guest.snapshot")), does(lurks, toLimit), does(injects, uint8(failed)), does(passes, 1),
	}},
	{"a disk is given to another guest after the permit of its guest's destroy", []action{
		asks(builder, "guest.create", withScratch), asks(tester, "guest.create"), does(writes), does(lurks, toShare), asks(builder, "guest.destroy"),
	}},
	{"a snapshot is taken while a guest is destroyed", []action{
		asks(builder, "guest.create"), does(writes), does(lurks, toSnapshot, 4), asks(builder, "guest.destroy"), does(approves),
	}},
	{"two directories are exchanged after the permit of a destroy", []action{
		asks(builder, "guest.create"), asks(builder, "guest.create"), second(does(writes)), does(lurks, toExchange),
		asks(builder, "guest.destroy"), does(approves),
	}},
	{"a failed job takes back what started after the clock went back", []action{
		does(steps, 7), does(passes), does(injects, uint8(flaky), 1, 1, 1+uint8(panics)), then("guest.create"), then("guest.create"),
		does(wishes, 0, 201), does(reboots),
	}},
	{"a room is led elsewhere after the permit of what empties it", []action{
		{kind: writes, target: clearWest}, {kind: submits, target: clearEast, op: placeOf(op.Run)}, does(lurks), does(approves),
	}},
	{"a room is led elsewhere after its request was shown", []action{
		{kind: writes, target: clearWest}, {kind: submits, target: clearEast, op: placeOf(op.Run)}, does(shows),
		{kind: meddles, target: clearEast}, does(signsLate), does(approves), {kind: writes, target: clearEast},
	}},
	{"an agent destroys the scratch that another agent asked for, too", []action{
		asks(visitor, "guest.create"), asks(visitor, "guest.destroy"), does(approves),
		asks(builder, "guest.create", withScratch), asks(tester, "guest.create", withScratch), does(approves), does(writes), asks(builder, "guest.destroy"),
	}},
	{"a restore of a snapshot that is not there", []action{
		asks(builder, "guest.create"), asks(tester, "guest.restore"), does(approves),
	}},
	{"a delete of a snapshot that is not there", []action{
		asks(builder, "guest.create"), asks(tester, "guest.snapshot-delete"), does(approves),
	}},
	{"a delete of a backup that is not there", []action{
		asks(builder, "guest.create"), asks(tester, "guest.backup-delete"), does(approves),
	}},
	{"a backup is to be restored over a guest that runs", []action{
		asks(builder, "guest.create"), asks(builder, "guest.backup"), does(writes), asks(tester, "guest.backup-restore"), does(approves),
	}},
	{"the root of a container is to be deleted alone", []action{
		asks(builder, "guest.create"), does(writes), asks(tester, "guest.disk-delete"), does(approves),
	}},
	{"a snapshot that is called none", []action{
		asks(builder, "guest.create"), asks(builder, "guest.snapshot", 0, noneIndex), asks(tester, "guest.restore", 0, noneIndex), does(approves),
	}},
	{"a name that differs from another one only in case", []action{
		asks(builder, "guest.create"), does(writes), {kind: submits, target: anyName | uint8(len(names)-1), op: placeOf("guest.create")},
	}},
	{"a number is taken right after its guest's destroy", []action{
		asks(builder, "guest.create", withScratch), does(writes), does(lurks, toNumber, lastMoment), asks(builder, "guest.destroy"),
	}},
	{"a limit is set below the memory that programs hold", []action{
		asks(builder, "guest.create", withMemory, 0, 0, 1), does(meddles, toHold), asks(tester, "guest.set-config", toMemory),
	}},
	{"an agent destroys its scratch whose disk was deleted and made again", []action{
		asks(builder, "guest.create", withScratch), does(writes), does(meddles, toAgain), asks(builder, "guest.destroy"),
	}},
	{"a disk is deleted and made again after the permit of its guest's destroy", []action{
		asks(builder, "guest.create", withScratch), does(writes), does(lurks, toAgain), asks(builder, "guest.destroy"),
	}},
	{"two rooms are exchanged after a request was shown", []action{
		{kind: writes, target: clearEast}, {kind: writes, target: clearWest}, {kind: submits, target: clearEast, op: placeOf(op.Run)}, does(shows),
		{kind: meddles, target: clearEast, args: [5]uint8{toSwap}}, does(signsLate), does(approves), {kind: writes, target: clearEast},
	}},
}

// alone has the holes that only these beds can have: the others lack the operation, the
// program, or the hand.
var alone = map[string]string{
	"a back end says that it made a backup":                                           "proxmox",
	"a guest's program reaches files of the gate":                                     "local",
	"a request is issued anew between two calls":                                      "memory",
	"a stop leaves a process that no look finds":                                      "local",
	"a command leaves a process":                                                      "command",
	"a failed job sets back what somebody set by hand since":                          "memory",
	"an agent destroys its scratch whose disk an administrator gave to another guest": "proxmox",
	"a newcomer has the number of a guest that is gone, and its backups":              "proxmox",
	"a guest is protected after the permit of its destroy":                            "memory",
	"a guest is protected in its file after the permit of its destroy":                "local",
	"a failed job sets back what somebody set by hand within that":                    "memory libvirt proxmox proxmox-lxc",
	"a failed job sets back what somebody wrote into a guest's file within that":      "local",
	"a disk is given to another guest after the permit of its guest's destroy":        "proxmox",
	"a snapshot is taken while a guest is destroyed":                                  "proxmox",
	"two directories are exchanged after the permit of a destroy":                     "local",
	"a room is led elsewhere after the permit of what empties it":                     "command",
	"a room is led elsewhere after its request was shown":                             "command",
	"two rooms are exchanged after a request was shown":                               "command",
	"an agent destroys the scratch that another agent asked for, too":                 "local",
	"a restore of a snapshot that is not there":                                       "memory local libvirt proxmox proxmox-lxc",
	"a delete of a snapshot that is not there":                                        "memory local libvirt proxmox proxmox-lxc",
	"a delete of a backup that is not there":                                          "proxmox proxmox-lxc",
	"a backup is to be restored over a guest that runs":                               "proxmox proxmox-lxc",
	"the root of a container is to be deleted alone":                                  "proxmox-lxc",
	"a snapshot that is called none":                                                  "memory local libvirt proxmox proxmox-lxc",
	"a name that differs from another one only in case":                               "local libvirt proxmox proxmox-lxc",
	"a number is taken right after its guest's destroy":                               "proxmox proxmox-lxc",
	"a limit is set below the memory that programs hold":                              "proxmox-lxc",
	"an agent destroys its scratch whose disk was deleted and made again":             "proxmox proxmox-lxc",
	"a disk is deleted and made again after the permit of its guest's destroy":        "proxmox proxmox-lxc",
}

// says are what holes show that the gate refuses: the code, and the beginning of its sentence. Or that a hand came in time.
var says = map[string][]string{
	"a restore of a snapshot that is not there":                                {"refused: unknown_target: guest/web has no snapshot"},
	"a delete of a snapshot that is not there":                                 {"refused: unknown_target: guest/web has no snapshot"},
	"a delete of a backup that is not there":                                   {"refused: unknown_target: guest/web has no backup"},
	"a backup is to be restored over a guest that runs":                        {"refused: conflict: guest/web runs"},
	"the root of a container is to be deleted alone":                           {"refused: bad_params: a container's root cannot be deleted alone"},
	"a snapshot that is called none":                                           {"refused: bad_params: ", "refused: unknown_target: guest/web has no snapshot"},
	"a name that differs from another one only in case":                        {"refused: conflict: guest/WEB differs from guest/web only in case"},
	"a number is taken right after its guest's destroy":                        {"another guest has the number 500", "guest.destroy web map[] by agent:builder: succeeded"},
	"a limit is set below the memory that programs hold":                       {"hold 128 MiB", "guest.set-config web map[memory:64]: pending"},
	"an agent destroys its scratch whose disk was deleted and made again":      {"was deleted and made again", "guest.destroy web map[]: pending"},
	"a disk is deleted and made again after the permit of its guest's destroy": {"at moment 0 of j2.1", "changed while the step was under way"},
}

// playsHole reports whether a hole is played on a bed: on memory and local, if alone
// does not name others.
func playsHole(bed, hole string) bool {
	if only := alone[hole]; only != "" {
		return slices.Contains(strings.Fields(only), bed)
	}
	return bed == "memory" || bed == "local"
}

// TestHoles plays what lost something once.
func TestHoles(t *testing.T) {
	for _, b := range beds {
		t.Run(b.name, func(t *testing.T) {
			for _, h := range holes {
				if playsHole(b.name, h.name) {
					t.Run(h.name, func(t *testing.T) { playHole(t, b.make(t), h) })
				}
			}
		})
	}
}

func playHole(t *testing.T, b bed, h hole) {
	p, err := try(t, b, h.seq)
	if err != nil {
		t.Fatalf("%s", found{h.seq, p, err})
	}
	if p.o.steps == 0 {
		t.Fatalf("no step of it ran:\n%s", found{h.seq, p, err})
	}
	for _, text := range says[h.name] {
		if !slices.ContainsFunc(p.o.told, func(line string) bool { return strings.Contains(line, text) }) {
			t.Errorf("it does not show %q:\n%s", text, found{h.seq, p, err})
		}
	}
}

// TestEveryHoleHasItsName asks that what is said of a hole by its name is said of one that there is.
func TestEveryHoleHasItsName(t *testing.T) {
	for _, name := range slices.Concat(slices.Collect(maps.Keys(alone)), slices.Collect(maps.Keys(says))) {
		if !slices.ContainsFunc(holes, func(h hole) bool { return h.name == name }) {
			t.Errorf("there is no hole %q", name)
		}
	}
}

// TestBytesAreSequences asks that a sequence can be written as bytes and read again,
// and that the generator reaches every operation of the catalogue.
func TestBytesAreSequences(t *testing.T) {
	for _, h := range holes {
		if !slices.Equal(decode(encode(h.seq)), h.seq) {
			t.Errorf("%s is read as %v", h.name, decode(encode(h.seq)))
		}
	}
	for _, s := range op.Catalogue() {
		if got := operations.at(placeOf(s.Name)).Name; got != s.Name {
			t.Errorf("%s is read as %s", s.Name, got)
		}
	}
	if got := len(decode(make([]byte, (maxActions+1)*actionSize-1))); got != maxActions {
		t.Errorf("%d actions were read, not %d", got, maxActions)
	}
}
