package op

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// KindGuest is the kind of virtual machines, containers and workspaces.
const KindGuest = "guest"

const guestCovers = "name, protection, labels, command, storage ids and sizes class, snapshots; no limit on memory or cpus"

// Guarded returns the fields of a guest's spec that a fingerprint covers. Changing
// limits on memory and cpus loses nothing, so such a change must not
// invalidate a signature.
func Guarded(spec Params) Params {
	out := maps.Clone(spec)
	delete(out, "memory")
	delete(out, "cpus")
	return out
}

// guestFields are the fields of a new guest, which desired state may also wish for.
// Both sides of a diff use these units.
var guestFields = []Param{
	{Name: "memory", Type: TInt, Unit: "MiB", Min: 1, Max: 64 << 20, Doc: "memory limit"},
	{Name: "cpus", Type: TInt, Unit: "CPUs", Min: 1, Max: 4096, Doc: "CPU limit"},
	{Name: "command", Type: TString, Doc: "an entry of local.commands in gated.yaml"},
	{Name: "labels", Type: TLabels, Doc: "labels, all of them"},
	{Name: "protected", Type: TBool, Doc: "protection against destroy"},
}

var (
	snapshotParam = Param{Name: "snapshot", Type: TString, Required: true, Doc: "the snapshot's name"}
	diskParam     = Param{Name: "disk", Type: TString, Required: true, Doc: "the disk, as gated guests shows it: vda, scsi0"}
	sizeParam     = Param{Name: "size", Type: TInt, Unit: "MiB", Min: 1, Max: 1 << 30, Required: true, Doc: "how large it is then"}
	backupParam   = Param{Name: "backup", Type: TString, Required: true, Doc: "the backup's name, as gated guests shows it"}
	scratchParam  = Param{Name: "scratch", Type: TBool, JobOnly: true, Doc: "record what this makes as scratch"}
)

// guestRows are the operations on guests, on their disks and on their copies.
func guestRows() []Spec {
	return append([]Spec{
		createRow(), cloneRow(), undeleteRow(), startRow(), stopRow(), restartRow(), configRow(), destroyRow(),
	}, guestDataRows()...)
}

// destroyIt says how people take back a guest that a step made or brought back.
const destroyIt = "destroy it"

func createRow() Spec {
	s := guest("create", "make a guest under a free name", append([]Param{
		{Name: "state", Type: TString, Doc: "running or stopped (default stopped)"}, scratchParam}, guestFields...)...)
	s.Params = append(s.Params, Param{Name: "template", Type: TString, JobOnly: true,
		Doc: "an entry of the back end's templates in gated.yaml"})
	s.Creates, s.Identity, s.Shows, s.Undo, s.Done = true, Makes, made, undoneByDestroy, "created"
	s.ByHand = byHand(destroyIt)
	s.Rules = []Rule{nameInTrash(Case.foreign), {Name: "create-new", Class: Benign, Why: say("the name is free, and what is made is new")}}
	return s
}

func cloneRow() Spec {
	s := guest("clone", "make a guest under a free name that is a full copy of another",
		Param{Name: "from", Type: TString, Required: true, Doc: "the guest to copy"}, scratchParam)
	s.Creates, s.Identity, s.Shows, s.Undo, s.Done = true, Makes, made, undoneByDestroy, "made a copy as"
	s.ByHand = byHand(destroyIt)
	s.Rules = []Rule{nameInTrash(Case.foreign), {Name: "clone", Class: Benign, Why: say("the name is free, and the guest that is copied stays as it is")}}
	return s
}

