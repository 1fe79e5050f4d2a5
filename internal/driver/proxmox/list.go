package proxmox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// refreshed is how many unchanged guests each list looks at, those with the oldest look first.
// A row does not show every change: a snapshot or a label, for example. List sees such a change
// when it comes to that guest; every Observe sees it.
const refreshed = 8

// lookedAt remembers what List saw, by vmid. Observe and Prepare do not use it.
type lookedAt struct {
	mu     sync.Mutex
	round  int64
	guests map[int64]kept
}

// kept is a row with the result of its last look.
type kept struct {
	row   row
	round int64
	name  string // the last name that List saw
	guest *guest
	err   error
}

// forget makes the next list look at a guest again.
func (s *lookedAt) forget(vmid int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guests, vmid)
}

// due returns the rows that List must look at: changed guests, guests whose look failed, and
// the oldest few. It forgets guests that are no longer listed.
func (s *lookedAt) due(rows []row) (due []row, round int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	listed := map[int64]bool{}
	var same []row
	for _, r := range rows {
		listed[r.vmid] = true
		if k, ok := s.guests[r.vmid]; ok && k.err == nil && k.row.text == r.text {
			same = append(same, r)
		} else {
			due = append(due, r)
		}
	}
	for vmid := range s.guests {
		if !listed[vmid] {
			delete(s.guests, vmid)
		}
	}
	slices.SortStableFunc(same, func(a, b row) int { return int(s.guests[a.vmid].round - s.guests[b.vmid].round) })
	return append(due, same[:min(refreshed, len(same))]...), s.round
}

func (s *lookedAt) keep(r row, round int64, g *guest, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, errGone) {
		delete(s.guests, r.vmid)
		return
	}
	name := r.name
	switch {
	case g != nil:
		name = g.name
	case name == "":
		// If a node is away, its guests have no name in the list.
		name = s.guests[r.vmid].name
	}
	s.guests[r.vmid] = kept{row: r, round: round, name: name, guest: g, err: err}
}

func (s *lookedAt) get(r row) (kept, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.guests[r.vmid]
	return k, ok
}

// List looks at every guest. It sends one request for all, and some for each guest whose row
// changed since the last list. Facts and Backups are empty. A guest that cannot be read is
// listed as Unknown, with the reason as its only fact. So is a name that two guests have, or a
// template. A guest whose name is no target's name is left out. If a guest's name cannot be
// read, the error is Incomplete, because it may have any name.
func (d *Driver) List(ctx context.Context) ([]op.Observed, error) {
	all, err := d.rows(ctx)
	if err != nil {
		return nil, err
	}
	hidden, err := d.hidden(ctx, all, "")
	if err != nil {
		return nil, err
	}
	rows := slices.DeleteFunc(slices.Clone(all), func(r row) bool { return r.template })
	due, round := d.seen.due(rows)
	sideBySide(due, func(_ int, r row) {
		g, err := d.details(ctx, r)
		d.seen.keep(r, round, g, err)
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	byName := map[string][]kept{}
	var nameless error
	for _, r := range rows {
		k, ok := d.seen.get(r)
		if !ok {
			continue
		}
		if k.guest != nil && k.guest.template {
			k.guest, k.err = nil, isTemplate(k.name, r.vmid)
		}
		if k.name == "" && k.err != nil {
			nameless = &driver.Incomplete{Why: refusal.As(about(r, k.err)).Detail}
		}
		byName[k.name] = append(byName[k.name], k)
	}
	out := make([]op.Observed, 0, len(rows))
	for name, claims := range byName {
		if op.CheckName(name) == nil {
			out = append(out, d.claimed(name, claims))
		}
	}
	out = append(out, templates(all, byName)...)
	if hidden != 0 {
		nameless = &driver.Incomplete{Why: refusal.As(unseen(hidden)).Detail}
	}
	slices.SortFunc(out, func(a, b op.Observed) int { return strings.Compare(a.Target.Name, b.Target.Name) })
	return out, nameless
}

// templates are the names of templates that no guest has. Such a name is not free, because a
// person may have turned the guest into the template.
func templates(all []row, guests map[string][]kept) (out []op.Observed) {
	for _, r := range all {
		if r.template && len(guests[r.name]) == 0 && op.CheckName(r.name) == nil {
			out = append(out, unknown(r.name, isTemplate(r.name, r.vmid)))
		}
	}
	return out
}

// sideBySide calls do for each of all, for at most lookers at the same time.
func sideBySide[T any](all []T, do func(i int, one T)) {
	var wg sync.WaitGroup
	work := make(chan int)
	for range min(lookers, len(all)) {
		wg.Go(func() {
			for i := range work {
				do(i, all[i])
			}
		})
	}
	for i := range all {
		work <- i
	}
	close(work)
	wg.Wait()
}

// claimed describes what has a name: its one guest, or the reason why the name is not clear.
func (d *Driver) claimed(name string, claims []kept) op.Observed {
	l := claims[0]
	switch {
	case len(claims) > 1:
		return unknown(name, twins(name, l.row.vmid, claims[1].row.vmid))
	case l.err != nil:
		return unknown(name, about(l.row, l.err))
	}
	g := *l.guest
	if g.status = l.row.status; g.status != Running && g.status != Stopped {
		return unknown(name, refusal.New(refusal.Unavailable, "Proxmox VE says that the guest is %q", op.Shown(g.status)))
	}
	return d.observed(&g)
}

func unknown(name string, err error) op.Observed {
	return op.Observed{
		Target: op.Target{Kind: "guest", Name: name}, Present: true, Running: Unknown, Backend: Name,
		Facts: []op.Fact{{Name: Unknown, Text: refusal.As(err).Detail}},
	}
}
