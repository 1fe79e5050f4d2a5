package server

import (
	"context"
	"io"
	"syscall"
	"time"

	"gated/internal/api"
	"gated/internal/op"
)

// Envelope is a payload's bytes and the armored signatures over them. Of the
// bytes nothing is known but their number.
type Envelope struct {
	Payload    []byte
	Signatures []string
}

// JobQuery narrows a list of jobs.
type JobQuery struct {
	State   op.State // "" for all
	After   op.JobID // 0 for the first page
	Through op.JobID // none younger than this; 0: no bound
	Limit   int      // at least 1
	Bytes   int      // no more once the jobs weigh as much (op.Job.Weight)
}

// RequestQuery narrows a list of requests.
type RequestQuery struct {
	State op.State     // "" for those that are open
	After op.RequestID // the zero id for the first page
	Limit int          // at least 1
	Bytes int          // no more once the requests weigh as much (op.Request.Weight)
}

// GuestQuery is one page of a list of guests.
type GuestQuery struct {
	After string // a name, "" for the first page
	Limit int    // at least 1
	Bytes int    // no more once the guests weigh as much (op.Observed.Weight)
}

// Gate decides. Refusals are *op.Refusal; any other error is answered as
// internal, without its text.
type Gate interface {
	Submit(ctx context.Context, s op.Submission) (op.Job, error)
	// Cancel refuses, as NotAllowed, whoever is neither one of the job's
	// requesters nor root nor, under single_user, the daemon's own uid.
	Cancel(ctx context.Context, by op.Requester, id op.JobID) (op.Job, error)
	Job(ctx context.Context, id op.JobID) (op.Job, error)
	Jobs(ctx context.Context, q JobQuery) ([]op.Job, error)
	Request(ctx context.Context, id op.RequestID) (op.Request, error)
	Shown(ctx context.Context, id op.RequestID) (op.Request, error)
	// ShowPayload is told that an operator, and no agent, reads a request's payload.
	ShowPayload(ctx context.Context, id op.RequestID) error
	Requests(ctx context.Context, q RequestQuery) ([]op.Request, error)
	Approve(ctx context.Context, by op.Requester, id op.RequestID, e Envelope) (op.Request, error)
	Reject(ctx context.Context, by op.Requester, id op.RequestID, e Envelope) (op.Request, error)
	ApproveOffline(ctx context.Context, by op.Requester, e Envelope) (op.Request, error)
	Explain(ctx context.Context, by op.Requester, ask op.Ask) (op.Step, []op.Fact, error)
}

// Set is a named set of desired state.
type Set struct {
	Name      string
	ETag      string // without quotes
	Body      []byte // as it was put
	UpdatedAt time.Time
}

// SetHead is a set without its body.
type SetHead struct {
	Name, ETag string
	Bytes      int
	UpdatedAt  time.Time
}

// Desired keeps the sets of desired state. The server asks it only for callers
// that are operators, but for Plan.
type Desired interface {
	// PutSet replaces a set; with a non-empty ifMatch (an ETag, or "*") only if
	// that is the set that it replaces, else it refuses as Conflict.
	PutSet(ctx context.Context, by op.Requester, name, ifMatch string, body []byte) (etag string, err error)
	Set(ctx context.Context, name string) (Set, error) // UnknownTarget if there is none
	Sets(ctx context.Context) ([]SetHead, error)
	DeleteSet(ctx context.Context, by op.Requester, name string) error
	// Plan says what a document would change if it were put as that set, which is
	// empty for one that nobody put yet. It changes nothing.
	Plan(ctx context.Context, by op.Requester, set string, document []byte) (api.Plan, error)
}

// Guests looks at guests. The class of a destroy is that for the caller.
type Guests interface {
	// Guests lists one page by name, and says whether there are more.
	Guests(ctx context.Context, by op.Requester, q GuestQuery) (page []api.Guest, more bool, err error)
	Guest(ctx context.Context, by op.Requester, name string) (api.Guest, error)
}

// Commands looks at the operator's catalogue of commands.
type Commands interface {
	Commands(ctx context.Context) ([]api.Command, error)           // by name
	Command(ctx context.Context, name string) (api.Command, error) // UnknownTarget if there is none
}

// Backends says how each back end is. A check of one takes up to seconds; however
// many ask, one is under way.
type Backends interface {
	Backends(ctx context.Context) ([]api.Backend, error) // by name
}

