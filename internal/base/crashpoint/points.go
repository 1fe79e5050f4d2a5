// Package crashpoint names the moments at which a crash could lose something or
// do it twice. A program built with the tag crashpoints ends itself with SIGKILL
// at the moment that its environment names; in any other build Here does
// nothing, and neither the names nor the variable is in the program.
package crashpoint

// Point is one such moment. Its name and what it stands for are in Table.
type Point int

// The points, in the order in which a step goes through them. "Written" is
// inside a transaction, "kept" after its commit and before anybody was told.
const (
	RequestWritten Point = iota
	RequestKept
	SignatureWritten
	SignatureKept
	OfflineWritten
	OfflineKept
	RejectionWritten
	RejectionKept
	CancelWritten
	CancelKept
	SetWritten
	SetKept
	DispatchWritten
	DispatchKept
	Executed
	OutcomeWritten
	OutcomeKept

	StoreWritten
	StoreCommitted

	LedgerCaptured
	LedgerSent
	LedgerAcknowledged

	CreateStaged
	CreatePlaced
	FileStaged
	FilePlaced
	ConfigWritten
	StartGiven
	StartOwned
	StartForked
	StartRecorded
	StartReleased
	StopSignalled
	DestroyStopped
	TrashRecorded
	TrashMoved
	UndeleteMoved
	UndeleteUnrecorded
	DataStaged
	DataStopped
	DataExchanged
	SnapshotCopied
	SnapshotPlaced
	SweepMoved
	SweepUnrecorded
	SweepEmptied

	RegisterWritten
	RegisterKept
	EndWritten
	EndKept
	BookWritten
	BookKept

	RotateWritten
	RotateKept
	RotateInForce
	ReviewWritten
	ReviewKept
	StateFileStaged
	StateFilePlaced

	MigrateCopied
	MigrateNamed
	MigratePruned
	MigrateWritten
	MigrateCommitted

	BackupCopied
	BackupStreamed

	RestoreCopied
	RestorePrepared
	RestoreAside
	RestoreEmpty
	RestorePlaced
	RestoreOpened
	RestoreSignersKept
	RestoreSignersPlaced
	RestoreBound

	ArchiveNamed
	ArchiveMarked
	ArchiveStaged
	ArchivePlaced
	ArchiveVerified
	ArchiveWritten
	ArchiveKept
	ArchiveDeleted
	ArchiveGone

	count // not a point
)

// Row says what one point is called and where it stands.
type Row struct {
	Name string // as the variable names it
	Doc  string // what has happened by then, and what has not
}

// Table returns the row of every point, by its number.
func Table() []Row { return table[:] }

