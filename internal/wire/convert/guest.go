package convert

import (
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// VerdictOf puts a verdict on the wire.
func VerdictOf(v op.Verdict) api.Verdict {
	return api.Verdict{Class: v.Class, Rule: v.Rule, Why: v.Why}
}

// ProvenanceOf puts provenance on the wire, nil for nil.
func ProvenanceOf(p *op.Provenance) *api.Provenance {
	if p == nil {
		return nil
	}
	return &api.Provenance{Creator: p.Creator, Agent: p.Agent, Job: p.Job.String(), Scratch: p.Scratch,
		ScratchUntil: moment(p.ScratchUntil), ScratchEnded: p.ScratchEnded, CreatedAt: p.CreatedAt.UTC()}
}

// GuestOf puts an observed guest on the wire. Provenance and destroy may be nil.
func GuestOf(o op.Observed, p *op.Provenance, destroy *op.Verdict) api.Guest {
	g := api.Guest{Name: o.Target.Name, State: o.Running, Incarnation: o.Incarnation, Fingerprint: o.Fingerprint,
		Spec: params(o.Spec), Labels: o.Labels, Protected: o.Protected, Provenance: ProvenanceOf(p), Facts: o.Facts,
		Snapshots: o.Snapshots, Trash: make([]api.Trashed, 0, len(o.Trash)),
		Disks: make([]api.Disk, 0, len(o.Disks)), Backups: o.Backups, Backend: o.Backend}
	for _, d := range o.Disks {
		g.Disks = append(g.Disks, api.Disk{Name: d.Name, Size: d.Size})
	}
	if destroy != nil {
		v := VerdictOf(*destroy)
		g.Destroy = &v
	}
	for _, t := range o.Trash {
		g.Trash = append(g.Trash, api.Trashed{Incarnation: t.Incarnation, Until: t.Until.UTC()})
	}
	return g
}

// UnknownGuest is a guest that the driver could not observe.
func UnknownGuest(name string, err error) api.Guest {
	r := refusal.As(err)
	return api.Guest{Name: name, State: "unknown", Spec: op.Params{}, Error: &api.Error{Code: r.Code, Detail: r.Detail}}
}

// OpOf puts a catalogue entry on the wire.
func OpOf(s op.Spec) api.Op {
	out := api.Op{Name: s.Name, Kind: s.Kind, Doc: s.Doc, Roles: s.Roles, Creates: s.Creates, Free: s.Free, Covers: s.Covers, Takes: s.Takes}
	for _, p := range s.Params {
		out.Params = append(out.Params, api.Param{Name: p.Name, Type: p.Type, Unit: p.Unit, Min: p.Min, Max: p.Max,
			Required: p.Required, JobOnly: p.JobOnly, Doc: p.Doc})
	}
	return out
}
