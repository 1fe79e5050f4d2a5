package driver

import "context"

// Backend is a driver that is one of several in a gate: it has a name, which the
// configuration gives it, and can say how it is.
type Backend interface {
	Driver
	// Name is the name of the back end: "local", "libvirt", "proxmox", "command".
	Name() string
	// Check looks whether the back end can be reached, whether it lets us do what
	// has to be done, and which version it has. It changes nothing, and always has
	// an answer.
	Check(ctx context.Context) []Finding
}

// State says how grave a finding is.
type State string

// The states of a finding.
const (
	OK   State = "ok"
	Note State = "note" // works, and somebody should know
	Bad  State = "bad"  // does not work
)

// Finding is one thing that a check found.
type Finding struct {
	What   string // "reachable", "version", "permission VM.Audit"
	State  State
	Detail string // a sentence for people
	Hint   string // what to do; empty where there is nothing to do
}
