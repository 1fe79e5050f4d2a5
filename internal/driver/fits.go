package driver

import (
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Fits refuses a step on a target if Permit.Use would refuse it too. A driver calls it first,
// because its own error would say less about a target that changed. The codes are Conflict,
// StaleTarget and UnknownTarget.
func Fits(step op.Step, now op.Observed) error {
	spec, err := op.Lookup(step.Op)
	t := step.Target
	switch {
	case err != nil:
		return err
	case spec.Creates && now.Present:
		return refusal.New(refusal.Conflict, "%s exists already", t)
	case !spec.Creates && step.Incarnation != "" && step.Incarnation != now.Incarnation:
		return refusal.New(refusal.StaleTarget, "%s is not the one that this step is for (%s)", t, step.Incarnation).
			At(refusal.StageBinding)
	case !spec.Creates && !now.Present:
		return refusal.New(refusal.UnknownTarget, "there is no %s", t)
	case now.Missing != "" && step.State == op.StateAuthorized:
		return refusal.New(refusal.StaleTarget, "%s", now.Missing).At(refusal.StageBinding)
	case now.Missing != "":
		return refusal.New(refusal.UnknownTarget, "%s", now.Missing)
	}
	return nil
}
