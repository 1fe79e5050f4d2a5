package ledger

import "slices"

// Table is a table of the gate's database, with the reason why its rows travel or not.
type Table struct{ Name, Why string }

// Local are the tables whose rows describe one machine, and so stay on it.
var Local = []Table{
	{"gate_identity", "machine, inode and birth of the file: a copy elsewhere must not pass as the file that was bound; each member is bound by its operator"},
	{"store_meta", "counters of the one file, and how far it is in the ledger"},
}

// Travels are the tables whose rows are the gate's state on every machine.
var Travels = []Table{
	{"agents", "reservations name them; their boot id says elsewhere that their processes have ended"},
	{"archived_jobs", "which jobs are in segments; a gate with a ledger archives none, and may have done so before"},
	{"archived_runs", "the archived jobs that a list passes, as archived_jobs has them"},
	{"archiving", "how long archiving waits after a time away, and where the segment files are"},
	{"audit", "the log is the gate's, wherever it runs"},
	{"audit_bound", "from which entry on the database has the log"},
	{"audit_head", "the signed head of the log"},
	{"audit_kept", "entries of segments that every member reads"},
	{"audit_key", "the public keys of the gate's lives"},
	{"audit_leaves", "leaf hashes of the newest entries in segments"},
	{"audit_tree", "nodes of the log's tree"},
	{"backups", "which copies were made of a guest"},
	{"canary", "what the gate decided, to compare after a change of policy, trust or version"},
	{"closed_steps", "steps whose last entry is in a segment"},
	{"desired_sets", "wishes"},
	{"idempotency", "a request that is sent again to another member is the same one"},
	{"incarnations", "what a guest is, for a signature on it"},
	{"incidents", "what break-glass approved, and whether it was reviewed"},
	{"jobs", "the journal"},
	{"nonces", "an approval counts once, on every machine"},
	{"outputs", "what steps printed"},
	{"proofs", "signatures as they were checked"},
	{"rejections", "what operators refused"},
	{"requesters", "who asked"},
	{"requests", "what waits"},
	{"reservation_patterns", "claims; rows of a cascade travel as changes of their own"},
	{"reservations", "claims"},
	{"scopes", "where claims are"},
	{"segments", "which segment files there are; the files themselves are where the gate ran without a ledger"},
	{"showings", "what operators were shown"},
	{"signatures", "who signed"},
	{"snapshots", "which snapshots were made of a guest"},
	{"spent", "payloads that were decided"},
	{"sqlite_sequence", "numbers of AUTOINCREMENT; each INSERT of a row moves them on, so they travel by themselves only at the beginning"},
	{"steps", "the journal"},
	{"storage", "where guests' data is"},
	{"time_mark", "a member whose clock is behind must not decide; the boot id tells that the time since boot is another machine's"},
	{"trust", "the list of signers"},
}

// LocalNames are the names of Local, for store.Options.
func LocalNames() []string {
	names := make([]string, len(Local))
	for i, t := range Local {
		names[i] = t.Name
	}
	slices.Sort(names)
	return names
}
