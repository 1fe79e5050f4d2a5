package proxmox

import (
	"context"

	"gated/internal/driver"
)

// Check looks whether the cluster answers and has what the configuration names. It
// changes nothing.
func (d *Driver) Check(ctx context.Context) []driver.Finding {
	o, err := d.api.get(ctx, "/version", nil)
	if err != nil {
		return []driver.Finding{{What: "reachable", State: driver.Bad, Detail: worded(err)}}
	}
	return []driver.Finding{{What: "reachable", State: driver.OK, Detail: "Proxmox VE " + o["version"]}}
}
