package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/api"
	"gated/internal/gate"
	"gated/internal/op"
	"gated/internal/reserve"
	"gated/internal/server"
)

// reservations keeps who has which paths, for the server.
type reservations struct {
	book   *reserve.Book
	gate   *gate.Gate
	places *places
}

// noteTime bounds how long a refusal waits to be written.
const noteTime = 10 * time.Second

// noteRefused writes a refusal to the audit log, also where the caller has hung
// up, and returns it as callers see it. What is the method and path, as the
// server has it of its own refusals.
func noteRefused(ctx context.Context, g *gate.Gate, by op.Requester, what string, err error) error {
	var refusal *op.Refusal
	if !errors.As(err, &refusal) && ctx.Err() != nil {
		return ctx.Err()
	}
	err = g.Answer(err)
	if code := op.CodeOf(err); code == op.Unavailable || code == op.Internal {
		return err // nothing was decided
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	g.NoteRefused(ctx, by, what, op.AsRefusal(err))
	return err
}

// Reserve gives paths to an agent.
func (r *reservations) Reserve(ctx context.Context, by op.Requester, in api.Reserve) (api.Reservation, []api.Conflict, error) {
	granted, conflicts, err := r.reserve(ctx, by, in)
	if err != nil {
		return api.Reservation{}, conflictsOf(conflicts, by), noteRefused(ctx, r.gate, by, "POST /v1/reservations", err)
	}
	out := reservationOf(granted.Reservation, by)
	out.Renewed = granted.Renewed
	return out, nil, nil
}

func (r *reservations) reserve(ctx context.Context, by op.Requester, in api.Reserve) (reserve.Granted, []reserve.Conflict, error) {
	ttl, wait, err := in.Times()
	if err != nil {
		return reserve.Granted{}, nil, err
	}
	at, err := r.places.check(ctx, in.Scope, true)
	if err != nil {
		return reserve.Granted{}, nil, err
	}
	return r.book.Reserve(ctx, reserve.Claim{By: by, Place: at, Patterns: in.Patterns, Mode: modeOf(in.Mode), TTL: ttl, Keep: in.Keep,
		Wait: wait, Reason: in.Reason})
}

func modeOf(text string) reserve.Mode { return reserve.Mode(cmp.Or(text, api.Exclusive)) }

// Check says who is in the way. It decides nothing, so no refusal of it is
// written down.
func (r *reservations) Check(ctx context.Context, by op.Requester, in api.Check) (api.Checked, error) {
	at, err := r.places.check(ctx, in.Scope, false)
	if err != nil {
		return api.Checked{}, r.gate.Answer(err)
	}
	conflicts, more, err := r.book.Check(ctx, by, at, in.Patterns, modeOf(in.Mode))
	if err != nil {
		return api.Checked{}, r.gate.Answer(err)
	}
	return api.Checked{Conflicts: conflictsOf(conflicts, by), More: more}, nil
}

// List returns reservations in the order of their ids.
func (r *reservations) List(ctx context.Context, by op.Requester, q server.ReservationQuery) ([]api.Reservation, error) {
	list, err := r.book.List(ctx, reserve.Query{Path: q.Scope, Holder: q.Agent, After: q.After, Limit: q.Limit})
	if err != nil {
		return nil, r.gate.Answer(err)
	}
	return reservationsOf(list, by), nil
}

// Renew gives a reservation more time.
func (r *reservations) Renew(ctx context.Context, by op.Requester, id op.ReservationID, ttl time.Duration) (api.Reservation, error) {
	one, err := r.book.Renew(ctx, by, id, ttl)
	return r.one(ctx, by, fmt.Sprintf("POST /v1/reservations/%s/renew", id), one, err)
}

// Release ends a reservation.
func (r *reservations) Release(ctx context.Context, by op.Requester, id op.ReservationID) (api.Reservation, error) {
	one, err := r.book.Release(ctx, by, id)
	return r.one(ctx, by, fmt.Sprintf("DELETE /v1/reservations/%s", id), one, err)
}

// Transfer gives a reservation to another agent.
func (r *reservations) Transfer(ctx context.Context, by op.Requester, id op.ReservationID, to string) (api.Reservation, error) {
	one, err := r.book.Transfer(ctx, by, id, to)
	return r.one(ctx, by, fmt.Sprintf("POST /v1/reservations/%s/transfer", id), one, err)
}

func (r *reservations) one(ctx context.Context, by op.Requester, what string, one reserve.Reservation, err error) (api.Reservation, error) {
	if err != nil {
		return api.Reservation{}, noteRefused(ctx, r.gate, by, what, err)
	}
	return reservationOf(one, by), nil
}

// ReleaseMine ends all of the caller's.
func (r *reservations) ReleaseMine(ctx context.Context, by op.Requester) ([]api.Reservation, error) {
	list, err := r.book.ReleaseMine(ctx, by)
	if err != nil {
		return nil, noteRefused(ctx, r.gate, by, "POST /v1/reservations/release-mine", err)
	}
	return reservationsOf(list, by), nil
}

// Scopes lists the directories that have an id.
func (r *reservations) Scopes(ctx context.Context) ([]api.Scope, error) {
	list, err := r.book.Scopes(ctx)
	if err != nil {
		return nil, r.gate.Answer(err)
	}
	out := make([]api.Scope, len(list))
	for i, s := range list {
		out[i] = scopeOf(s)
	}
	return out, nil
}

// RegisterScope finds or makes the id of a directory.
func (r *reservations) RegisterScope(ctx context.Context, by op.Requester, said api.Place) (api.Scope, error) {
	at, err := r.places.check(ctx, said, true)
	if err != nil {
		return api.Scope{}, noteRefused(ctx, r.gate, by, "POST /v1/scopes", err)
	}
	s, err := r.book.Register(ctx, at)
	if err != nil {
		return api.Scope{}, noteRefused(ctx, r.gate, by, "POST /v1/scopes", err)
	}
	return scopeOf(s), nil
}

func scopeOf(s reserve.Scope) api.Scope {
	return api.Scope{ID: s.ID, At: s.At.UTC(),
		Place: api.Place{Path: s.Path, Device: s.Device, Inode: s.Inode, Fold: s.Fold}}
}

func reservationsOf(list []reserve.Reservation, by op.Requester) []api.Reservation {
	out := make([]api.Reservation, len(list))
	for i, r := range list {
		out[i] = reservationOf(r, by)
	}
	return out
}

// reservationOf shows a reservation to a caller.
func reservationOf(r reserve.Reservation, by op.Requester) api.Reservation {
	caller := reserve.Holder{Name: op.AgentName(by.Agent), UID: by.UID}
	return api.Reservation{ID: r.ID.String(), Scope: r.Scope.Path, ScopeID: r.Scope.ID, Patterns: r.Patterns, Mode: string(r.Mode),
		Agent: r.Holder.String(), UID: r.Holder.UID, HolderAlive: r.Alive, Keep: r.Keep, Mine: r.Holder.Same(caller), Reason: r.Reason,
		CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC()}
}

func conflictsOf(list []reserve.Conflict, by op.Requester) []api.Conflict {
	out := make([]api.Conflict, len(list))
	for i, c := range list {
		out[i] = api.Conflict{Pattern: c.Pattern, Overlaps: c.Overlaps, Reservation: reservationOf(c.Reservation, by)}
	}
	return out
}
