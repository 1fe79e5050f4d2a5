package several

import (
	"context"
	"time"

	"gated/internal/driver"
)

// State is the health of one back end.
type State struct {
	Name      string
	Kind      string
	Away      string    // why its targets are not known; empty if the back end is there
	Since     time.Time // since when it is away or there
	Targets   int       // by the last list
	NewGuests bool      // it makes new guests
}

// States returns the state of each back end at its last look.
func (d *Driver) States() []State {
	out := make([]State, len(d.members))
	for i, m := range d.members {
		m.mu.Lock()
		out[i] = State{Name: m.name, Kind: guestKind, Away: m.why, Since: m.since, Targets: len(m.last), NewGuests: i == d.makes}
		m.mu.Unlock()
		if since, late := m.looks.hangs(); late && out[i].Away == "" {
			out[i].Away, out[i].Since = reason(tooLate(lookPatience)), since
		}
	}
	return out
}

// Check checks the back end of that name as Checker.Check does. The name must be one of Names.
func (d *Driver) Check(ctx context.Context, name string) ([]driver.Finding, time.Time) {
	return d.members[d.named(name)].checker.Check(ctx)
}
