package api

import "gated/internal/base/op"

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