// table is used by tests and by programs with the tag alone, so that the linker
// leaves it out of every other.
var table = [count]Row{
	RequestWritten:   {"request.written", "a job and its request are written, and not committed"},
	RequestKept:      {"request.kept", "they are on disk, and nobody was told"},
	SignatureWritten: {"signature.written", "a signature is counted and the nonce perhaps spent, and not committed"},
	SignatureKept:    {"signature.kept", "that is on disk, and the operator was not told"},
	OfflineWritten:   {"offline.written", "a payload that was signed before the gate saw it is a step, and not committed"},
	OfflineKept:      {"offline.kept", "that is on disk, and the operator was not told"},
	RejectionWritten: {"rejection.written", "a rejection is written, and not committed"},
	RejectionKept:    {"rejection.kept", "it is on disk, and the operator was not told"},
	CancelWritten:    {"cancel.written", "a requester's withdrawal is written, and not committed"},
	CancelKept:       {"cancel.kept", "it is on disk, and the requester was not told"},
	SetWritten:       {"set.written", "a desired set is stored or deleted, and that is not committed"},
	SetKept:          {"set.kept", "that is on disk, and nobody was told"},
	DispatchWritten:  {"dispatch.written", "a step is dispatched, and that is not committed"},
	DispatchKept:     {"dispatch.kept", "that is on disk, and the driver has done nothing yet"},
	Executed:         {"execute.done", "a local step is done, and its outcome is recorded nowhere"},
	OutcomeWritten:   {"outcome.written", "an outcome is written, and not committed"},
	OutcomeKept:      {"outcome.kept", "it is on disk, and nobody was told"},

	StoreWritten:   {"store.written", "a whole group is written, with the head of the audit log, before COMMIT"},
	StoreCommitted: {"store.committed", "after COMMIT, before any caller is told"},

	LedgerCaptured:     {"ledger.captured", "a group's row changes are captured, and neither sent nor committed"},
	LedgerSent:         {"ledger.sent", "the group is about to be sent to the ledger"},
	LedgerAcknowledged: {"ledger.acknowledged", "the ledger has kept it, and it is not committed here"},

	CreateStaged:       {"create.staged", "a new guest is built aside"},
	CreatePlaced:       {"create.placed", "it is under its name; the directory is not synced"},
	FileStaged:         {"file.staged", "guest.json, run.json or a record of the trash is written aside"},
	FilePlaced:         {"file.placed", "it is in place; the directory is not synced"},
	ConfigWritten:      {"set-config.written", "a guest's configuration is changed"},
	StartGiven:         {"start.given", "a guest has a uid of its own on record, and owns nothing yet"},
	StartOwned:         {"start.owned", "its data belongs to that uid"},
	StartForked:        {"start.forked", "a guest's process is there, waits for its orders and is recorded nowhere"},
	StartRecorded:      {"start.recorded", "it is recorded, and waits for its orders"},
	StartReleased:      {"start.released", "it runs the command"},
	StopSignalled:      {"stop.signalled", "a guest's processes were told to end"},
	DestroyStopped:     {"destroy.stopped", "a guest that is to be destroyed has stopped"},
	TrashRecorded:      {"trash.recorded", "the trash has the record of what is about to move there"},
	TrashMoved:         {"trash.moved", "it is in the trash; neither directory is synced"},
	UndeleteMoved:      {"undelete.moved", "a guest is back, and its record still in the trash"},
	UndeleteUnrecorded: {"undelete.unrecorded", "the record is gone, too"},
	DataStaged:         {"data.staged", "the new tree of a wipe or restore is built aside"},
	DataStopped:        {"data.stopped", "and the guest is stopped"},
	DataExchanged:      {"data.exchanged", "the new tree is in place, and the old one is aside"},
	SnapshotCopied:     {"snapshot.copied", "a snapshot is copied aside"},
	SnapshotPlaced:     {"snapshot.placed", "it is in place; the directories are not synced"},
	SweepMoved:         {"sweep.moved", "what is too old is out of undelete's reach; its record is there"},
	SweepUnrecorded:    {"sweep.unrecorded", "its record is gone, and its files are there"},
	SweepEmptied:       {"sweep.emptied", "its files are deleted"},

	RegisterWritten: {"register.written", "an agent's registration is written, and not committed"},
	RegisterKept:    {"register.kept", "it is on disk, and the agent was not told"},
	EndWritten:      {"end.written", "a registration is taken away with what it holds, and that is not committed"},
	EndKept:         {"end.kept", "that is on disk, and the daemon still knows the name"},
	BookWritten:     {"book.written", "a change of reservations is written, and not committed"},
	BookKept:        {"book.kept", "it is on disk, and neither its caller nor who waits was told"},

	RotateWritten:   {"rotate.written", "a new list of signers is written, and not committed"},
	RotateKept:      {"rotate.kept", "it is in the database, and this process decides by the old one"},
	RotateInForce:   {"rotate.in-force", "it is in force, and the file says the old one"},
	ReviewWritten:   {"review.written", "incidents of break-glass are closed, and that is not committed"},
	ReviewKept:      {"review.kept", "that is on disk, and the step of the review has no end"},
	StateFileStaged: {"state-file.staged", "the file of signers, or the gate's own key, is written aside"},
	StateFilePlaced: {"state-file.placed", "it is in place; the directory is not synced"},

	MigrateCopied:    {"migrate.copied", "the database is copied under a temporary name before a migration"},
	MigrateNamed:     {"migrate.named", "the copy has its name"},
	MigratePruned:    {"migrate.pruned", "old copies are gone, and the migration has not begun"},
	MigrateWritten:   {"migrate.written", "a migration has run, and is not committed"},
	MigrateCommitted: {"migrate.committed", "it is committed; the next one has not begun"},

	BackupCopied:   {"backup.copied", "a copy of the database is made in the state directory"},
	BackupStreamed: {"backup.streamed", "it was sent, and is still there"},

	RestoreCopied:        {"restore.copied", "a backup is copied beside the database"},
	RestorePrepared:      {"restore.prepared", "the copy is checked and has what becomes of a restored gate"},
	RestoreAside:         {"restore.aside", "the old database is out of the way; the second time its log is, too, and the third time its index"},
	RestoreEmpty:         {"restore.empty", "nothing is in the database's place"},
	RestorePlaced:        {"restore.placed", "the backup is in its place; the directory is not synced"},
	RestoreOpened:        {"restore.opened", "it is open, and bound to no file"},
	RestoreSignersKept:   {"restore.signers-kept", "the file of signers is put aside"},
	RestoreSignersPlaced: {"restore.signers-placed", "it says what the backup says"},
	RestoreBound:         {"restore.bound", "the new gate id is bound to the file: the restore is done"},

	ArchiveNamed:    {"archive.named", "the database has the id of the directory with segment files, and the directory has not"},
	ArchiveMarked:   {"archive.marked", "the directory has it too, and no segment is written"},
	ArchiveStaged:   {"archive.staged", "a segment file is written and synced under a temporary name"},
	ArchivePlaced:   {"archive.placed", "it has its name, and was not read back"},
	ArchiveVerified: {"archive.verified", "it was read back and checked whole, and the database does not know it"},
	ArchiveWritten:  {"archive.written", "the segment and its entry are written into the database, and not committed"},
	ArchiveKept:     {"archive.kept", "that is on disk, and no row is deleted"},
	ArchiveDeleted:  {"archive.deleted", "some jobs or a tile of entries are deleted, and that is not committed"},
	ArchiveGone:     {"archive.gone", "that is on disk, and others may follow"},
}
