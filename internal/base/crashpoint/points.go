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

	count // not a point
)
