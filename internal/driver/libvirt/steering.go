package libvirt

import "gated/internal/driver"

var _ driver.Steerer = (*Driver)(nil)

// Steering returns the commands of virsh that take a guest, or stop it by force.
func (*Driver) Steering() []driver.Steering {
	return []driver.Steering{
		driver.Steers("guest.destroy", "guest", "virsh * undefine --domain {guest} *", "virsh * undefine {guest} *",
			"virsh * undefine * {guest} *"),
		driver.Steers("guest.stop", "guest", "virsh * destroy --domain {guest} *", "virsh * destroy {guest} *",
			"virsh * destroy * {guest} *"),
	}
}