func undeleteRow() Spec {
	s := guest("undelete", "bring a destroyed guest back from the trash, under a free name",
		Param{Name: "from", Type: TString, Doc: "the name that it had, if it comes back under another one"},
		Param{Name: "incarnation", Type: TString, Doc: "which one, if several are in the trash"})
	s.Creates, s.Identity, s.Shows, s.Done = true, Revives, revived, "brought back"
	s.ByHand = byHand(destroyIt)
	s.Promotes = "a step brought it back from the trash"
	s.Rules = []Rule{
		nameInTrash(Case.squatted),
		{Name: "undelete-foreign", Class: Destructive, When: foreignTrash, Why: func(c Case) string {
			d, _ := c.foreign()
			return "it brings back a guest that was destroyed, and " + d.endedBy()
		}},
		{Name: "undelete", Class: Benign, Why: say("its requester may take the destroy back")},
	}
	return s
}

func startRow() Spec {
	s := guest("start", "start a guest")
	s.Starts, s.Runtime, s.Fleeting, s.Done = true, true, true, "started"
	s.Shows = func(_ Step, o Observed) Evidence { return shows(o.Running == Running) }
	s.Undo = func(_ Step, before Observed) (string, Params) {
		if before.Running != Stopped {
			return "", nil
		}
		return "guest.stop", nil
	}
	s.Takes = "what another guest keeps on a disk that both have"
	s.Fates = func(Params) Fates { return Fates{Goes: wouldWrite, Open: []string{"saved state"}} } // from which it goes on
	s.Rules = []Rule{startShared(startsShared), {Name: "start", Class: Benign, Why: say("the guest's state survives it")}}
	return s
}

// startShared is the rule for a guest that would write a disk that another guest
// writes too. Two systems that write one disk destroy its data.
func startShared(when func(Case) bool) Rule {
	return Rule{Name: "start-shared", Class: Destructive, When: when,
		Why: func(c Case) string { return "it would write " + strings.Join(c.Observed.Shares, "; ") }}
}

func sharesAny(c Case) bool { return len(c.Observed.Shares) > 0 }

// startsShared does not hold for a guest that runs, because starting it does
// nothing.
func startsShared(c Case) bool { return sharesAny(c) && c.Observed.Running != Running }

// wouldWrite names the fact on what a guest writes when it runs that another guest has too.
var wouldWrite = []string{"would write"}

// stopRules are the rules of stop and restart.
var stopRules = []Rule{
	{Name: "stop-volatile", Class: Destructive, When: func(c Case) bool { return c.Observed.Volatile },
		Why: say("the guest holds state that ends with it")},
	{Name: "stop", Class: Benign, Why: say("the guest's state survives it")},
}

func stopRow() Spec {
	s := guest("stop", "stop a guest")
	s.Takes = "state that a guest without a disk of its own holds in memory"
	s.Fates = endsRun(runs)
	s.Runtime, s.Rules, s.Done = true, stopRules, "stopped"
	s.Shows = func(_ Step, o Observed) Evidence { return shows(o.Running == Stopped) }
	s.Undo = func(_ Step, before Observed) (string, Params) {
		if before.Running != Running {
			return "", nil
		}
		return "guest.start", nil
	}
	return s
}

// endsRun is the Fates of an operation that ends a run. What was written to a transient disk goes with it.
func endsRun(lists ...[]string) func(Params) Fates {
	goes := slices.Concat(lists...)
	return func(Params) Fates { return Fates{Goes: goes, Open: []string{"disk *", "other disk *", "disks"}} }
}

func restartRow() Spec {
	s := guest("restart", "stop and start a guest")
	s.Takes = "state that a guest without a disk of its own holds in memory; what another guest keeps on a disk that both have"
	s.Fates = endsRun(runs, wouldWrite)
	s.Starts, s.Runtime, s.Fleeting, s.Done = true, true, true, "restarted"
	// A restart applies the configuration, even if the guest runs already.
	s.Rules = append([]Rule{startShared(sharesAny)}, stopRules...)
	// A running guest may have been restarted or not. A stopped guest was stopped
	// and not started.
	s.Shows = func(_ Step, o Observed) Evidence {
		if o.Running == Stopped {
			return ShowsUndone
		}
		return ShowsNothing
	}
	return s
}

