package op

import "fmt"

// Evidence is what a look shows of a step that may have been done.
type Evidence int

// What a look can show.
const (
	ShowsDone    Evidence = iota // the target is as the step was to leave it
	ShowsUndone                  // the target is as before, and the step could run again
	ShowsNothing                 // a look cannot tell
	ShowsAnother                 // another incarnation has the name now, or none
	ShowsTaken                   // another target has the name that the step was to use
)

func shows(done bool) Evidence {
	if done {
		return ShowsDone
	}
	return ShowsUndone
}

// Evidence says what a look shows of a step of this operation if the driver's answer
// was lost.
func (s Spec) Evidence(step Step, o Observed) Evidence {
	if s.Identity == Keeps || s.Identity == Renews {
		switch {
		case !o.Present:
			return ShowsAnother
		case step.Incarnation == "" || o.Incarnation == step.Incarnation:
		case s.Identity == Renews:
			return ShowsNothing // the step itself may have changed the incarnation
		default:
			return ShowsAnother
		}
	}
	if s.Shows == nil {
		return ShowsNothing
	}
	e := s.Shows(step, o)
	if e == ShowsDone && s.Unproven {
		return ShowsNothing
	}
	return e
}

// Denied returns, as part of a sentence, how a look after the work contradicts a
// driver that reports success; "" if it does not.
func (s Spec) Denied(step Step, o Observed) string {
	switch {
	case s.Unseen:
		return ""
	case s.Identity == Ends && o.Present && o.Incarnation == step.Incarnation:
		return step.Target.String() + " is still there"
	case s.Identity == Ends:
		return o.Lingers
	case s.Identity == Makes && (s.Shows(step, o) != ShowsDone || o.Incarnation == ""):
		return step.Target.String() + " is not there as it was made"
	case s.Identity == Revives && s.Shows(step, o) != ShowsDone:
		return step.Target.String() + " is not what was in the trash"
	case !o.Present:
		return step.Target.String() + " is gone"
	case s.Identity == Keeps && o.Incarnation != step.Incarnation:
		return step.Target.String() + " is another one now"
	case s.Shows != nil && !s.Fleeting && s.Shows(step, o) == ShowsUndone:
		return fmt.Sprintf("%s does not show it", step.Target)
	}
	return ""
}

// Silent reports whether a look after the work cannot tell if the step was done,
// although a look can tell for this operation.
func (s Spec) Silent(step Step, o Observed) bool {
	return s.Shows != nil && !s.Fleeting && !s.Unseen && s.Shows(step, o) == ShowsNothing
}

// The values of Observed.Running of a guest that exists.
const (
	Running = "running"
	Stopped = "stopped"
)

// Has reports whether a guest's field has the value want. Both are in the
// catalogue's units. A driver may leave unset fields out of Spec. If want has
// labels, only those labels count.
func (o Observed) Has(name string, want any) bool {
	switch name {
	case "protected":
		w, _ := want.(bool)
		return w == o.Protected
	case "labels":
		wished, _ := want.(map[string]any)
		for k, v := range wished {
			if got, ok := o.Labels[k]; !ok || got != v {
				return false
			}
		}
		return true
	case "command":
		w, _ := want.(string)
		return w == o.Spec.Str(name)
	default:
		w, _ := want.(int64)
		h, ok := o.Spec[name].(int64)
		return ok && w == h
	}
}
