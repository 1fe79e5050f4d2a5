package local

import (
	"gated/internal/agents/steer"
	"gated/internal/driver"
)

var _ driver.Steerer = (*Driver)(nil)

// Steering returns the commands that remove a guest's directory, something in it, or a directory above it.
func (d *Driver) Steering() []driver.Steering {
	rule := driver.Steers("guest.destroy", steer.GuestHole, "rm *", "rmdir *", "find * -delete *")
	rule.Below = d.root.path()
	return []driver.Steering{rule}
}
