package reconcile

import (
	"slices"

	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/op"
)

// effect is what a look at a target tells of a step whose driver's answer was
// lost.
type effect int

const (
	done    effect = iota // the target is as the step was to make it
	notDone               // it is as before, and the step could be run again
	unseen                // a look cannot tell
	gone                  // the target is another one, or nothing, by now
	taken                 // the name to be used is somebody else's by now
)

// effects says for each operation how its effect shows. An operation that is
// not here does not show it.
var effects = map[string]func(op.Step, op.Observed) effect{
	"guest.create": made,
	"guest.clone":  made,
	"guest.undelete": func(s op.Step, o op.Observed) effect {
		which := op.Incarnation(s.Params.Str("incarnation"))
		switch {
		case !o.Present:
			return notDone
		case which == "", o.Incarnation == which:
			// The name was free when the step was dispatched. Where it does not
			// say which one of the trash, whatever has the name is what it asked
			// for; nothing is recorded of it that was not before.
			return done
		default:
			return taken
		}
	},
	// The incarnation, and not the name, is what was to be destroyed: another
	// one under its name says that it is gone.
	"guest.destroy": func(s op.Step, o op.Observed) effect {
		switch {
		case s.Incarnation == "", o.Lingers != "":
			return unseen
		case !o.Present || o.Incarnation != s.Incarnation:
			return done
		default:
			return notDone
		}
	},
	"guest.start": onSame(func(_ op.Step, o op.Observed) effect { return shown(o.Running == running) }),
	"guest.stop":  onSame(func(_ op.Step, o op.Observed) effect { return shown(o.Running == stopped) }),
	// A running guest may have been restarted or not; one that stands still
	// was stopped and not started.
	"guest.restart": onSame(func(_ op.Step, o op.Observed) effect {
		if o.Running == stopped {
			return notDone
		}
		return unseen
	}),
	"guest.set-config": onSame(func(s op.Step, o op.Observed) effect {
		for name, v := range s.Params {
			if !same(name, v, o) {
				return notDone
			}
		}
		return done
	}),
	"guest.snapshot": onSame(func(s op.Step, o op.Observed) effect {
		return shown(slices.Contains(o.Snapshots, s.Params.Str("snapshot")))
	}),
	"guest.snapshot-delete": onSame(func(s op.Step, o op.Observed) effect {
		return shown(!slices.Contains(o.Snapshots, s.Params.Str("snapshot")))
	}),
	"guest.restore":     onSame(func(op.Step, op.Observed) effect { return unseen }),
	"guest.wipe":        onSame(func(op.Step, op.Observed) effect { return unseen }),
	"guest.disk-create": unlessAnother(func(s op.Step, o op.Observed) effect { return shown(hasDisk(s, o)) }),
	"guest.disk-resize": onSame(func(s op.Step, o op.Observed) effect {
		d, ok := o.Disk(s.Params.Str("disk"))
		return shown(ok && d.Size == s.Params.Int("size")<<20)
	}),
	"guest.disk-detach":    unlessAnother(func(s op.Step, o op.Observed) effect { return shown(!hasDisk(s, o)) }),
	"guest.disk-delete":    unlessAnother(func(s op.Step, o op.Observed) effect { return shown(!hasDisk(s, o)) }),
	"guest.disk-wipe":      onSame(func(op.Step, op.Observed) effect { return unseen }),
	"guest.backup":         onSame(func(op.Step, op.Observed) effect { return unseen }),
	"guest.backup-restore": unlessAnother(func(op.Step, op.Observed) effect { return unseen }),
	"guest.backup-delete": onSame(func(s op.Step, o op.Observed) effect {
		return shown(!slices.Contains(o.Backups, s.Params.Str("backup")))
	}),
	// What a command did shows nowhere.
	op.Run: func(op.Step, op.Observed) effect { return unseen },
	// The epoch goes up by one with each change; who made it tells this step's
	// from one that root took over meanwhile.
	op.Rotate: onSame(func(s op.Step, o op.Observed) effect {
		return shown(o.Spec.Int("epoch") == s.Params.Int("epoch") && o.Spec.Str("made_by") == s.ID.String())
	}),
	// Reservations may be gone because they were let go, and made again since;
	// the scope remembers which step took some away last, in the same transaction.
	op.ForceTransfer: onSame(lastOfScope),
	op.ReleaseAll:    onSame(lastOfScope),
}

// made: only the token that the gate chose tells its own work from another's of
// the same name.
func made(s op.Step, o op.Observed) effect {
	switch {
	case !o.Present:
		return notDone
	case s.Birth != "" && o.Birth == s.Birth:
		return done
	default:
		return taken
	}
}

func hasDisk(s op.Step, o op.Observed) bool { _, ok := o.Disk(s.Params.Str("disk")); return ok }

func lastOfScope(s op.Step, o op.Observed) effect {
	return shown(o.Spec.Str("last_step") == s.ID.String())
}

func shown(ok bool) effect {
	if ok {
		return done
	}
	return notDone
}

// onSame looks closer only at the incarnation that the step was for.
func onSame(fn func(op.Step, op.Observed) effect) func(op.Step, op.Observed) effect {
	return func(s op.Step, o op.Observed) effect {
		if !o.Present || s.Incarnation != "" && o.Incarnation != s.Incarnation {
			return gone
		}
		return fn(s, o)
	}
}

// unlessAnother is for steps that may themselves make another incarnation of the
// target, where its storage is a part of its identity: of another one, a look
// cannot tell.
func unlessAnother(fn func(op.Step, op.Observed) effect) func(op.Step, op.Observed) effect {
	return func(s op.Step, o op.Observed) effect {
		switch {
		case !o.Present:
			return gone
		case s.Incarnation != "" && o.Incarnation != s.Incarnation:
			return unseen
		}
		return fn(s, o)
	}
}

// Resolve says what became of a dispatched step whose driver's answer was lost,
// from what the target looks like now. It is a pure function:
//
//	the target shows             benign            destructive
//	that it was done             succeeded         succeeded
//	that it was not done         planned again     interrupted
//	nothing either way           planned again     interrupted
//	another target or none       failed            interrupted
//	another's under the name     failed            failed
//
// A destructive step never runs again, also where it seems not to have begun:
// half of it may be done in a way that does not show. Neither does a command,
// also where its operator calls it benign: one that was cut off when its time was
// over would be cut off again.
func Resolve(s op.Step, o op.Observed) gate.Outcome {
	e := unseen
	if fn := effects[s.Op]; fn != nil {
		e = fn(s, o)
	}
	out := gate.Outcome{After: &o}
	benign := s.Verdict.Class == op.Benign && s.Op != op.Run
	switch {
	case e == done:
		out.Detail = "its end was not seen; the target shows that it was done"
	case e == taken:
		out.Err = op.Refuse(op.Conflict, "%s was made by somebody else meanwhile", s.Target)
	case e == gone && benign:
		out.Err = op.Refuse(op.StaleTarget, "%s is not the one that was meant any more", s.Target)
	case benign:
		out.Err, out.Transient = driver.Transient(op.Refuse(op.Unavailable, "it was cut off before its end was seen")), true
	default:
		out.Unknown = true
		out.Detail = "it was cut off, and nobody saw whether it was done; look at the target, then ask again"
	}
	return out
}
