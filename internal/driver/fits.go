package driver

import "gated/internal/op"

// Fits refuses what Permit.Use would refuse anyway of a step on what was seen,
// before a driver says something less telling about a target that is another one:
// Conflict, StaleTarget or UnknownTarget.
func Fits(step op.Step, now op.Observed) error {
	spec, err := op.Lookup(step.Op)
	t := step.Target
	switch {
	case err != nil:
		return err
	case spec.Creates && now.Present:
		return op.Refuse(op.Conflict, "%s exists already", t)
	case !spec.Creates && step.Incarnation != "" && step.Incarnation != now.Incarnation:
		return op.Refuse(op.StaleTarget, "%s is not the one that this step is for (%s)", t, step.Incarnation).At(op.StageBinding)
	case !spec.Creates && !now.Present:
		return op.Refuse(op.UnknownTarget, "there is no %s", t)
	case now.Missing != "" && step.State == op.StateAuthorized:
		return op.Refuse(op.StaleTarget, "%s", now.Missing).At(op.StageBinding)
	case now.Missing != "":
		return op.Refuse(op.UnknownTarget, "%s", now.Missing)
	}
	return nil
}
