package api

// EntryKinds are the kinds of entries of the audit log (docs/formats/audit.md), in
// the order in which that lists them.
var EntryKinds = []string{
	"started", "stopped", "trusted", "rotated", "uncounted", "planned", "requested", "joined", "reissued",
	"signed", "approved", "rejected", "withdrawn", "cancelled", "superseded", "expired", "refused",
	"dispatched", "succeeded", "failed", "retried", "interrupted", "compensated", "promoted", "used", "desired-put",
	"desired-deleted", "restored", "canary", "keyed", "time-accepted", "agent-registered", "agent-ended",
	"reserved", "renewed", "released", "transferred", "lapsed", "orphaned", "lapsing",
}
