package proxmox

import "gated/internal/driver"

var _ driver.Steerer = (*Driver)(nil)

// Steering returns the commands that take a guest. They name it by its number, and gated by its name.
func (*Driver) Steering() []driver.Steering {
	return []driver.Steering{driver.Steers("guest.destroy", "", "qm destroy {id} *", "qm destroy * {id} *",
		"pct destroy {id} *", "pct destroy * {id} *")}
}
