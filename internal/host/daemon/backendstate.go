package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/reconcile"
	"gated/internal/wire/api"
)

// countGuests says how many guests there are. Where others than local have some,
// it is as many as were there when reconcile looked last: a status asks nothing
// of a hypervisor.
func (d *daemon) countGuests(ctx context.Context, s *api.Status) {
	states := d.backends.guests.States()
	if len(states) == 1 && d.local != nil {
		all, err := d.local.List(ctx)
		if err != nil {
			s.Health = append(s.Health, api.Health{Name: "guests", Detail: refusal.As(err).Detail})
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

// Backends checks each back end, side by side.
func (b *backends) Backends(ctx context.Context) ([]api.Backend, error) {
	states := b.guests.States()
	out := make([]api.Backend, len(states)+len(b.others))
	var wg sync.WaitGroup
	for i, s := range states {
		since := s.Since.UTC()
		out[i] = api.Backend{Name: s.Name, Kind: s.Kind, State: api.BackendOK, Detail: s.Away, Since: &since, Guests: s.Targets, NewGuests: s.NewGuests}
		if s.Away != "" {
			out[i].State = api.BackendAway
		}
		wg.Go(func() {
			checkInto(&out[i], func() ([]driver.Finding, time.Time) { return b.guests.Check(ctx, s.Name) })
		})
	}
	for i, o := range b.others {
		at := &out[len(states)+i]
		*at = api.Backend{Name: o.Name(), Kind: o.Kind(), State: api.BackendOK}
		wg.Go(func() { checkInto(at, func() ([]driver.Finding, time.Time) { return o.checker.Check(ctx) }) })
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b api.Backend) int { return strings.Compare(a.Name, b.Name) })
	return out, ctx.Err()
}

// checkInto puts what a check found on the wire.
func checkInto(out *api.Backend, check func() ([]driver.Finding, time.Time)) {
	found, at := check()
	out.CheckedAt, out.Findings = at.UTC(), make([]api.Finding, 0, len(found))
	for _, f := range found {
		out.Findings = append(out.Findings, api.Finding{What: f.What, State: string(f.State), Detail: f.Detail, Hint: f.Hint})
		if f.What == versionFinding && f.State != driver.Bad {
			out.Version = f.Detail
		}
	}
}

// versionFinding is the finding whose detail is the version of a back end.
const versionFinding = "version"

// unknowns lists targets that cannot be looked at, at most maxTroubles. Those that
// one reason keeps from it, as a back end that is away, are one line.
func unknowns(list []reconcile.Trouble) (out []api.Health) {
	count, first := map[string]int{}, map[string]op.Target{}
	for _, u := range list {
		if count[u.Why]++; count[u.Why] == 1 {
			first[u.Why] = u.Target
		}
	}
	for _, u := range list {
		if u.Target != first[u.Why] || len(out) == maxTroubles {
			continue
		}
		name := u.Target.String()
		if more := count[u.Why] - 1; more > 0 {
			name = fmt.Sprintf("%s and %d more", name, more)
		}
		out = append(out, api.Health{Name: name, Detail: "cannot be looked at: " + u.Why})
	}
	return out
}
