package api

import (
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Guest has the driver's view of a guest, the gate's record of its origin, and the class of its destruction.
type Guest struct {
	Name        string            `json:"name"`
	State       string            `json:"state"` // running, stopped, absent, or unknown
	Incarnation op.Incarnation    `json:"incarnation"`
	Fingerprint op.Fingerprint    `json:"fingerprint"`
	Spec        op.Params         `json:"spec"`
	Labels      map[string]string `json:"labels"`
	Protected   bool              `json:"protected"`
	Provenance  *Provenance       `json:"provenance"` // null: the gate did not make it
	Destroy     *Verdict          `json:"destroy"`    // null if there is nothing to destroy, or nothing is known
	Facts       []op.Fact         `json:"facts"`
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
	Class op.Class `json:"class"`
	Rule  string   `json:"rule"`
	Why   string   `json:"why"`
}

// VerdictOf puts a verdict on the wire.
func VerdictOf(v op.Verdict) Verdict { return Verdict{Class: v.Class, Rule: v.Rule, Why: v.Why} }

// Trashed is a destroyed incarnation that can be brought back.
type Trashed struct {
	Incarnation op.Incarnation `json:"incarnation"`
	Until       time.Time      `json:"until"`
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

// ProvenanceOf puts provenance on the wire, nil for nil.
func ProvenanceOf(p *op.Provenance) *Provenance {
	if p == nil {
		return nil
	}
	return &Provenance{Creator: p.Creator, Agent: p.Agent, Job: p.Job.String(), Scratch: p.Scratch,
		ScratchUntil: moment(p.ScratchUntil), ScratchEnded: p.ScratchEnded, CreatedAt: p.CreatedAt.UTC()}
}

// GuestOf puts an observed guest on the wire. Provenance and destroy may be nil.
func GuestOf(o op.Observed, p *op.Provenance, destroy *op.Verdict) Guest {
	g := Guest{Name: o.Target.Name, State: o.Running, Incarnation: o.Incarnation, Fingerprint: o.Fingerprint,
		Spec: params(o.Spec), Labels: o.Labels, Protected: o.Protected, Provenance: ProvenanceOf(p), Facts: o.Facts,
		Snapshots: o.Snapshots, Trash: make([]Trashed, 0, len(o.Trash)),
		Disks: make([]Disk, 0, len(o.Disks)), Backups: o.Backups, Backend: o.Backend}
	for _, d := range o.Disks {
		g.Disks = append(g.Disks, Disk{Name: d.Name, Size: d.Size})
	}
	if destroy != nil {
		v := VerdictOf(*destroy)
		g.Destroy = &v
	}
	for _, t := range o.Trash {
		g.Trash = append(g.Trash, Trashed{Incarnation: t.Incarnation, Until: t.Until.UTC()})
	}
	return g
}

// UnknownGuest is a guest that the driver could not observe.
func UnknownGuest(name string, err error) Guest {
	r := refusal.As(err)
	return Guest{Name: name, State: "unknown", Spec: op.Params{}, Error: &Error{Code: r.Code, Detail: r.Detail}}
}

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

// Op describes one operation of the catalogue.
type Op struct {
	Name    string    `json:"name"`
	Kind    string    `json:"kind"` // of its targets
	Doc     string    `json:"doc"`
	Params  []Param   `json:"params"`
	Roles   []op.Role `json:"roles"`   // each of them may approve it if it is destructive
	Creates bool      `json:"creates"` // the target must not exist
	Free    bool      `json:"free"`    // its parameters are strings, named by the target
	Covers  string    `json:"covers"`  // what the signed state digest covers
	Takes   string    `json:"takes"`   // what it can take away, and from whom; empty: nothing
}

// Param describes one parameter of an operation.
type Param struct {
	Name     string  `json:"name"`
	Type     op.Type `json:"type"`
	Unit     string  `json:"unit"`
	Min      int64   `json:"min"` // of integers, both inclusive
	Max      int64   `json:"max"`
	Required bool    `json:"required"`
	JobOnly  bool    `json:"job_only"` // desired state may not have it
	Doc      string  `json:"doc"`
}

// OpOf puts a catalogue entry on the wire.
func OpOf(s op.Spec) Op {
	out := Op{Name: s.Name, Kind: s.Kind, Doc: s.Doc, Roles: s.Roles, Creates: s.Creates, Free: s.Free, Covers: s.Covers, Takes: s.Takes}
	for _, p := range s.Params {
		out.Params = append(out.Params, Param{Name: p.Name, Type: p.Type, Unit: p.Unit, Min: p.Min, Max: p.Max,
			Required: p.Required, JobOnly: p.JobOnly, Doc: p.Doc})
	}
	return out
}
