package driver

import "context"

// Backend is a driver that a gate can have several of. The configuration gives it a name, and
// it can report its own health.
type Backend interface {
	Driver
	// Name is the name of the back end: "local", "libvirt", "proxmox", "command".
	Name() string
	// Check reports if the driver can reach the back end, which rights the driver lacks, and
	// which version the back end has. Check changes nothing. It has no error: a failure is a
	// finding.
	Check(ctx context.Context) []Finding
}

// State says how serious a finding is.
type State string

// The states of a finding.
const (
	OK   State = "ok"
	Note State = "note" // works, but the operator should know
	Bad  State = "bad"  // does not work
)

// Finding is one result of a check.
type Finding struct {
	What   string // "reachable", "version", "permission VM.Audit"
	State  State
	Detail string // a sentence for people
	Hint   string // what the operator can do; empty if there is nothing to do
}
