package daemon

import (
	"context"
	"fmt"
	"time"

	"gated/internal/api"
	"gated/internal/op"
)

// countGuests says how many guests there are. Where others than local have some,
// it is as many as were there when reconcile looked last: a status asks nothing
// of a hypervisor.
func (d *daemon) countGuests(ctx context.Context, s *api.Status) {
	states := d.backends.guests.States()
	if len(states) == 1 && d.local != nil {
		all, err := d.local.List(ctx)
		if err != nil {
			s.Health = append(s.Health, api.Health{Name: "guests", Detail: op.AsRefusal(err).Detail})
			return
		}
		s.Guests = len(all)
		return
	}
	for _, b := range states {
		s.Guests += b.Targets
	}
}

// backendsHealth says of each back end for guests whether it is there. A single
// one that is needs no words.
func (d *daemon) backendsHealth() []api.Health {
	states := d.backends.guests.States()
	var out []api.Health
	for _, b := range states {
		switch {
		case b.Away != "":
			out = append(out, api.Health{Name: "back end " + b.Name, Detail: fmt.Sprintf("away since %s: %s; its guests are unknown, nothing is planned for them, and requests stay",
				b.Since.UTC().Format(time.RFC3339), b.Away)})
		case len(states) > 1:
			out = append(out, api.Health{Name: "back end " + b.Name, OK: true, Detail: fmt.Sprintf("%d guests", b.Targets)})
		}
	}
	return out
}
