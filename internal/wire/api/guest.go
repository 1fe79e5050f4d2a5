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
