package api

import (
	"time"

	"gated/internal/op"
)

// Status is the answer to GET /v1/status.
type Status struct {
	Host      string    `json:"host"`
	Gate      op.GateID `json:"gate"`
	Version   string    `json:"version"`
	UID       uint32    `json:"uid"` // that the daemon runs as
	StartedAt time.Time `json:"started_at"`

	// Isolation is "none" where agents run under the daemon's own uid, else
	// "uid"; Remedies says what to do about none.
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
	Layers    []Layer         `json:"layers"`  // what stands between a guest's program and the host; none where no guest has one
	AuditHead Head            `json:"audit_head"`
	Epoch     int64           `json:"trust_epoch"` // of the list of signers in force
	Policy    string          `json:"policy"`      // digest of the policy in force, as the audit log has it
	Canary    *Canary         `json:"canary"`      // the last one, null where nothing has changed yet
	Hub       *Hub            `json:"hub"`         // null where none is configured
}

// Layer is one thing that a guest's program would have to break through.
type Layer struct {
	Name   string `json:"name"` // uid, landlock, seccomp
	Stands bool   `json:"stands"`
	Detail string `json:"detail"`
}

// Hub is how the gate stands with the hub that it polls.
type Hub struct {
	URL         string     `json:"url"`
	Revision    string     `json:"revision"`     // that was read last, as the hub calls it; empty before the first
	ReadAt      *time.Time `json:"read_at"`      // when the hub last answered a poll as it should; null before the first
	PolledAt    *time.Time `json:"polled_at"`    // when it was asked last
	Error       *Error     `json:"error"`        // why its wishes rest now, else null
	Relayed     int        `json:"relayed"`      // operations that it relays
	Refused     int        `json:"refused"`      // of these, that were refused
	Untried     int        `json:"untried"`      // of these, that the gate was not asked about yet
	RelayError  *Error     `json:"relay_error"`  // why it is not known what it relays, else null
	ReportedAt  *time.Time `json:"reported_at"`  // when it last took a report
	ReportError *Error     `json:"report_error"` // why it did not take the last one, else null
}

// Canary is what came of watching the gate's decisions after a change.
type Canary struct {
	Change    int64      `json:"change"`     // the audit entry that changed something
	Changed   []string   `json:"changed"`    // policy, trust, version
	At        time.Time  `json:"at"`         // when
	Verdict   string     `json:"verdict"`    // watching, passed, alert or expired
	DecidedAt *time.Time `json:"decided_at"` // null while it watches
	Open      bool       `json:"open"`       // it watches, or is an alert that stands
	Decisions int        `json:"decisions"`  // that counted since, while it watches
	Before    int        `json:"before"`     // with how many they are compared
	Until     time.Time  `json:"until"`      // when it ends at the latest
	Paused    bool       `json:"paused"`     // the clock is not believed, so nothing counts
	Overdue   bool       `json:"overdue"`    // open for 30 days or more
	Why       string     `json:"why"`        // of the verdict, a sentence
	Back      string     `json:"back"`       // of an alert, how to go back
	End       string     `json:"end"`        // of an alert that has ended, why
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

// Health is one thing that the daemon watches of itself.
type Health struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// SourceStatus is how the last read of a source of desired state went.
type SourceStatus struct {
	Name   string     `json:"name"`
	Sets   int        `json:"sets"`
	ReadAt *time.Time `json:"read_at"`
	Error  *Error     `json:"error"` // nothing is planned while there is one
}

// Set is a named set of desired state, without its document.
type Set struct {
	Name      string     `json:"name"`
	ETag      string     `json:"etag"` // without quotes
	Bytes     int        `json:"bytes"`
	UpdatedAt *time.Time `json:"updated_at"` // null in the answer to a PUT
}
