package metrics

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"time"

	"gated/internal/base/op"
)

// Sample is how the gate is at a scrape.
type Sample struct {
	Version  string    // of the daemon
	Now      time.Time // of the gate
	Started  time.Time
	Readable bool // the database could be read; without it the fields of the next group are not known

	Waiting  int
	Oldest   time.Time // the oldest request that waits; zero if none does
	ByRole   map[op.Role]int
	Running  int
	Entries  int64     // of the audit log
	Signed   int64     // of these, those below the newest signed head
	Backup   time.Time // the newest copy that was handed out; zero if none was
	Verified time.Time // the newest one that was checked
	// Drill is when the newest signed drill got its last needed signature, and DrillTook how long after its
	// request; zero if there is none.
	Drill     time.Time
	DrillTook time.Duration
	Incidents int // of break-glass, those that are open

	BackupOlder  time.Duration // monitor.backup_older; 0 if it is not set
	DrillOlder   time.Duration // the age of the last signed drill above which alert rules warn; 0: never
	ClockTrusted bool
	Checks       map[string]bool // what the daemon watches, by one of CheckNames
	Backends     map[string]bool // whether each is there, by one of BackendNames
	LostLines    int64           // of the daemon's own log
	Guests       int
	Agents       int
}

// CheckNames are the values of the label check. All other names count as targets.
var CheckNames = []string{"agents", "archive", "audit_log", "backends", "backup", "canary", "certificate", "clock", "database", "disk", "drill", "hub", "incidents", "journal", "member", "rules", "revoked_keys",
	"settings", "signers", "state", "targets"}

// BackendNames are the values of the label backend.
var BackendNames = []string{"command", "libvirt", "local", "proxmox"}

// roles are the values of the label role beside other, which is a role of the operator's own.
var roles = []op.Role{op.Operational, op.Coordination, op.Recovery, op.BreakGlass}

// upHelp says what gated_up is.
const upHelp = "1 if the gate answers. gated metrics --textfile writes 0 if it does not."

// Down is the text for a gate that does not answer.
func Down() []byte {
	t := &text{}
	t.one("gated_up", gauge, upHelp, 0)
	return t.b
}

// Text returns all metrics in Prometheus' text format.
func (m *Metrics) Text(s Sample) []byte {
	t := &text{b: make([]byte, 0, 16<<10)}
	t.one("gated_up", gauge, upHelp, 1)
	t.family("gated_build_info", gauge, "1, with the versions of the program and of Go.")
	t.sample("gated_build_info", 1, "version", s.Version, "goversion", runtime.Version())
	if s.Readable {
		t.database(s)
	}
	t.one("gated_backup_max_age_seconds", gauge, "monitor.backup_older of gated.yaml; 0 if backups are not watched.", s.BackupOlder.Seconds())
	t.one("gated_drill_max_age_seconds", gauge, "monitor.drill_older of gated.yaml, without it 90 days once a drill was signed; else 0.", s.DrillOlder.Seconds())
	t.one("gated_clock_trusted", gauge, "1 if the gate believes its clock; otherwise signed work waits.", truth(s.ClockTrusted))
	t.family("gated_check_ok", gauge, "1 if what gated status watches is as it should be. targets is all that is about single targets.")
	t.truths("gated_check_ok", "check", CheckNames, s.Checks)
	t.family("gated_backend_up", gauge, "1 if the back end could be reached at the last look.")
	t.truths("gated_backend_up", "backend", BackendNames, s.Backends)
	t.one("gated_guests", gauge, "Guests at the last listing.", float64(s.Guests))
	t.one("gated_agents", gauge, "Registered agents.", float64(s.Agents))
	t.one("gated_log_lost_lines_total", counter, "Lines of the daemon's own log that were dropped, because the log was written too slowly.",
		float64(s.LostLines))
	m.counted(t)
	t.process(s.Started)
	return t.b
}

