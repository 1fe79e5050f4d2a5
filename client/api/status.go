package api

import (
	"time"
)

// Status is the answer to GET /v1/status.
type Status struct {
	Host      string    `json:"host"`
	Gate      GateID    `json:"gate"`
	Version   string    `json:"version"`
	UID       uint32    `json:"uid"` // that the daemon runs as
	StartedAt time.Time `json:"started_at"`

	// Isolation is "none" if agents run under the daemon's own uid, else "uid". Remedies says what to do about none.
	Isolation string   `json:"isolation"`
	Remedies  []string `json:"remedies"`

	Waiting   int             `json:"waiting"` // requests that wait for a signature
	Running   int             `json:"running"` // steps that were dispatched
	Guests    int             `json:"guests"`
	Agents    int             `json:"agents"`       // that are registered
	Reserved  int             `json:"reservations"` // that are in force
	Health    []Health        `json:"health"`
	Sources   []SourceStatus  `json:"sources"` // of desired state
	Limits    map[string]bool `json:"limits"`  // what the driver can enforce: cgroup, rlimit, landlock
	Layers    []Layer         `json:"layers"`  // between guests' programs and the host; may be empty
	AuditHead Head            `json:"audit_head"`
	Epoch     int64           `json:"trust_epoch"` // of the list of signers in force
	Policy    string          `json:"policy"`      // digest of the policy in force, as in the audit log
	Canary    *Canary         `json:"canary"`      // the last one; null before the first change
	Hub       *Hub            `json:"hub"`         // null where none is configured
	Member    *Member         `json:"member"`      // null for a gate of this host alone

	OldestWait   *time.Time  `json:"oldest_wait"`    // when the oldest request that waits was made; null if none waits
	LastBackup   *LastBackup `json:"last_backup"`    // null if the gate knows of none
	BackupTooOld bool        `json:"backup_too_old"` // monitor.backup_older is set, and no verified copy is newer
	Drills       *Drills     `json:"drills"`         // null of an older daemon
	Incidents    []Incident  `json:"incidents"`      // those of break-glass that are open; null of an older daemon
}

// The roles of a member.
const (
	RoleActive  = "active"  // it decides
	RoleStandby = "standby" // it answers reads, and takes over if the active one is silent
)

// Member says how this daemon takes part in a gate that several daemons know.
type Member struct {
	Name   string `json:"name"`
	Role   string `json:"role"`   // active or standby
	Active string `json:"active"` // the name of the member that decides, as the audit log has it; empty if none began yet
	Era    uint64 `json:"era"`    // of the ledger, as far as this member knows
	Group  uint64 `json:"group"`  // the newest of the ledger that is in this member's database
	Newest uint64 `json:"newest"` // the newest of the ledger, when it last answered
	Silent int64  `json:"silent"` // for how many seconds the active member gave a standby no sign of life; 0 on the active one
	Error  *Error `json:"error"`  // why the ledger does not answer, or why a standby does not follow; or null

	// CertificateUntil is when the member's certificate ends; only if members forward calls.
	CertificateUntil *time.Time `json:"certificate_until,omitempty"`
}

// LastBackup says when copies of the gate's state were handed out. A gate that was restored knows those of before the
// copy that it came from.
type LastBackup struct {
	At       time.Time  `json:"at"`       // the newest copy that was handed out whole
	Verified *time.Time `json:"verified"` // the newest one that gated backup has checked; null if there is none
}

// The states of a health report and of its checks.
const (
	HealthOK       = "ok"
	HealthDegraded = "degraded" // the gate decides, and something needs an operator
	HealthBad      = "bad"      // the gate cannot decide, its log is not the one that it wrote, or an incident of break-glass is open
)

// HealthReport is the answer to GET /v1/health. Its status is 503 if State is bad, else 200.
type HealthReport struct {
	State  string        `json:"state"`  // the worst of the checks
	Checks []HealthCheck `json:"checks"` // each name once, sorted
}

// HealthCheck is one thing that the daemon watches.
type HealthCheck struct {
	Name   string `json:"name"` // journal, clock and others; targets is all that is about single targets
	State  string `json:"state"`
	Detail string `json:"detail"`
}

// VerifiedBackup says which copy of the gate's state its taker has checked (POST /v1/backup/verified).
type VerifiedBackup struct {
	SHA256 string `json:"sha256"` // of the whole copy, in hex
}

