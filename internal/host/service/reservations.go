package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"gated/client/api"
	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
)

// Reservations keeps who has which paths, for the server. A by without an agent is a bare uid. The server has checked
// that no number of seconds is negative or above api.MaxSeconds.
type Reservations struct {
	book    *reserve.Book
	gate    *gate.Gate
	members Members
	places  *places
}

// NewReservations keeps the claims of a book. unseen says that it grants claims even if the daemon cannot see which
// uids may write.
func NewReservations(b *reserve.Book, g *gate.Gate, m Members, unseen bool) *Reservations {
	return &Reservations{b, g, m, newPlaces(unseen)}
}

// noteTime bounds how long a refusal waits to be written.
const noteTime = 10 * time.Second

// noteRefused writes a refusal to the audit log, even if the caller has hung up, and returns it as the caller sees it.
// what is the method and path, as in the server's own refusals.
func noteRefused(ctx context.Context, g *gate.Gate, by op.Requester, what string, err error) error {
	var refused *refusal.Refusal
	if !errors.As(err, &refused) && ctx.Err() != nil {
		return ctx.Err()
	}
	err = g.Answer(err)
	if code := refusal.CodeOf(err); code == refusal.Unavailable || code == refusal.Internal {
		return err // nothing was decided
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	g.NoteRefused(ctx, by, what, refusal.As(err))
	return err
}

// Reserve gives paths to an agent. It waits for as long as in says. Its Conflict comes with the reservations in the
// way. It is NotAllowed if the caller may not write there. When ctx ends, Reserve returns ctx's error, and the claim
// leaves the queue.
func (r *Reservations) Reserve(ctx context.Context, by op.Requester, from *Caller, in api.Reserve) (api.Reservation, []api.Conflict, error) {
	granted, conflicts, err := r.reserve(ctx, by, from, in)
	if err != nil {
		return api.Reservation{}, r.conflictsOf(conflicts, by), noteRefused(ctx, r.gate, by, "POST /v1/reservations", err)
	}
	out := r.shown(granted.Reservation, by)
	out.Renewed = granted.Renewed
	return out, nil, nil
}

func (r *Reservations) reserve(ctx context.Context, by op.Requester, from *Caller, in api.Reserve) (reserve.Granted, []reserve.Conflict, error) {
	ttl, wait, err := in.Times()
	if err != nil {
		return reserve.Granted{}, nil, err
	}
	at, err := r.claimed(ctx, from, in.Scope)
	if err != nil {
		return reserve.Granted{}, nil, err
	}
	return r.book.Reserve(ctx, reserve.Claim{By: by, Place: r.members.place(by, at), Patterns: in.Patterns, Mode: modeOf(in.Mode), TTL: ttl, Keep: in.Keep,
		Wait: wait, Reason: in.Reason})
}

func modeOf(text string) reserve.Mode { return reserve.Mode(cmp.Or(text, api.Exclusive)) }

// Check returns the reservations in the way. It decides nothing, so its refusals are not written to the log.
func (r *Reservations) Check(ctx context.Context, by op.Requester, in api.Check) (api.Checked, error) {
	at, err := r.looked(ctx, by, in.Scope)
	if err != nil {
		return api.Checked{}, r.gate.Answer(err)
	}
	conflicts, more, err := r.book.Check(ctx, by, r.members.place(by, at), in.Patterns, modeOf(in.Mode))
	if err != nil {
		return api.Checked{}, r.gate.Answer(err)
	}
	return api.Checked{Conflicts: r.conflictsOf(conflicts, by), More: more}, nil
}

// List returns reservations in the order of their ids, and whether there may be
// more.
func (r *Reservations) List(ctx context.Context, by op.Requester, q reserve.Query) (page []api.Reservation, more bool, err error) {
	if q.Path != "" {
		at := r.members.place(by, reserve.Place{Path: path.Clean(q.Path)})
		q.In, q.Path = at.In, at.Path
	}
	list, err := r.book.List(ctx, q)
	if err != nil {
		return nil, false, r.gate.Answer(err)
	}
	weight := 0
	for _, one := range list {
		weight += one.Weight()
	}
	return r.allShown(list, by), len(list) == q.Limit || q.Bytes > 0 && weight >= q.Bytes, nil
}

// Renew gives a reservation more time.
func (r *Reservations) Renew(ctx context.Context, by op.Requester, from *Caller, id op.ReservationID, ttl time.Duration) (api.Reservation, error) {
	var one reserve.Reservation
	err := r.mayRenew(ctx, by, from, id)
	if err == nil {
		one, err = r.book.Renew(ctx, by, id, ttl)
	}
	return r.one(ctx, by, fmt.Sprintf("POST /v1/reservations/%s/renew", id), one, err)
}

// mayRenew refuses, as NotAllowed, more time for a directory that its holder could no longer reserve. Otherwise a
// former owner of a name in /tmp could keep it from others for ever. The book checks whether the reservation exists and
// is the caller's.
func (r *Reservations) mayRenew(ctx context.Context, by op.Requester, from *Caller, id op.ReservationID) error {
	if from == nil {
		return nil // the caller's own member has looked
	}
	list, err := r.book.List(ctx, reserve.Query{After: id - 1, Limit: 1})
	if err != nil || len(list) == 0 || list[0].ID != id || !list[0].Holder.Same(holding(by)) {
		return err
	}
	who, err := claimantOf(from)
	if err != nil {
		return err
	}
	at, here := r.members.path(by, list[0].Scope.Place)
	if !here {
		return nil
	}
	return r.places.mayStay(ctx, who, at)
}

// Release ends a reservation.
func (r *Reservations) Release(ctx context.Context, by op.Requester, id op.ReservationID) (api.Reservation, error) {
	one, err := r.book.Release(ctx, by, id)
	return r.one(ctx, by, fmt.Sprintf("DELETE /v1/reservations/%s", id), one, err)
}

// Transfer gives a reservation to another agent.
func (r *Reservations) Transfer(ctx context.Context, by op.Requester, id op.ReservationID, to string) (api.Reservation, error) {
	one, err := r.book.Transfer(ctx, by, id, to)
	return r.one(ctx, by, fmt.Sprintf("POST /v1/reservations/%s/transfer", id), one, err)
}

func (r *Reservations) one(ctx context.Context, by op.Requester, what string, one reserve.Reservation, err error) (api.Reservation, error) {
	if err != nil {
		return api.Reservation{}, noteRefused(ctx, r.gate, by, what, err)
	}
	return r.shown(one, by), nil
}

// ReleaseMine ends all of the caller's.
func (r *Reservations) ReleaseMine(ctx context.Context, by op.Requester) ([]api.Reservation, error) {
	list, err := r.book.ReleaseMine(ctx, by)
	if err != nil {
		return nil, noteRefused(ctx, r.gate, by, "POST /v1/reservations/release-mine", err)
	}
	return r.allShown(list, by), nil
}

// Scopes lists the directories whose ids come after one, "" for the first, until they weigh so many bytes. It says
// whether there are more.
func (r *Reservations) Scopes(ctx context.Context, by op.Requester, after string, bytes int) (page []api.Scope, more bool, err error) {
	list, more, err := r.book.ScopePage(ctx, after, bytes)
	if err != nil {
		return nil, false, r.gate.Answer(err)
	}
	out := make([]api.Scope, len(list))
	for i, s := range list {
		out[i] = r.scopeOf(s, by)
	}
	return out, more, nil
}

// RegisterScope finds or makes the id of a directory. It is NotAllowed if the caller may not write there, unless
// operator says that by's uid is an operator's.
func (r *Reservations) RegisterScope(ctx context.Context, by op.Requester, from *Caller, operator bool, said api.Place) (api.Scope, error) {
	at, err := r.scopeFor(ctx, from, operator, said)
	var s reserve.Scope
	if err == nil {
		s, err = r.book.Register(ctx, r.members.place(by, at))
	}
	if err != nil {
		return api.Scope{}, noteRefused(ctx, r.gate, by, "POST /v1/scopes", err)
	}
	return r.scopeOf(s, by), nil
}

// scopeFor asks of operators only that the caller means the same directory as the daemon sees: operators release
// reservations of others, in any directory.
func (r *Reservations) scopeFor(ctx context.Context, from *Caller, operator bool, said api.Place) (reserve.Place, error) {
	if !operator || from == nil {
		return r.claimed(ctx, from, said)
	}
	at, _, err := r.places.check(ctx, from.peer.UID, said, true)
	return at, err
}

// claimed compares a claim with the directory. The member of a caller of another host has done that.
func (r *Reservations) claimed(ctx context.Context, from *Caller, said api.Place) (reserve.Place, error) {
	if from == nil {
		return asSaid(said), checkPath(said.Path)
	}
	who, err := claimantOf(from)
	if err != nil {
		return reserve.Place{}, err
	}
	return r.places.claim(ctx, who, said, true)
}

// looked compares the place of a question with the directory. The member of a caller of another host has done that.
func (r *Reservations) looked(ctx context.Context, by op.Requester, said api.Place) (reserve.Place, error) {
	if by.Account().Member != r.members.Self {
		return asSaid(said), checkPath(said.Path)
	}
	at, _, err := r.places.check(ctx, by.UID, said, false)
	return at, err
}

func asSaid(said api.Place) reserve.Place {
	return reserve.Place{Path: said.Path, Device: said.Device, Inode: said.Inode, Fold: said.Fold}
}

// See compares the directory of a call that another member decides with what this host has, and returns it as this host sees
// it. A claim needs the right to write there, unless operator.
func (r *Reservations) See(ctx context.Context, by op.Requester, from *Caller, said api.Place, claim, operator bool) (api.Place, error) {
	var at reserve.Place
	var err error
	if claim {
		at, err = r.scopeFor(ctx, from, operator, said)
	} else {
		at, err = r.looked(ctx, by, said)
	}
	return api.Place{Path: at.Path, Device: at.Device, Inode: at.Inode, Fold: at.Fold}, r.gate.Answer(err)
}

// MayRenew is what Renew checks on the caller's host.
func (r *Reservations) MayRenew(ctx context.Context, by op.Requester, from *Caller, id op.ReservationID) error {
	return r.gate.Answer(r.mayRenew(ctx, by, from, id))
}

// claimantOf asks the kernel about a caller's connection.
func claimantOf(from *Caller) (claimant, error) {
	groups, err := from.peer.Groups()
	return claimant{uid: from.peer.UID, groups: groups}, err
}

func (r *Reservations) scopeOf(s reserve.Scope, by op.Requester) api.Scope {
	return api.Scope{ID: s.ID, At: s.At.UTC(),
		Place: api.Place{Path: r.members.shown(by, s.Place), Device: s.Device, Inode: s.Inode, Fold: s.Fold}}
}

func (r *Reservations) allShown(list []reserve.Reservation, by op.Requester) []api.Reservation {
	out := make([]api.Reservation, len(list))
	for i, one := range list {
		out[i] = r.shown(one, by)
	}
	return out
}

// shown is a reservation as its reader sees it.
func (r *Reservations) shown(one reserve.Reservation, by op.Requester) api.Reservation {
	return api.Reservation{ID: one.ID.String(), Scope: r.members.shown(by, one.Scope.Place), ScopeID: one.Scope.ID, Patterns: one.Patterns, Mode: string(one.Mode),
		Agent: one.Holder.String(), UID: one.Holder.UID, Member: one.Holder.Member, HolderAlive: one.Alive, Keep: one.Keep, Mine: one.Holder.Same(holding(by)), Reason: one.Reason,
		CreatedAt: one.CreatedAt.UTC(), ExpiresAt: one.ExpiresAt.UTC()}
}

// holding returns a caller as a holder.
func holding(by op.Requester) reserve.Holder {
	return reserve.Holder{Name: op.AgentName(by.Agent), UID: by.UID, Member: by.Account().Member}
}

func (r *Reservations) conflictsOf(list []reserve.Conflict, by op.Requester) []api.Conflict {
	out := make([]api.Conflict, len(list))
	for i, c := range list {
		out[i] = api.Conflict{Pattern: c.Pattern, Overlaps: c.Overlaps, Reservation: r.shown(c.Reservation, by)}
	}
	return out
}