// database writes what the database says.
func (t *text) database(s Sample) {
	t.one("gated_requests_pending", gauge, "Requests that wait for a signature.", float64(s.Waiting))
	t.family("gated_requests_pending_by_role", gauge,
		"Requests that wait, by each role that may sign them; one request may count for several. other is the policy's own roles.")
	rest := 0
	for role, n := range s.ByRole {
		if !slices.Contains(roles, role) {
			rest += n
		}
	}
	for _, role := range roles {
		t.sample("gated_requests_pending_by_role", float64(s.ByRole[role]), "role", string(role))
	}
	t.sample("gated_requests_pending_by_role", float64(rest), "role", other)
	wait := 0.0
	if !s.Oldest.IsZero() {
		wait = max(s.Now.Sub(s.Oldest).Seconds(), 0)
	}
	t.one("gated_request_oldest_wait_seconds", gauge, "How long the oldest request waits; 0 if none does.", wait)
	t.one("gated_steps_running", gauge, "Steps that were handed to their driver.", float64(s.Running))
	t.one("gated_audit_entries_total", counter, "Entries of the audit log, since the gate was made.", float64(s.Entries))
	t.one("gated_audit_signed_entries_total", counter, "Entries below the newest signed head. It stands still if the gate signs none.",
		float64(s.Signed))
	t.one("gated_last_backup_timestamp_seconds", gauge, "When the newest copy was handed out whole; 0 if the gate knows of none.", stamp(s.Backup))
	t.one("gated_last_verified_backup_timestamp_seconds", gauge,
		"When the newest copy that gated backup has checked was handed out; 0 if the gate knows of none.", stamp(s.Verified))
	t.one("gated_drill_last_success_timestamp_seconds", gauge,
		"When the newest drill that was signed got its last needed signature; 0 if the gate knows of none.", stamp(s.Drill))
	t.one("gated_drill_last_duration_seconds", gauge, "From the request of that drill to that signature; 0 if the gate knows of none.",
		s.DrillTook.Seconds())
	t.one("gated_incidents_open", gauge, "Steps that break-glass signatures approved and no operator has reviewed.", float64(s.Incidents))
}

// counted writes what was counted since the start.
func (m *Metrics) counted(t *text) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t.one("gated_last_proof_timestamp_seconds", gauge,
		"When a caller last got a proof that the log goes on from an older head, as opsign demands it; 0 if none did since the start.",
		stamp(m.proof))
	t.family("gated_decisions_total", counter, "Decisions by kind of audit entry, and by code if there is one.")
	for _, d := range slices.SortedFunc(maps.Keys(m.decisions), func(a, b decision) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.code, b.code))
	}) {
		t.sample("gated_decisions_total", float64(m.decisions[d]), "kind", string(d.kind), "code", string(d.code))
	}
	t.family("gated_steps_total", counter, "Steps that ended, and tries of benign ones, by outcome.")
	for _, k := range slices.Sorted(maps.Keys(m.steps)) {
		t.sample("gated_steps_total", float64(m.steps[k]), "outcome", string(k))
	}
	t.spread("gated_approval_wait_seconds", "From a request to the signature that was the last one needed.", m.approval)
	t.spread("gated_store_commit_seconds", "How long a COMMIT of the database took, with its fsync.", m.commit)
}

// truths writes a sample for each name of a closed set that has a value. All other names have one together.
func (t *text) truths(name, label string, known []string, values map[string]bool) {
	all := map[string]bool{}
	for n, ok := range values {
		if !slices.Contains(known, n) {
			n = other
		}
		before, there := all[n]
		all[n] = ok && (before || !there)
	}
	for _, n := range slices.Sorted(maps.Keys(all)) {
		t.sample(name, truth(all[n]), label, n)
	}
}

func truth(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}

// stamp is a time as Unix seconds; 0 for none.
func stamp(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixMilli()) / 1000
}
