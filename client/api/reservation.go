package api

import (
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// MaxSeconds is the most that a caller can ask for, in seconds, as a reservation's time or as a wait: a day.
const MaxSeconds = 24 * 60 * 60

// The modes of a reservation.
const (
	Exclusive = "exclusive" // no other holder's may overlap it
	Shared    = "shared"    // only others' exclusive ones may not overlap it
)

// Place is a directory as its caller sees it: the absolute path without symbolic links, and stat(2)'s device and inode.
// Fold says that names there are equal if only case differs.
type Place struct {
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Fold   bool   `json:"fold,omitzero"`
}

// Scope is a directory to which the gate gave an id.
type Scope struct {
	ID    string    `json:"id"` // s3; the target is scope/s3
	Place           // flat
	At    time.Time `json:"registered_at"`
}

// ScopeList answers GET /v1/scopes, by id, with Next as of JobList.
type ScopeList struct {
	Scopes []Scope `json:"scopes"`
	Next   *string `json:"next"`
}

// Reserve is the body of POST /v1/reservations. An empty Mode is Exclusive; a TTL of 0 is the default.
type Reserve struct {
	Scope       Place    `json:"scope"`
	Patterns    []string `json:"patterns"`
	Mode        string   `json:"mode,omitzero"`
	Reason      string   `json:"reason,omitzero"`
	TTLSeconds  int64    `json:"ttl_seconds,omitzero"`
	Keep        bool     `json:"keep,omitzero"`
	WaitSeconds int64    `json:"wait_seconds,omitzero"`
}

// Times returns the reservation's time, 0 for the default, and the caller's wait for it. A value that is negative or
// above MaxSeconds is BadParams. The gate checks the rest.
func (r Reserve) Times() (ttl, wait time.Duration, err error) {
	if ttl, err = seconds("ttl_seconds", r.TTLSeconds); err != nil {
		return 0, 0, err
	}
	wait, err = seconds("wait_seconds", r.WaitSeconds)
	return ttl, wait, err
}

// Check is the body of POST /v1/reservations/check. It registers nothing.
type Check struct {
	Scope    Place    `json:"scope"`
	Patterns []string `json:"patterns"`
	Mode     string   `json:"mode,omitzero"`
}

// Checked answers it: the overlapping reservations of others, by id. More says that there are more.
type Checked struct {
	Conflicts []Conflict `json:"conflicts"`
	More      bool       `json:"more"`
}

// Conflict is another holder's reservation that overlaps what was asked for.
type Conflict struct {
	Pattern     string      `json:"pattern"`     // the caller's pattern, as it was written
	Overlaps    string      `json:"overlaps"`    // the reservation's pattern
	Reservation Reservation `json:"reservation"` // with holder, times and reason
}

// Reservation is an agent's claim on paths.
type Reservation struct {
	ID          string    `json:"id"`       // r12
	Scope       string    `json:"scope"`    // the directory's path
	ScopeID     string    `json:"scope_id"` // s3
	Patterns    []string  `json:"patterns"` // as they were understood, sorted
	Mode        string    `json:"mode"`
	Agent       string    `json:"agent"` // the holder's name, uid:1000, or uid:1000@node2
	UID         uint32    `json:"uid"`
	User        string    `json:"user"`            // the name of the uid, as of Users; or empty
	Member      string    `json:"member,omitzero"` // of the gate, on whose host the uid is; "" on a gate without callers of other members
	HolderAlive bool      `json:"holder_alive"`    // true also for a token and a bare uid, which have no process to check
	Keep        bool      `json:"keep"`            // it outlives its holder's process, until its time is up
	Mine        bool      `json:"mine"`            // the caller holds it
	Reason      string    `json:"reason"`          // the holder's words: data, never an instruction
	CreatedAt   time.Time `json:"created_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	Renewed     bool      `json:"renewed,omitzero"` // in the answer to Reserve: the holder had it already
}

// Holder returns the holder, with its user's name beside a uid: "builder", "uid:1000 (alice)" (see op.Beside).
func (r Reservation) Holder() string { return op.Beside(r.Agent, Users{r.Agent: r.User}) }

// ReservationList answers GET /v1/reservations, by id. Next is the value of after for the next page, null at the end.
type ReservationList struct {
	Reservations []Reservation `json:"reservations"`
	Next         *string       `json:"next"`
}

// Renew is the body of POST /v1/reservations/{id}/renew. A TTL of 0 is the default.
type Renew struct {
	TTLSeconds int64 `json:"ttl_seconds,omitzero"`
}

// TTL is the first result of Reserve.Times.
func (r Renew) TTL() (time.Duration, error) { return seconds("ttl_seconds", r.TTLSeconds) }

func seconds(what string, n int64) (time.Duration, error) {
	if n < 0 || n > MaxSeconds {
		return 0, refusal.New(refusal.BadParams, "%s is %d, not 0 to %d", what, n, MaxSeconds)
	}
	return time.Duration(n) * time.Second, nil
}

// Transfer is the body of POST /v1/reservations/{id}/transfer.
type Transfer struct {
	To string `json:"to"` // a registered agent's name
}

// RegisterAgent is the body of POST /v1/agents: a process of the caller's, or with Token only the name. Pid and Reaper
// are those of the caller's PID namespace (docs/design/agents.md).
type RegisterAgent struct {
	Name   string `json:"name"`
	PID    int    `json:"pid,omitzero"`
	Reaper int    `json:"reaper,omitzero"`
	Token  bool   `json:"token,omitzero"`
}

// Agent is a registered agent.
type Agent struct {
	Name         string    `json:"name"`
	ID           string    `json:"id"` // builder#7; each registration of the name has another number
	UID          uint32    `json:"uid"`
	User         string    `json:"user"`            // the name of the uid, as of Users; or empty
	Member       string    `json:"member,omitzero"` // as in Reservation
	PID          int       `json:"pid"`             // 0 with a token
	Bound        string    `json:"bound"`           // process or token
	Alive        bool      `json:"alive"`           // a token counts as alive
	RegisteredAt time.Time `json:"registered_at"`
}

// RegisteredAgent answers POST /v1/agents. Token is shown only this once, if the caller asked for one.
type RegisteredAgent struct {
	Agent
	Token string `json:"token,omitempty"`
}

// Caller answers GET /v1/agents/self: which agent the daemon takes the caller for.
type Caller struct {
	UID    uint32 `json:"uid"`
	Member string `json:"member,omitzero"` // as in Reservation
	PID    int32  `json:"pid"`
	Agent  *Agent `json:"agent"` // null for a bare uid
	Why    string `json:"why"`   // why there is no name, if there is a reason
}

// Account returns "1000" or "1000@node2".
func (c Caller) Account() string { return op.Account{UID: c.UID, Member: c.Member}.String() }

// Owner returns the account with its user's name: "1000 (alice)" (see op.Account.Named).
func (a Agent) Owner() string { return op.Account{UID: a.UID, Member: a.Member}.Named(a.User) }

// Account returns "1000" or "1000@node2".
func (a Agent) Account() string { return op.Account{UID: a.UID, Member: a.Member}.String() }

// AgentList answers GET /v1/agents, by name.
type AgentList struct {
	Agents []Agent `json:"agents"`
}

// TokenHeader carries an agent's token in each request of a caller whose
// processes the daemon cannot see.
const TokenHeader = "Gated-Agent-Token"
