package reconcile

import (
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/op"
)

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
	e, once := op.ShowsNothing, false
	if spec, err := op.Lookup(s.Op); err == nil {
		e, once = spec.Evidence(s, o), spec.Once
	}
	out := gate.Outcome{After: &o}
	benign := s.Verdict.Class == op.Benign && !once
	switch {
	case e == op.ShowsDone:
		out.Detail = "its end was not seen; the target shows that it was done"
	case e == op.ShowsTaken:
		out.Err = op.Refuse(op.Conflict, "%s was made by somebody else meanwhile", s.Target)
	case e == op.ShowsAnother && benign:
		out.Err = op.Refuse(op.StaleTarget, "%s is not the one that was meant any more", s.Target)
	case benign:
		out.Err, out.Transient = driver.Transient(op.Refuse(op.Unavailable, "it was cut off before its end was seen")), true
	default:
		out.Unknown = true
		out.Detail = "it was cut off, and nobody saw whether it was done; look at the target, then ask again"
	}
	return out
}
