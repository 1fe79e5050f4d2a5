// Package classify decides whether a step may lose data: benign or destructive,
// by which rule, and why. It is a pure function over what this gate itself
// recorded and what the driver saw; nothing that a requester says can lower a
// class.
package classify

import (
	"fmt"
	"time"

	"gated/internal/op"
	"gated/internal/policy"
)

// Input is all that a classification looks at.
type Input struct {
	Step       op.Step
	Requester  op.Requester
	Observed   op.Observed
	Provenance *op.Provenance // nil: this gate did not make the incarnation
	Policy     policy.Policy
	Now        time.Time
	Doubt      bool // the clock is not believed, so nothing is known to be young
}

// rule is one row of the table. The first row whose operation and condition
// match decides.
type rule struct {
	name  string
	ops   []string // empty: any operation
	when  func(Input) bool
	class op.Class
	why   func(Input) string
}

func say(s string) func(Input) string { return func(Input) string { return s } }
func always(Input) bool               { return true }
func guest(verbs ...string) (o []string) { // names of guest operations
	for _, v := range verbs {
		o = append(o, "guest."+v)
	}
	return o
}

// taking lists the operations that take data with them.
var taking = guest("destroy", "wipe", "restore", "snapshot-delete", "disk-wipe", "disk-detach", "disk-delete", "backup-restore", "backup-delete")

// rules is design section 4. What no row allows is destructive.
var rules = []rule{
	{"create-new", guest("create"), always, op.Benign, say("the name is free, and what is made is new")},
	{"clone", guest("clone"), always, op.Benign, say("the name is free, and the guest that is copied stays as it is")},
	{"undelete", guest("undelete"), always, op.Benign, say("it brings back what was destroyed")},
	{"start", guest("start"), always, op.Benign, say("the guest's state survives it")},
	{"snapshot", guest("snapshot"), always, op.Benign, say("it only adds a copy")},

	{"disk-new", guest("disk-create"), always, op.Benign, say("the disk is new, and empty")},
	{"disk-grow", guest("disk-resize"), grows, op.Benign, say("what is on the disk stays")},
	{"backup", guest("backup"), func(in Input) bool { return !in.Step.Params.Bool("rotate") }, op.Benign, say("it only adds a copy")},

	{"stop-volatile", guest("stop", "restart"), func(in Input) bool { return in.Observed.Volatile }, op.Destructive,
		say("the guest holds state that ends with it")},
	{"stop", guest("stop", "restart"), always, op.Benign, say("the guest's state survives it")},

	{"unprotect", guest("set-config"), takesProtection, op.Destructive, say("it takes the protection away")},
	{"label-removed", guest("set-config"), takesLabel, op.Destructive, func(in Input) string {
		return fmt.Sprintf("it takes the label %s away or changes it, and a label may protect", lostLabel(in))
	}},
	{"config-no-loss", guest("set-config"), always, op.Benign, say("these fields lose nothing")},

	{"cascade", taking, func(in Input) bool { return len(in.Observed.Dependent) > 0 }, op.Destructive,
		func(in Input) string { return fmt.Sprintf("%s depends on it", in.Observed.Dependent[0]) }},
	{"protected", taking, func(in Input) bool { return in.Observed.Protected }, op.Destructive,
		say("the target is protected")},
	{"undo-own-work", guest("destroy"), undoesOwnWork, op.Benign,
		say("it takes back what this same job made, every part of it")},
	{"live-scratch", guest("destroy", "wipe", "restore"), liveScratch, op.Benign,
		say("this gate made it as scratch, and its creator asks")},

	{"destroy-unproven", guest("destroy"), always, op.Destructive,
		func(in Input) string { return "the guest and its data would be gone, and " + unproven(in) }},
	{"wipe", guest("wipe"), always, op.Destructive, say("it empties the guest's data")},
	{"restore-over", guest("restore"), always, op.Destructive, say("it overwrites the guest's data")},
	{"snapshot-delete", guest("snapshot-delete"), always, op.Destructive, say("it deletes a copy of data")},

	{"disk-shrink", guest("disk-resize"), always, op.Destructive, say("it cuts the end of the disk off, or nobody knows how large it is")},
	{"disk-wipe", guest("disk-wipe"), always, op.Destructive, say("it empties the disk")},
	{"disk-detach", guest("disk-detach"), always, op.Destructive, say("it takes the disk off the guest, and what is no guest's is nobody's to keep")},
	{"disk-delete", guest("disk-delete"), always, op.Destructive, say("it deletes the disk and what is on it")},
	{"backup-prunes", guest("backup"), always, op.Destructive, say("it lets the backups' retention delete older copies")},
	{"backup-restore", guest("backup-restore"), always, op.Destructive, say("it overwrites the guest and its disks")},
	{"backup-delete", guest("backup-delete"), always, op.Destructive, say("it deletes a copy of data")},

	{"command-benign", []string{op.Run}, func(in Input) bool { return in.Policy.Harmless(in.Step.Target.Name) }, op.Benign,
		say("the operator's catalogue says that this command loses nothing")},
	{"command", []string{op.Run}, always, op.Destructive, say("nobody but its operator knows what the command loses")},

	{"trust-rotation", []string{op.Rotate}, always, op.Destructive, say("it changes who may approve what")},
	{"takes-reservations", []string{op.ForceTransfer, op.ReleaseAll}, always, op.Destructive,
		say("it takes reservations from agents that may be at work on these paths")},

	{"anything-else", nil, always, op.Destructive, say("no rule says that it loses nothing")},
}