// Agents knows who is calling, and which names there are.
type Agents interface {
	// Connected is asked right after accept, once for each connection. An error
	// closes it.
	Connected(c syscall.Conn) (Caller, error)
	// Register binds a name to a process of by's, or to a new token. by is what
	// Connected returned.
	Register(ctx context.Context, by Caller, in api.RegisterAgent) (api.RegisteredAgent, error)
	// Unregister refuses, as NotHolder, whoever is not that agent. operator says
	// of by's uid that it is an operator's, which helps with a lost token alone.
	Unregister(ctx context.Context, by op.Requester, name string, operator bool) (api.Agent, error)
	Agents(ctx context.Context) ([]api.Agent, error) // by name
}

// Caller is the process at the other end of one connection. Who and Self may be
// asked while Close is called, and after it.
type Caller interface {
	// Who returns the caller's agent as op.Requester.Agent has it, "builder#7",
	// and "" for a bare uid. It is asked for every request. Where there is a
	// token, that alone counts, and a wrong one is NotAllowed.
	Who(token string) (agent string, err error)
	// Self says whom the caller is taken for; agent is what Who returned.
	Self(agent string) api.Caller
	Close() // once, when the connection ends
}

// ReservationQuery narrows a list of reservations.
type ReservationQuery struct {
	Scope string           // the path of a directory, "" for all
	Agent string           // the holder: an agent's name, or uid:1000; "" for all
	After op.ReservationID // 0 for the first page
	Limit int              // at least 1
	Bytes int              // no more once the reservations weigh as much
}

// Reservations keeps who has which paths. A by without an agent is a bare uid.
// The server has checked that no number of seconds is negative or above
// api.MaxSeconds.
type Reservations interface {
	// Reserve waits for as long as in says. Its refusal as Conflict comes with
	// who is in the way; it is NotAllowed where from, which is what
	// Agents.Connected returned, may not write. When ctx ends it returns ctx's
	// error, and the call has no place among those that wait any more.
	Reserve(ctx context.Context, by op.Requester, from Caller, in api.Reserve) (api.Reservation, []api.Conflict, error)
	Check(ctx context.Context, by op.Requester, in api.Check) (api.Checked, error)
	// List says whether there may be more.
	List(ctx context.Context, by op.Requester, q ReservationQuery) (page []api.Reservation, more bool, err error)
	Renew(ctx context.Context, by op.Requester, from Caller, id op.ReservationID, ttl time.Duration) (api.Reservation, error)
	Release(ctx context.Context, by op.Requester, id op.ReservationID) (api.Reservation, error)
	ReleaseMine(ctx context.Context, by op.Requester) ([]api.Reservation, error)
	Transfer(ctx context.Context, by op.Requester, id op.ReservationID, to string) (api.Reservation, error)
	// Scopes lists those after an id, "" for the first, up to the one with which they
	// weigh so many bytes, and says whether there are more.
	Scopes(ctx context.Context, after string, bytes int) (page []api.Scope, more bool, err error)
	// RegisterScope finds the id of a place, or makes one. It is NotAllowed where
	// from may not write, unless it is an operator, which the server says of by's
	// uid.
	RegisterScope(ctx context.Context, by op.Requester, from Caller, operator bool, at api.Place) (api.Scope, error)
}

// Log reads the audit log, and as its filtered form the events.
type Log interface {
	// Audit returns up to limit entries above after, oldest first, and no more once
	// they have so many bytes.
	Audit(ctx context.Context, after int64, limit, bytes int) ([]api.Entry, error)
	Head(ctx context.Context) (api.Head, error)
	// Consistency refuses, as BadParams, sizes that the log has not.
	Consistency(ctx context.Context, old, size int64) (api.Consistency, error)
	// Inclusion refuses, as UnknownTarget, an entry that the signed log has not.
	Inclusion(ctx context.Context, seq int64) (api.Inclusion, error)
	// Events is Audit through the filter: what concerns one holder, an agent's
	// name or uid:1000, or with "" everything. next is the number up to which it
	// looked, at least after; next equal to after means that there is no more.
	Events(ctx context.Context, after int64, limit, bytes int, concerns string) (events []api.Entry, next int64, err error)
	// Wait returns nil as soon as the log has an entry above after, and ctx's
	// error if that ends first.
	Wait(ctx context.Context, after int64) error
}

// Status says how the daemon is.
type Status interface {
	Status(ctx context.Context) (api.Status, error)
}

// Canary tells of decisions that differ since a change.
type Canary interface {
	// Accept ends the alert about the change of that audit entry. One that does
	// not stand is refused as UnknownTarget.
	Accept(ctx context.Context, by op.Requester, change int64) error
}

// Backup writes a consistent copy of the state. An error before the first byte
// is answered as a problem, a later one breaks the connection.
type Backup interface {
	Backup(ctx context.Context, w io.Writer) error
}
