package main

import (
	"context"
	"slices"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/glob"
)

// What nobody could carry out is refused before somebody is asked to sign it.
// What changes after that is the gate's to see.

// somethingIn returns the scope of a directory in which something is reserved.
// What is reserved in scopes below is no part of it, and is named.
func (t *tool) somethingIn(ctx context.Context, cl *client.Client, at api.Place) (api.Scope, error) {
	all, err := cl.AllReservations(ctx, client.ReservationQuery{Scope: at.Path})
	if err != nil {
		return api.Scope{}, err
	}
	var here []api.Reservation
	var below []string
	for _, r := range all {
		if r.Scope == at.Path {
			here = append(here, r)
		} else if !slices.Contains(below, r.Scope) {
			below = append(below, r.Scope)
		}
	}
	slices.Sort(below)
	if len(here) == 0 {
		return api.Scope{}, nothingReserved(at.Path, below)
	}
	s, err := cl.RegisterScope(ctx, at)
	if err != nil {
		return s, err
	}
	if !slices.ContainsFunc(here, func(r api.Reservation) bool { return r.ScopeID == s.ID }) {
		return s, reservedBefore(at.Path, here)
	}
	for _, path := range below[:min(len(below), mostNamed)] {
		t.Say(wordsNotPartOfIt, cli.Inline(path), argument(path))
	}
	return s, nil
}

// canBeTaken refuses a transfer that the gate could not make: to nobody, to who
// has it, or of what overlaps something else of its holder's, which two holders
// would then have.
func canBeTaken(ctx context.Context, cl *client.Client, r api.Reservation, to string) error {
	agents, err := cl.Agents(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(agents, func(a api.Agent) bool { return a.Name == to })
	switch {
	case i < 0:
		return noAgent(to)
	case to == r.Agent && agents[i].UID == r.UID:
		return hasItAlready(r)
	}
	tied, err := inseparable(ctx, cl, r)
	if err == nil && len(tied) > 0 {
		err = cannotBeSeparated(r, tied)
	}
	return err
}

// inseparable returns the holder's other reservations of the same scope that
// overlap r, so that another cannot have r beside them.
func inseparable(ctx context.Context, cl *client.Client, r api.Reservation) ([]api.Reservation, error) {
	others, err := cl.AllReservations(ctx, client.ReservationQuery{Scope: r.Scope, Agent: r.Agent})
	if err != nil {
		return nil, err
	}
	others = slices.DeleteFunc(others, func(o api.Reservation) bool {
		return o.ScopeID != r.ScopeID || o.ID == r.ID || o.UID != r.UID || o.Mode == api.Shared && r.Mode == api.Shared
	})
	if len(others) == 0 {
		return nil, nil
	}
	fold, err := folds(ctx, cl, r.ScopeID)
	if err != nil {
		return nil, err
	}
	mine, err := parsed(r, fold)
	if err != nil {
		return nil, err
	}
	var tied []api.Reservation
	for _, o := range others {
		theirs, err := parsed(o, fold)
		if err != nil {
			return nil, err
		}
		if overlap(mine, theirs) {
			tied = append(tied, o)
		}
	}
	return tied, nil
}

// folds reports whether case does not matter in a scope.
func folds(ctx context.Context, cl *client.Client, id string) (bool, error) {
	scopes, err := cl.Scopes(ctx)
	i := slices.IndexFunc(scopes, func(s api.Scope) bool { return s.ID == id })
	return err == nil && i >= 0 && scopes[i].Fold, err
}

// parsed reads the patterns of a reservation.
func parsed(r api.Reservation, fold bool) ([]glob.Pattern, error) {
	out := make([]glob.Pattern, len(r.Patterns))
	for i, text := range r.Patterns {
		var err error
		if out[i], err = glob.Parse(text, glob.Options{FoldCase: fold}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// overlap reports whether one of some patterns overlaps one of others.
func overlap(some, others []glob.Pattern) bool {
	return slices.ContainsFunc(some, func(p glob.Pattern) bool {
		return slices.ContainsFunc(others, func(q glob.Pattern) bool { return glob.Overlap(p, q) })
	})
}
