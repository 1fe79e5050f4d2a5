package acceptor

import (
	"slices"

	"gated/internal/base/op"
)

// move is how an entry moves a step.
type move struct {
	from []op.State
	to   op.State
}

func (m move) allows(s op.State) bool { return slices.Contains(m.from, s) }

// absent is the state of a step of which there is no entry yet: unknown in the model.
const absent = op.State("")

// moves are those of model/gated.pml: FROM_… and TO_… of each kind of entry. TestTheModelHasTheSameMoves compares them. They are
// written out here, and are not op.Transitions, so that a change of the gate's own table is a change that the model does not have.
var moves = map[string]move{
	"planned":     {[]op.State{absent}, "planned"},
	"compensated": {[]op.State{absent}, "planned"},
	"requested":   {[]op.State{absent, "planned"}, "pending_signature"},
	"reissued":    {[]op.State{"pending_signature"}, "pending_signature"},
	"signed":      {[]op.State{"pending_signature"}, "pending_signature"},
	"approved":    {[]op.State{"pending_signature"}, "authorized"},
	"rejected":    {[]op.State{"pending_signature", "authorized"}, "rejected"},
	"expired":     {[]op.State{"pending_signature", "authorized"}, "expired"},
	"superseded":  {[]op.State{"planned", "pending_signature", "authorized"}, "superseded"},
	"cancelled":   {[]op.State{"planned", "pending_signature", "authorized"}, "cancelled"},
	"refused":     {[]op.State{"planned", "pending_signature", "authorized"}, "refused"},
	"dispatched":  {[]op.State{"planned", "authorized"}, "dispatched"},
	"retried":     {[]op.State{"dispatched"}, "planned"},
	"succeeded":   {[]op.State{"dispatched"}, "succeeded"},
	"failed":      {[]op.State{"dispatched"}, "failed"},
	"interrupted": {[]op.State{"dispatched"}, "interrupted"},
}

// open reports whether a step in the state may still run or runs (OPEN in the model).
func open(s op.State) bool {
	return slices.Contains([]op.State{"planned", "pending_signature", "authorized", "dispatched"}, s)
}

// fell reports whether a step that takes nothing back ended without success (FELL in the model).
func (s *step) fell() bool { return s.undoes == 0 && !open(s.state) && s.state != "succeeded" }

// over reports whether a step of the job fell.
func over(job []*step) bool { return slices.ContainsFunc(job, (*step).fell) }
