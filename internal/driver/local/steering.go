package local

import "gated/internal/agents/steer"

var _ steer.Steerer = (*Driver)(nil)

// Steering returns the commands that remove a guest's directory, something in it, or a directory above it.
func (d *Driver) Steering() []steer.Operation {
	rule := steer.InPlaceOf("guest.destroy", steer.GuestHole, "rm *", "rmdir *", "find * -delete *")
	rule.Below = d.root.path()
	return []steer.Operation{rule}
}
