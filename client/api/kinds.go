package api

// EntryKinds are the kinds of audit entries, in the order of docs/formats/audit.md.
var EntryKinds = []string{
	"started", "stopped", "trusted", "rotated", "uncounted", "planned", "requested", "joined", "reissued",
	"signed", "approved", "rejected", "withdrawn", "cancelled", "superseded", "expired", "refused",
	"dispatched", "succeeded", "failed", "retried", "interrupted", "compensated", "promoted", "used", "desired-put",
	"desired-deleted", "restored", "canary", "keyed", "reviewed", "archived", "time-accepted", "ledger-lost", "agent-registered", "agent-ended",
	"reserved", "renewed", "released", "transferred", "lapsed", "orphaned", "lapsing",
}
