package reconcile

import (
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
)

// Resolve derives how a dispatched step ended, if the driver's answer was lost, from the target's state now. It is a
// pure function:
//
//	the target shows             benign            destructive
//	that it was done             succeeded         succeeded
//	that it was not done         planned again     interrupted
//	nothing either way           planned again     interrupted
//	another target or none       failed            interrupted
//	another's under the name     failed            failed
//
// A destructive step never runs again, even if it seems not to have begun: half of it may be done without a sign. A
// command never runs again either, even if its operator calls it benign: if its time ran out once, it would run out
// again.
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
		out.Err = refusal.New(refusal.Conflict, "%s was made by somebody else meanwhile", s.Target)
	case e == op.ShowsAnother && benign:
		out.Err = refusal.New(refusal.StaleTarget, "%s is not the one that was meant any more", s.Target)
	case benign:
		out.Err, out.Transient = driver.Transient(refusal.New(refusal.Unavailable,
			"it was cut off before its end was seen")), true
	default:
		out.Unknown = true
		out.Detail = "it was cut off, and nobody saw whether it was done; look at the target, then ask again"
	}
	return out
}
