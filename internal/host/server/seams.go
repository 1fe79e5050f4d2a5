package server

import (
	"context"
	"io"
	"syscall"
	"time"

	"gated/internal/base/op"
	"gated/internal/wire/api"
)

// Envelope is a payload's bytes and the armored signatures over them. Only the size of the bytes was checked.
type Envelope struct {
	Payload    []byte
	Signatures []string
}

// JobQuery narrows a list of jobs.
type JobQuery struct {
	State   op.State // "" for all
	After   op.JobID // 0 for the first page
	Through op.JobID // no later job than this; 0: no bound
	Limit   int      // at least 1
	Bytes   int      // stop once the jobs weigh so much (op.Job.Weight)
}

// RequestQuery narrows a list of requests.
type RequestQuery struct {
	State op.State     // "" for open ones
	After op.RequestID // the zero id for the first page
	Limit int          // at least 1
	Bytes int          // stop once the requests weigh so much (op.Request.Weight)
}

// GuestQuery is one page of a list of guests.
type GuestQuery struct {
	After string // a name, "" for the first page
	Limit int    // at least 1
	Bytes int    // stop once the guests weigh so much (op.Observed.Weight)
}

// Gate decides. Its refusals are *refusal.Refusal. Any other error is answered as internal, without its text.
type Gate interface {
	Submit(ctx context.Context, s op.Submission) (op.Job, error)
	// Cancel refuses as NotAllowed, unless the caller is one of the job's requesters, root or, under single_user, the
	// daemon's own uid.
	Cancel(ctx context.Context, by op.Requester, id op.JobID) (op.Job, error)
	Job(ctx context.Context, id op.JobID) (op.Job, error)
	Jobs(ctx context.Context, q JobQuery) ([]op.Job, error)
	Request(ctx context.Context, id op.RequestID) (op.Request, error)
	Shown(ctx context.Context, id op.RequestID) (op.Request, error)
	// ShowPayload is called if an operator, and not an agent, reads a request's payload.
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
	Body      []byte // byte for byte
	UpdatedAt time.Time
}

// SetHead is a set without its body.
type SetHead struct {
	Name, ETag string
	Bytes      int
	UpdatedAt  time.Time
}

// Desired keeps the sets of desired state. The server calls it only for operators, except Plan.
type Desired interface {
	// PutSet replaces a set. With a non-empty ifMatch (an ETag, or "*") it refuses as Conflict, unless that is the
	// present set.
	PutSet(ctx context.Context, by op.Requester, name, ifMatch string, body []byte) (etag string, err error)
	Set(ctx context.Context, name string) (Set, error) // UnknownTarget if there is none
	Sets(ctx context.Context) ([]SetHead, error)
	DeleteSet(ctx context.Context, by op.Requester, name string) error
	// Plan says what a document would change if it were put as that set. An empty set means one that does not exist
	// yet. It changes nothing.
	Plan(ctx context.Context, by op.Requester, set string, document []byte) (api.Plan, error)
}

// Guests looks at guests. It classifies a destroy for the caller.
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

// Backends returns the state of each back end. A check takes up to seconds; for all callers together, only one runs at
// a time.
type Backends interface {
	Backends(ctx context.Context) ([]api.Backend, error) // by name
}

// Agents finds out which agent calls, and lists the names.
type Agents interface {
	// Connected is called right after accept, once for each connection. An error closes the connection.
	Connected(c syscall.Conn) (Caller, error)
	// Register binds a name to a process of the caller, or to a new token. by is what Connected returned.
	Register(ctx context.Context, by Caller, in api.RegisterAgent) (api.RegisteredAgent, error)
	// Unregister refuses, as NotHolder, any caller but that agent. operator says that by's uid is an operator's: an
	// operator may also free the name of a lost token.
	Unregister(ctx context.Context, by op.Requester, name string, operator bool) (api.Agent, error)
	Agents(ctx context.Context) ([]api.Agent, error) // by name
}