func configRow() Spec {
	s := guest("set-config", "change the given fields, leave the others", guestFields...)
	s.Takes = "protection and labels, which guard the guest; by another program, all data of the guest; by less memory than it uses, what its programs hold"
	s.Done, s.Undo, s.Changes, s.Guarded = "changed", undoConfig, configChanges, Guarded
	s.Fates, s.ByHand = configFates, configByHand
	// A step names all labels that the guest will have. So a label that stayed shows
	// that the step was not done.
	s.Shows = func(s Step, o Observed) Evidence {
		for name, v := range s.Params {
			if !o.Has(name, v) || name == "labels" && !maps.Equal(s.Params.Labels(name), o.Labels) {
				return ShowsUndone
			}
		}
		return ShowsDone
	}
	s.Rules = []Rule{
		{Name: "unprotect", Class: Destructive, When: takesProtection, Why: say("it takes the protection away")},
		{Name: "label-removed", Class: Destructive, When: func(c Case) bool { return len(lostLabels(c)) > 0 }, Why: labelsLost},
		{Name: "program-swapped", Class: Destructive, When: swapsProgram, Why: func(c Case) string {
			return fmt.Sprintf("the next start would run %s instead of %s on the guest's data", program(c.Step.Params), program(c.Observed.Spec))
		}},
		{Name: memoryInUse, Class: Destructive, When: takesMemory, Why: func(c Case) string {
			return fmt.Sprintf("its programs hold %d MiB now, and the kernel would kill some of them at once", c.Observed.MemoryUsed)
		}},
		{Name: "config-no-loss", Class: Benign, Why: say("these fields lose nothing")},
	}
	return s
}

// memoryInUse is the rule of a memory limit that makes the kernel kill programs.
const memoryInUse = "memory-in-use"

// configFates has the data at risk of another program, which works on it as it likes once it runs.
func configFates(p Params) Fates {
	of := Fates{Goes: []string{FactPrograms}}
	if p.Has("command") {
		of.AtRisk = data
	}
	return of
}

// configByHand has no way back from another program: whoever starts the guest, or a set that wants it to run, mostly needs no signature.
func configByHand(p Params, facts []Fact) string {
	if p.Has("command") || slices.ContainsFunc(facts, func(f Fact) bool { return f.Name == FactPrograms }) {
		return ""
	}
	return "change it back"
}

// takesMemory holds if the step sets a limit below what the guest's programs hold. An agent may do so in its own live scratch.
func takesMemory(c Case) bool {
	return c.Step.Params.Has("memory") && c.Step.Params.Int("memory") < c.Observed.MemoryUsed && !LiveScratch(c)
}

// undoConfig restores the fields as they were. It leaves protection and labels,
// because restoring them could only remove protection.
func undoConfig(s Step, before Observed) (string, Params) {
	old := Params{}
	for _, name := range []string{"memory", "cpus", "command"} {
		if s.Params.Has(name) && before.Spec.Has(name) {
			old[name] = before.Spec[name]
		}
	}
	if len(old) == 0 {
		return "", nil
	}
	return "guest.set-config", old
}

// swapsProgram holds if another program would get the guest's data. The guest's
// creator may swap the program while nothing was written into the guest. An agent
// may in its own live scratch. The gate may when it takes back the job that made the
// guest.
func swapsProgram(c Case) bool {
	if !c.Step.Params.Has("command") || c.Observed.Spec.Has("command") && c.Observed.Has("command", c.Step.Params["command"]) {
		return false
	}
	return !LiveScratch(c) && !(c.ofCreator() && c.pristine()) && !undoesOwnWork(c)
}

func program(p Params) string {
	if name := p.Str("command"); name != "" {
		return name
	}
	return "no program"
}

func takesProtection(c Case) bool {
	return c.Observed.Protected && c.Step.Params.Has("protected") && !c.Step.Params.Bool("protected")
}

