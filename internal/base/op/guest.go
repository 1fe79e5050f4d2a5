package op

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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

// guestRows are the operations on guests. guestdata.go has those on their disks and
// copies.
func guestRows() []Spec {
	return append([]Spec{
		createRow(), cloneRow(), undeleteRow(), startRow(), stopRow(), restartRow(), configRow(), destroyRow(),
	}, guestDataRows()...)
}

func createRow() Spec {
	s := guest("create", "make a guest under a free name", append([]Param{
		{Name: "state", Type: TString, Doc: "running or stopped (default stopped)"}, scratchParam}, guestFields...)...)
	s.Params = append(s.Params, Param{Name: "template", Type: TString, JobOnly: true,
		Doc: "an entry of the back end's templates in gated.yaml"})
	s.Creates, s.Identity, s.Shows, s.Undo, s.Done = true, Makes, made, undoneByDestroy, "created"
	s.Rules = []Rule{nameInTrash(Case.foreign), {Name: "create-new", Class: Benign, Why: say("the name is free, and what is made is new")}}
	return s
}

func cloneRow() Spec {
	s := guest("clone", "make a guest under a free name that is a full copy of another",
		Param{Name: "from", Type: TString, Required: true, Doc: "the guest to copy"}, scratchParam)
	s.Creates, s.Identity, s.Shows, s.Undo, s.Done = true, Makes, made, undoneByDestroy, "made a copy as"
	s.Rules = []Rule{nameInTrash(Case.foreign), {Name: "clone", Class: Benign, Why: say("the name is free, and the guest that is copied stays as it is")}}
	return s
}

func undeleteRow() Spec {
	s := guest("undelete", "bring a destroyed guest back from the trash, under a free name",
		Param{Name: "from", Type: TString, Doc: "the name that it had, if it comes back under another one"},
		Param{Name: "incarnation", Type: TString, Doc: "which one, if several are in the trash"})
	s.Creates, s.Identity, s.Shows, s.Done = true, Revives, revived, "brought back"
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

// stopRules are the rules of stop and restart.
var stopRules = []Rule{
	{Name: "stop-volatile", Class: Destructive, When: func(c Case) bool { return c.Observed.Volatile },
		Why: say("the guest holds state that ends with it")},
	{Name: "stop", Class: Benign, Why: say("the guest's state survives it")},
}

func stopRow() Spec {
	s := guest("stop", "stop a guest")
	s.Takes = "state that a guest without a disk of its own holds in memory"
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

func restartRow() Spec {
	s := guest("restart", "stop and start a guest")
	s.Takes = "state that a guest without a disk of its own holds in memory; what another guest keeps on a disk that both have"
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
	s.Takes = "protection and labels, which guard the guest; by another program, all data of the guest"
	s.Done, s.Undo, s.Changes, s.Guarded = "changed", undoConfig, configChanges, Guarded
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
		{Name: "config-no-loss", Class: Benign, Why: say("these fields lose nothing")},
	}
	return s
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
	s.Identity, s.Done = Ends, "destroyed"
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
