package daemon

import (
	"fmt"
	"strings"

	"gated/client/api"
	"gated/internal/log/journal"
)

// incidentHealth says whether incidents of break-glass are open; nothing if none is and gated.yaml has no break-glass.
func (d *daemon) incidentHealth(in journal.Incidents) []api.Health {
	open := incidentsOf(in)
	if len(open) == 0 {
		if d.gate.Policy().BreakGlass == nil {
			return nil
		}
		return []api.Health{{Name: "incidents", OK: true, Detail: "none is open"}}
	}
	var all []string
	for _, one := range open {
		all = append(all, fmt.Sprintf("%s %s of %s by %s, %s", one.Request, one.Op, one.Target, strings.Join(one.SignedBy, ", "), one.State))
	}
	return []api.Health{{Name: "incidents", Detail: "break-glass was used, and no operator has reviewed it (gated incidents): " + strings.Join(all, "; ")}}
}

// incidentsOf puts the open incidents on the wire, oldest first.
func incidentsOf(in journal.Incidents) []api.Incident {
	out := []api.Incident{}
	for _, list := range [][]journal.Incident{in.Ended, in.UnderWay} {
		for _, one := range list {
			s := one.Request.Step
			wire := api.Incident{Request: s.ID.String(), Op: s.Op, Target: s.Target.String(), State: s.State, ApprovedAt: one.At.UTC(), SignedBy: []string{}}
			for _, by := range one.Request.Signatures {
				wire.SignedBy = append(wire.SignedBy, by.Principal)
			}
			out = append(out, wire)
		}
	}
	return out
}
