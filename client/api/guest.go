package api

import (
	"time"
)

// Guest has the driver's view of a guest, the gate's record of its origin, and the class of its destruction.
type Guest struct {
	Name        string            `json:"name"`
	State       string            `json:"state"` // running, stopped, absent, or unknown
	Incarnation Incarnation       `json:"incarnation"`
	Fingerprint Fingerprint       `json:"fingerprint"`
	Spec        Params            `json:"spec"`
	Labels      map[string]string `json:"labels"`
	Protected   bool              `json:"protected"`
	Provenance  *Provenance       `json:"provenance"` // null: the gate did not make it
	Destroy     *Verdict          `json:"destroy"`    // null if there is nothing to destroy, or nothing is known
	Facts       []Fact            `json:"facts"`
	Snapshots   []string          `json:"snapshots"`
	Disks       []Disk            `json:"disks"`
	Backups     []string          `json:"backups"`
	Backend     string            `json:"backend"` // which of the gate's back ends has it
	Trash       []Trashed         `json:"trash"`
	Error       *Error            `json:"error"` // why nothing is known
}

// Disk is one disk of a guest, by the name that steps use.
type Disk struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // in bytes
}

// Verdict is a classification with its reason, for this caller.
type Verdict struct {
	Class Class  `json:"class"`
	Rule  string `json:"rule"`
	Why   string `json:"why"`
}

// Trashed is a destroyed incarnation that can be brought back.
type Trashed struct {
	Incarnation Incarnation `json:"incarnation"`
	Until       time.Time   `json:"until"`
}

// Provenance is this gate's own record of an incarnation's origin.
type Provenance struct {
	Creator      string     `json:"creator"`
	Agent        string     `json:"agent"`
	Job          string     `json:"job"`
	Scratch      bool       `json:"scratch"`
	ScratchUntil *time.Time `json:"scratch_until"`
	ScratchEnded string     `json:"scratch_ended"`
	CreatedAt    time.Time  `json:"created_at"`
}

// Command is an entry of the operator's catalogue of commands, as callers may see it.
type Command struct {
	Name           string         `json:"name"`
	Program        string         `json:"program"` // its path
	Params         []CommandParam `json:"params"`  // by name; all must be given
	Class          Class          `json:"class"`   // benign if the catalogue says so
	User           string         `json:"user"`    // the user that it runs as; empty for the daemon's own
	TimeoutSeconds int64          `json:"timeout_seconds"`
	Probe          string         `json:"probe"`       // the path of the program that runs first, to look; empty for none
	State          string         `json:"state"`       // ok or unknown
	Incarnation    Incarnation    `json:"incarnation"` // of the program's content, its words and environment
	Error          *Error         `json:"error"`       // why it cannot be run now
}

// The states of a Command.
const (
	CommandOK      = "ok"
	CommandUnknown = "unknown"
)

// CommandParam is one parameter of a command. Its value is a string on the wire, for every type.
type CommandParam struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`    // string, integer, enum, path or bool
	Doc     string   `json:"doc"`     // its possible values, in words
	Pattern string   `json:"pattern"` // of a string: RE2 that matches all of it
	Min     int64    `json:"min"`     // of an integer, both inclusive
	Max     int64    `json:"max"`     // and of a string in bytes
	Values  []string `json:"values"`  // of an enum
	Below   string   `json:"below"`   // of a path
}

// Op describes one operation of the catalogue.
type Op struct {
	Name    string  `json:"name"`
	Kind    string  `json:"kind"` // of its targets
	Doc     string  `json:"doc"`
	Params  []Param `json:"params"`
	Roles   []Role  `json:"roles"`   // each of them may approve it if it is destructive
	Creates bool    `json:"creates"` // the target must not exist
	Free    bool    `json:"free"`    // its parameters are strings, named by the target
	Covers  string  `json:"covers"`  // what the signed state digest covers
	Takes   string  `json:"takes"`   // what it can take away, and from whom; empty: nothing
}

// Param describes one parameter of an operation.
type Param struct {
	Name     string    `json:"name"`
	Type     ParamType `json:"type"`
	Unit     string    `json:"unit"`
	Min      int64     `json:"min"` // of integers, both inclusive
	Max      int64     `json:"max"`
	Required bool      `json:"required"`
	JobOnly  bool      `json:"job_only"` // desired state may not have it
	Doc      string    `json:"doc"`
}
