package local

import "gated/internal/agents/steer"

var _ steer.Steerer = (*Driver)(nil)

// Steering returns the commands that remove a guest's directory, something in it, or a directory above it, or that empty a
// file there.
func (d *Driver) Steering() []steer.Operation {
	rule := steer.InPlaceOf("guest.destroy", steer.GuestHole, "rm *", "rmdir *", "find * -delete *", "mv *", "unlink *", "shred *",
		"truncate *", "rsync * --delete* *", "rsync * --del *", "git * clean * -*f* *")
	rule.Below = d.root.path()
	return []steer.Operation{rule}
}
