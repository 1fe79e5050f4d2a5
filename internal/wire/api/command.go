package api

import "gated/internal/base/op"

// Command is an entry of the operator's catalogue of commands, as callers may see it.
type Command struct {
	Name           string         `json:"name"`
	Program        string         `json:"program"` // its path
	Params         []CommandParam `json:"params"`  // by name; all must be given
	Class          op.Class       `json:"class"`   // benign if the catalogue says so
	User           string         `json:"user"`    // the user that it runs as; empty for the daemon's own
	TimeoutSeconds int64          `json:"timeout_seconds"`
	Probe          string         `json:"probe"`       // the path of the program that runs first, to look; empty for none
	State          string         `json:"state"`       // ok or unknown
	Incarnation    op.Incarnation `json:"incarnation"` // of the program's content, its words and environment
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