// Layer is one barrier between a guest's program and the host.
type Layer struct {
	Name   string `json:"name"` // uid, landlock, seccomp
	Stands bool   `json:"stands"`
	Detail string `json:"detail"`
}

// Hub is the state of the gate's link to a hub.
type Hub struct {
	URL         string     `json:"url"`
	Revision    string     `json:"revision"`     // of the last good answer, in the hub's words; empty before the first
	ReadAt      *time.Time `json:"read_at"`      // when the hub last answered a poll correctly; null before the first
	PolledAt    *time.Time `json:"polled_at"`    // the last poll
	Error       *Error     `json:"error"`        // why its wishes rest now, or null
	Relayed     int        `json:"relayed"`      // operations in its list
	Refused     int        `json:"refused"`      // of these, refused ones
	Untried     int        `json:"untried"`      // of these, ones that the gate was not asked about yet
	RelayError  *Error     `json:"relay_error"`  // why its list is not known, or null
	ReportedAt  *time.Time `json:"reported_at"`  // when it last took a report
	ReportError *Error     `json:"report_error"` // why it did not take the last one, or null
}

// Canary is the result of watching the gate's decisions after a change.
type Canary struct {
	Change    int64      `json:"change"`     // the audit entry of the change
	Changed   []string   `json:"changed"`    // policy, trust, version
	At        time.Time  `json:"at"`         // of the change
	Verdict   string     `json:"verdict"`    // watching, passed, alert or expired
	DecidedAt *time.Time `json:"decided_at"` // null while it watches
	Open      bool       `json:"open"`       // it watches, or its alert stands
	Decisions int        `json:"decisions"`  // how many count since the change
	Before    int        `json:"before"`     // how many before the change they are compared with
	Until     time.Time  `json:"until"`      // its latest end
	Paused    bool       `json:"paused"`     // the gate does not trust its clock, so no decision counts
	Overdue   bool       `json:"overdue"`    // open for 30 days or more
	Why       string     `json:"why"`        // the verdict in a sentence
	Back      string     `json:"back"`       // how to undo the change of an alert
	End       string     `json:"end"`        // why the alert ended
}

// Healthy reports whether nothing is wrong.
func (s Status) Healthy() bool {
	for _, h := range s.Health {
		if !h.OK {
			return false
		}
	}
	return true
}

// Health is one thing that the daemon checks of itself.
type Health struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Reloaded is the result of a reload that was not refused.
type Reloaded struct {
	Changed []string `json:"changed"` // what is in force now and was not before: "policy", "revoked keys"
	Waits   []string `json:"waits"`   // keys of gated.yaml that changed on disk and take effect at the next start
	Policy  string   `json:"policy"`  // digest of the policy in force
	Revoked string   `json:"revoked"` // what the revocation file holds, in words
}

// SourceStatus is the result of the last read of a source of desired state.
type SourceStatus struct {
	Name   string     `json:"name"`
	Sets   int        `json:"sets"`
	ReadAt *time.Time `json:"read_at"`
	Error  *Error     `json:"error"` // nothing is planned while it is set
}

// Set is a named set of desired state, without its document.
type Set struct {
	Name      string     `json:"name"`
	ETag      string     `json:"etag"` // without quotes
	Bytes     int        `json:"bytes"`
	UpdatedAt *time.Time `json:"updated_at"` // null in the answer to a PUT
}

// Backend is one back end of the gate: the driver of a kind of targets.
type Backend struct {
	Name      string     `json:"name"`       // "local"
	Kind      string     `json:"kind"`       // of its targets: "guest"
	State     string     `json:"state"`      // BackendOK or BackendAway
	Detail    string     `json:"detail"`     // why it is away
	Since     *time.Time `json:"since"`      // the begin of that state; null if the state is not watched
	Version   string     `json:"version"`    // empty if it gives none
	Guests    int        `json:"guests"`     // at the last listing
	NewGuests bool       `json:"new_guests"` // new guests are made in it
	Findings  []Finding  `json:"findings"`   // of its last check
	CheckedAt time.Time  `json:"checked_at"` // when that check began
}

// The states of a back end.
const (
	BackendOK   = "ok"
	BackendAway = "away" // its targets are unknown, so nothing is planned for them
)

// Finding is one result of a back end's check of itself.
type Finding struct {
	What   string `json:"what"`  // "reachable", "version"
	State  string `json:"state"` // ok, note (works, but a person should know) or bad
	Detail string `json:"detail"`
	Hint   string `json:"hint"` // what to do; may be empty
}
