package fsck

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"

	"gated/internal/op"
)

// undoing says which operation takes one back. Nothing else may stand in the
// journal: what it says there runs without anybody being asked.
var undoing = map[string]string{
	"guest.create":     "guest.destroy",
	"guest.clone":      "guest.destroy",
	"guest.destroy":    "guest.undelete",
	"guest.start":      "guest.stop",
	"guest.stop":       "guest.start",
	"guest.set-config": "guest.set-config",
}

// undo checks what would take a step back, and that a step which takes one back
// does what was fixed when that one was dispatched.
func (c *check) undo(r row) {
	if r.undo != "" {
		if name, params, ok := parseUndo(r.undo); !ok || r.step.Undoes != 0 || name != undoing[r.step.Op] || !r.fits(params) {
			c.found(undoUnfit, r.step.ID.String(), "what would take it back is not what takes a %s back", op.Shown(r.step.Op))
		}
	}
	if r.step.Undoes != 0 {
		name, params, ok := parseUndo(r.takes)
		if !ok || name != r.step.Op || !bytes.Equal(params.Canonical(), r.params) {
			c.found(undoIgnored, r.step.ID.String(), "it is not what was to take step %d back", r.step.Undoes)
		}
	}
}

// parseUndo reads an undo, which has an operation and parameters and no room
// for a target of its own.
func parseUndo(text string) (name string, params op.Params, ok bool) {
	var u struct {
		Op     string    `json:"op"`
		Params op.Params `json:"params"`
	}
	err := json.Unmarshal([]byte(text), &u, json.RejectUnknownMembers(true))
	return u.Op, u.Params, err == nil
}

// fits checks the parameters of what would take a step back: the incarnation
// that it destroyed, or fields that it set, without protection and labels.
func (r row) fits(undo op.Params) bool {
	switch r.step.Op {
	case "guest.destroy":
		return undo.Equal(op.Params{"incarnation": string(r.step.Incarnation)})
	case "guest.set-config":
		set, err := op.ParseParams(r.params)
		for name := range undo {
			if !set.Has(name) || !slices.Contains([]string{"memory", "cpus", "command"}, name) {
				return false
			}
		}
		return err == nil && len(undo) > 0
	default:
		return len(undo) == 0
	}
}
