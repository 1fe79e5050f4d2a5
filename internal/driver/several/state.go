package several

import (
	"context"
	"time"

	"gated/internal/driver"
)

// State is how one back end is.
type State struct {
	Name      string
	Kind      string
	Away      string    // why nothing is known of its targets; empty where it is there
	Since     time.Time // since when it is away, or there
	Targets   int       // as it was listed last
	NewGuests bool      // guests are made in it
}

// States returns how each back end was when it was asked last.
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

// Check has the back end of that name, which must be one of Names, say how it is,
// as Checker.Check does.
func (d *Driver) Check(ctx context.Context, name string) ([]driver.Finding, time.Time) {
	return d.members[d.named(name)].checker.Check(ctx)
}
