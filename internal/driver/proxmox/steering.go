package proxmox

import "gated/internal/agents/steer"

var _ steer.Steerer = (*Driver)(nil)

// Steering returns the commands that take a guest. They name it by its number, and gated by its name.
func (*Driver) Steering() []steer.Operation {
	return []steer.Operation{steer.InPlaceOf("guest.destroy", "", "qm destroy {id} *", "qm destroy * {id} *",
		"pct destroy {id} *", "pct destroy * {id} *")}
}
