package libvirt

import "gated/internal/agents/steer"

var _ steer.Steerer = (*Driver)(nil)

// Steering returns the commands of virsh that take a guest, or stop it by force. A command for another host, or with
// options before the guest that may take a value, does not say a name for sure: these patterns bind none.
func (*Driver) Steering() []steer.Operation {
	return []steer.Operation{
		steer.InPlaceOf("guest.destroy", "guest", "virsh * *+*://* * undefine *", "virsh * undefine --domain {guest} *",
			"virsh * undefine --nvram {guest} *", "virsh * undefine {guest} *", "virsh * undefine -* *"),
		steer.InPlaceOf("guest.stop", "guest", "virsh * *+*://* * destroy *", "virsh * destroy --domain {guest} *",
			"virsh * destroy --graceful {guest} *", "virsh * destroy {guest} *", "virsh * destroy -* *"),
	}
}