func destroyRow() Spec {
	s := guest("destroy", "destroy a guest with its data and snapshots")
	s.Takes = "the guest, its data and its snapshots, from all who use it"
	s.Fates = takes([]string{"guest", "snapshots", "definition"}, data, states, runs, others)
	s.Identity, s.Done = Ends, "destroyed"
	s.Before = func(o Observed) []string { return o.Self }
	// The step destroys the incarnation, not the name. So another incarnation of
	// that name shows that the first is gone.
	s.Shows = func(s Step, o Observed) Evidence {
		switch {
		case s.Incarnation == "", o.Lingers != "":
			return ShowsNothing
		case !o.Present || o.Incarnation != s.Incarnation:
			return ShowsDone
		default:
			return ShowsUndone
		}
	}
	s.Undo = func(s Step, _ Observed) (string, Params) {
		return "guest.undelete", Params{"incarnation": string(s.Incarnation)}
	}
	s.Rules = takingRules(
		Rule{Name: "undo-own-work", Class: Benign, When: undoesOwnWork, Why: say("it takes back what this same job made, every part of it")},
		Rule{Name: "live-scratch", Class: Benign, When: LiveScratch, Why: say("this gate made it as scratch, and its creator asks")},
		Rule{Name: "destroy-unproven", Class: Destructive, Why: func(c Case) string {
			return "the guest and its data would be gone, and " + unproven(c)
		}})
	return s
}

func undoneByDestroy(Step, Observed) (string, Params) { return "guest.destroy", nil }

// made compares the token that the gate chose, because only it tells the gate's own
// work from another guest of the same name.
func made(s Step, o Observed) Evidence {
	switch {
	case !o.Present:
		return ShowsUndone
	case s.Birth != "" && o.Birth == s.Birth:
		return ShowsDone
	default:
		return ShowsTaken
	}
}

func revived(s Step, o Observed) Evidence {
	which := Incarnation(s.Params.Str("incarnation"))
	switch {
	case !o.Present:
		return ShowsUndone
	case which == "", o.Incarnation == which:
		// The name was free at the dispatch. If the step names no incarnation of the
		// trash, any guest with the name is what it asked for. The gate records nothing
		// new about it.
		return ShowsDone
	default:
		return ShowsTaken
	}
}

func hasSnapshot(s Step, o Observed) bool {
	return slices.Contains(o.Snapshots, s.Params.Str("snapshot"))
}

// guestDataRows are the operations on what a guest holds: its data, disks,
// snapshots and backups.
func guestDataRows() []Spec {
	return append(append(snapshotRows(), diskRows()...), backupRows()...)
}

func snapshotRows() []Spec {
	take := guest("snapshot", "copy a guest's data under a name", snapshotParam)
	take.Done, take.Fates = "took a snapshot of", takes()
	take.Shows = func(s Step, o Observed) Evidence { return shows(hasSnapshot(s, o)) }
	take.Rules = []Rule{{Name: "snapshot", Class: Benign, Why: say("it only adds a copy")}}

	del := guest("snapshot-delete", "delete a snapshot", snapshotParam)
	del.Copy, del.Takes, del.Done = "snapshot", "a copy of a guest's data", "deleted a snapshot of"
	del.Fates = takesCopy("snapshot")
	del.Shows = func(s Step, o Observed) Evidence { return shows(!hasSnapshot(s, o)) }
	del.Rules = takingRules(Rule{Name: "snapshot-delete", Class: Destructive, Why: say("it deletes a copy of data")})

	restore := guest("restore", "put a snapshot in the place of a guest's data", snapshotParam)
	restore.Takes, restore.Identity, restore.Done = "all that was written since the snapshot", Renews, "restored"
	restore.Promotes, restore.Copy = "a step restored something into it", "snapshot"
	restore.Fates = func(Params) Fates {
		return Fates{Goes: slices.Concat([]string{FactOverwritten}, runs, others), Open: slices.Concat(data, states)}
	}
	restore.Rules = takingRules(scratchRule(), Rule{Name: "restore-over", Class: Destructive, Why: say("it overwrites the guest's data")})

	wipe := guest("wipe", "empty a guest's data")
	wipe.Takes, wipe.Identity, wipe.Done, wipe.Fates = "all of a guest's data", Renews, "wiped", takes(data, runs, others)
	wipe.Rules = takingRules(scratchRule(), Rule{Name: "wipe", Class: Destructive, Why: say("it empties the guest's data")})
	return []Spec{take, del, restore, wipe}
}

