package state

// The names of the files in a state directory.
const (
	SettingsName = "gated.yaml"      // the configuration
	SignersName  = "allowed_signers" // the list of signers, as the gate shows it
	RevokedName  = "revoked"         // keys that no longer count, unless the configuration names another file
	DatabaseName = "gated.db"
	GuestsName   = "guests"   // of the local driver, unless the configuration names another directory
	KeyName      = "gate.key" // signs the heads of the audit log; it is in no backup
	ReserveName  = "reserve"  // disk space that is freed for signed work
	lockName     = "lock"
)

const (
	// BackupPrefix begins the name of a directory in which a backup is made.
	BackupPrefix = ".backup-"
	// Restoring ends the name of the database that a restore makes ready.
	Restoring = ".restoring"
	// BeforeRestore ends the name of each file of the old state that a restore keeps.
	BeforeRestore = ".before-restore"
)