// Caller is the process at the other end of one connection. Who and Self may be called during Close and after it.
type Caller interface {
	// Who returns the caller's agent as op.Requester.Agent has it, "builder#7", and "" for a bare uid. The server calls
	// it for every request. If there is a token, only that counts, and a wrong one is NotAllowed.
	Who(token string) (agent string, err error)
	// Self says which agent the caller is; agent is what Who returned.
	Self(agent string) api.Caller
	Close() // once, when the connection ends
}

// ReservationQuery narrows a list of reservations.
type ReservationQuery struct {
	Scope string           // the path of a directory, "" for all
	Agent string           // the holder: an agent's name, or uid:1000; "" for all
	After op.ReservationID // 0 for the first page
	Limit int              // at least 1
	Bytes int              // stop once the reservations weigh so much
}

// Reservations keeps the reservations of paths. A by without an agent is a bare uid. The server has checked that no
// number of seconds is negative or above api.MaxSeconds.
type Reservations interface {
	// Reserve waits for as long as in says. Its Conflict comes with the reservations in the way. It is NotAllowed if
	// from, which Agents.Connected returned, may not write. When ctx ends, Reserve returns ctx's error, and the claim
	// leaves the queue.
	Reserve(ctx context.Context, by op.Requester, from Caller, in api.Reserve) (api.Reservation, []api.Conflict, error)
	Check(ctx context.Context, by op.Requester, in api.Check) (api.Checked, error)
	// List also says whether there may be more.
	List(ctx context.Context, by op.Requester, q ReservationQuery) (page []api.Reservation, more bool, err error)
	Renew(ctx context.Context, by op.Requester, from Caller, id op.ReservationID, ttl time.Duration) (api.Reservation, error)
	Release(ctx context.Context, by op.Requester, id op.ReservationID) (api.Reservation, error)
	ReleaseMine(ctx context.Context, by op.Requester) ([]api.Reservation, error)
	Transfer(ctx context.Context, by op.Requester, id op.ReservationID, to string) (api.Reservation, error)
	// Scopes lists the scopes after an id, "" for the first, until they weigh so many bytes. It says whether there are
	// more.
	Scopes(ctx context.Context, after string, bytes int) (page []api.Scope, more bool, err error)
	// RegisterScope returns the id of a place, and makes one if it is new. It is NotAllowed if from may not write,
	// unless operator says that by's uid is an operator's.
	RegisterScope(ctx context.Context, by op.Requester, from Caller, operator bool, at api.Place) (api.Scope, error)
}

// Log reads the audit log, and the events, which are its filtered form.
type Log interface {
	// Audit returns up to limit entries above after, oldest first. It stops when they have so many bytes.
	Audit(ctx context.Context, after int64, limit, bytes int) ([]api.Entry, error)
	Head(ctx context.Context) (api.Head, error)
	// Consistency refuses, as BadParams, sizes larger than the log.
	Consistency(ctx context.Context, old, size int64) (api.Consistency, error)
	// Inclusion refuses, as UnknownTarget, an entry that is not in the signed log.
	Inclusion(ctx context.Context, seq int64) (api.Inclusion, error)
	// Events is Audit with a filter: only what concerns one holder, an agent's name or uid:1000; "" means everything.
	// next is the number of the last entry that it read, at least after. If next is after, there are no more.
	Events(ctx context.Context, after int64, limit, bytes int, concerns string) (events []api.Entry, next int64, err error)
	// Wait returns nil when the log has an entry above after, or ctx's error if ctx ends first.
	Wait(ctx context.Context, after int64) error
}

// Status returns the daemon's state.
type Status interface {
	Status(ctx context.Context) (api.Status, error)
}

// Canary watches for decisions that differ after a change.
type Canary interface {
	// Accept ends the alert about the change of that audit entry. It is UnknownTarget if there is no such alert.
	Accept(ctx context.Context, by op.Requester, change int64) error
}

// Backup writes a consistent copy of the state. An error before the first byte is answered as a problem. A later error
// breaks the connection.
type Backup interface {
	Backup(ctx context.Context, w io.Writer) error
}