func scratchRule() Rule {
	return Rule{Name: "live-scratch", Class: Benign, When: LiveScratch, Why: say("this gate made it as scratch, and its creator asks")}
}

// takesCopy is the Fates of an operation that deletes a copy of that kind.
func takesCopy(kind string) func(Params) Fates {
	return func(Params) Fates {
		return Fates{Goes: []string{kind, kind + " holds", kind + " made by"}, Open: []string{kind + "s"}}
	}
}

const disksChanged = "a step changed its disks"

func hasDisk(s Step, o Observed) bool { _, ok := o.Disk(s.Params.Str("disk")); return ok }

func diskRows() []Spec {
	create := guest("disk-create", "add a new, empty disk", diskParam, sizeParam)
	create.Identity, create.Promotes, create.Done, create.Fates = Renews, disksChanged, "added a disk to", takes()
	create.Shows = func(s Step, o Observed) Evidence { return shows(hasDisk(s, o)) }
	create.Rules = []Rule{{Name: "disk-new", Class: Benign, Why: say("the disk is new, and empty")}}

	resize := guest("disk-resize", "make a disk larger, or cut its end off", diskParam, sizeParam)
	resize.Takes, resize.Done = "what lies beyond a disk's new end", "resized a disk of"
	resize.Changes, resize.Fates = resizeChanges, func(p Params) Fates { return Fates{Open: takesDisk(p).Goes} }
	resize.Shows = func(s Step, o Observed) Evidence {
		d, ok := o.Disk(s.Params.Str("disk"))
		return shows(ok && d.Size == s.Params.Int("size")<<20)
	}
	resize.Rules = []Rule{
		{Name: "disk-grow", Class: Benign, When: grows, Why: say("what is on the disk stays")},
		{Name: "disk-shrink", Class: Destructive, Why: say("it cuts off the end of the disk, or the size of the disk is not known")},
	}

	wipe := guest("disk-wipe", "empty a disk", diskParam)
	wipe.Takes, wipe.Identity, wipe.Done, wipe.Fates = "all that is on a disk", Renews, "wiped a disk of", takesDisk
	wipe.Rules = takingRules(Rule{Name: "disk-wipe", Class: Destructive, Why: say("it empties the disk")})

	detach := guest("disk-detach", "take a disk off a guest and keep it", diskParam)
	detach.Takes, detach.Identity, detach.Promotes = "a disk from its guest", Renews, disksChanged
	detach.Done, detach.Fates = "took a disk off", takesDisk
	detach.Shows = func(s Step, o Observed) Evidence { return shows(!hasDisk(s, o)) }
	detach.Rules = takingRules(Rule{Name: "disk-detach", Class: Destructive,
		Why: say("it takes the disk off the guest, and then no guest keeps the disk")})

	del := guest("disk-delete", "delete a disk", diskParam)
	del.Takes, del.Identity, del.Promotes, del.Done = "a disk and what is on it", Renews, disksChanged, "deleted a disk of"
	del.Fates = takesDisk
	del.Shows = func(s Step, o Observed) Evidence {
		// A back end may take a disk off first. A disk that is kept has another name, and the guest is the incarnation that it was.
		if !hasDisk(s, o) && (s.Incarnation == "" || o.Incarnation == s.Incarnation) && slices.ContainsFunc(o.Disks, func(d Disk) bool { return d.Off }) {
			return ShowsNothing
		}
		return detach.Shows(s, o)
	}
	del.Rules = takingRules(Rule{Name: "disk-delete", Class: Destructive, Why: say("it deletes the disk and what is on it")})
	return []Spec{create, resize, wipe, detach, del}
}