// Classify returns the verdict of the first rule that matches. It refuses, as
// NotAllowed, a step that no signature could allow: a guest's command that the
// operator's configuration does not name.
func Classify(in Input) (op.Verdict, error) {
	if c := in.Step.Params.Str("command"); in.Step.Target.Kind == "guest" && c != "" && !in.Policy.MayCommand(c) {
		return op.Verdict{}, op.Refuse(op.NotAllowed, "the configuration names no command %q", c).
			WithHint("an operator adds it under local.commands in gated.yaml")
	}
	for _, r := range rules {
		if r.matches(in) {
			return op.Verdict{Class: r.class, Rule: r.name, Why: r.why(in)}, nil
		}
	}
	panic("classify: the last rule matches everything")
}

func (r rule) matches(in Input) bool {
	if len(r.ops) == 0 {
		return r.when(in)
	}
	for _, name := range r.ops {
		if name == in.Step.Op {
			return r.when(in)
		}
	}
	return false
}

// grows holds for a disk whose size is known and not above the wished one.
func grows(in Input) bool {
	d, ok := in.Observed.Disk(in.Step.Params.Str("disk"))
	return ok && d.Size > 0 && in.Step.Params.Int("size") >= (d.Size+mebibyte-1)/mebibyte
}

const mebibyte = 1 << 20

func takesProtection(in Input) bool {
	return in.Observed.Protected && in.Step.Params.Has("protected") && !in.Step.Params.Bool("protected")
}

func takesLabel(in Input) bool { return lostLabel(in) != "" }

// lostLabel returns the first label that the step would remove or change, in no
// given order, or "".
func lostLabel(in Input) string {
	if !in.Step.Params.Has("labels") {
		return ""
	}
	wished := in.Step.Params.Labels("labels")
	lost := ""
	for k, v := range in.Observed.Labels {
		if w, ok := wished[k]; (!ok || w != v) && (lost == "" || k < lost) {
			lost = k
		}
	}
	return lost
}

// undoesOwnWork holds for a compensation whose job made the incarnation and
// every storage object in it, within scratch's maximum age, while nobody else
// took an interest in it.
func undoesOwnWork(in Input) bool {
	p := in.Provenance
	return in.Step.Undoes > 0 && in.Requester.Source == op.SourceGate &&
		p != nil && p.Job == in.Step.ID.Job && p.ScratchEnded == "" && young(in) &&
		p.Made(in.Observed.Storage, in.Step.ID.Job)
}

func liveScratch(in Input) bool {
	p := in.Provenance
	if p == nil || !p.Scratch || p.ScratchEnded != "" || !in.Now.Before(p.ScratchUntil) || !young(in) ||
		!p.Made(in.Observed.Storage, 0) {
		return false
	}
	byGate := in.Requester.Source == op.SourceGate
	byCreator := in.Requester.Source == op.SourceAPI && in.Requester.Agent != "" && in.Requester.Agent == p.Agent
	return byGate || byCreator
}

// young holds for an incarnation within the maximum age of scratch that the
// policy has now, whatever it was when the incarnation was made.
func young(in Input) bool {
	return !in.Doubt && in.Now.Before(in.Provenance.CreatedAt.Add(in.Policy.ScratchMaxAge))
}

// unproven says which condition of a benign destroy was not met.
func unproven(in Input) string {
	p := in.Provenance
	switch {
	case p == nil:
		return "this gate has no record of making it"
	case !p.Scratch:
		return "it was not made as scratch"
	case p.ScratchEnded != "":
		return "it is no longer scratch: " + p.ScratchEnded
	case in.Doubt:
		return "the clock is not believed, so nobody can say how old it is"
	case !in.Now.Before(p.ScratchUntil) || !young(in):
		return "it is older than scratch may be"
	case !p.Made(in.Observed.Storage, 0):
		return "it holds storage that this gate did not make"
	default:
		return "only the agent that created it may destroy it unsigned"
	}
}