// grows holds if the size of the disk is known and not larger than the wished size.
func grows(c Case) bool {
	d, ok := c.Observed.Disk(c.Step.Params.Str("disk"))
	return ok && d.Size > 0 && c.Step.Params.Int("size") >= (d.Size+mebibyte-1)/mebibyte
}

const mebibyte = 1 << 20

func backupRows() []Spec {
	take := guest("backup", "copy a guest to where its backups are",
		Param{Name: "rotate", Type: TBool, Doc: "let the backups' retention delete older ones"})
	take.Takes, take.Done = "with rotate, older backups of the guest", "backed up"
	take.Fates = func(p Params) Fates {
		if p.Bool("rotate") {
			return Fates{Open: []string{"backups"}}
		}
		return Fates{}
	}
	take.ByHand = func(p Params, _ []Fact) string {
		if p.Bool("rotate") {
			return ""
		}
		return "delete the backup"
	}
	take.Before, take.Shows = Observed.listed, oneMoreBackup
	take.Unproven = true // a back end lists a backup before it is complete
	take.Rules = []Rule{
		{Name: "backup", Class: Benign, When: func(c Case) bool { return !c.Step.Params.Bool("rotate") }, Why: say("it only adds a copy")},
		{Name: "backup-prunes", Class: Destructive, Why: say("it lets the backups' retention delete older copies")},
	}

	restore := guest("backup-restore", "put a backup in the place of a guest and its disks", backupParam)
	restore.Takes, restore.Identity = "the guest as it is and all that was written since the backup", Renews
	restore.Fates = takes([]string{"guest", FactOverwritten, "not in the backup", "snapshots"}, data, states, runs, others)
	restore.Promotes, restore.Done, restore.Copy = "a step restored something into it", "put a backup in the place of", "backup"
	restore.Rules = takingRules(Rule{Name: "backup-restore", Class: Destructive, Why: say("it overwrites the guest and its disks")})

	del := guest("backup-delete", "delete a backup", backupParam)
	del.Copy, del.Takes, del.Done = "backup", "a copy of a guest's data", "deleted a backup of"
	del.Fates = takesCopy("backup")
	del.Shows = func(s Step, o Observed) Evidence {
		if o.listed() == nil {
			return ShowsNothing // they cannot be listed now
		}
		return shows(!slices.Contains(o.listed(), s.Params.Str("backup")))
	}
	del.Rules = takingRules(Rule{Name: "backup-delete", Class: Destructive, Why: say("it deletes a copy of data")})
	return []Spec{take, restore, del}
}

// oneMoreBackup looks for a backup that was not there at the dispatch, because the
// back end chooses its name.
func oneMoreBackup(s Step, o Observed) Evidence {
	if s.Before == nil || o.listed() == nil {
		return ShowsNothing
	}
	return shows(slices.ContainsFunc(o.listed(), func(name string) bool { return !slices.Contains(s.Before, name) }))
}

// Copy is the snapshot or the backup that a look's step restores or deletes.
type Copy struct {
	Kind string    // "snapshot" or "backup", which is also the parameter that names it
	Name string    // as steps use it
	Made time.Time // by the back end's clock; zero if the back end does not say
}

// Facts returns what people should see before a copy replaces a target's data or is
// deleted. The driver calls it and says in holds how much the copy has. If the step
// restores, over says what is overwritten. If the back end cannot tell, the texts
// say so; only over may be empty, for a step that deletes.
func (c Copy) Facts(holds, over string) []Fact {
	made := "taken when, the back end does not say"
	if !c.Made.IsZero() {
		made = "taken " + c.Made.UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	out := []Fact{{Name: c.Kind, Text: Shown(c.Name) + ", " + made}, {Name: c.Kind + " holds", Text: holds}}
	if over != "" {
		out = append(out, Fact{Name: FactOverwritten, Text: over})
	}
	return out
}

// FactOverwritten is the name of the fact that says what a restore overwrites.
const FactOverwritten = "overwritten"
