// Package hubstate is what a hub keeps of gates: their last reports, what waits at them, and their signed heads. The
// judgement of what arrives is here, for each place in which a hub can keep it; one place is this package's memory.
package hubstate

import (
	"context"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/host/hub"
	"gated/internal/log/witness"
)

// Document is what a hub serves to one host.
type Document struct {
	Body     []byte // nil if the caller has the document of this tag
	Tag      string // hex, of the body
	Revision string // empty for operations
}

// Documents are what a hub serves.
type Documents interface {
	// Document returns hub.PathDesired or hub.PathOperations of a host. It is without a body if tag is its tag. A host
	// that is not there is UnknownTarget.
	Document(ctx context.Context, host, what, tag string) (Document, error)
	// Has refuses, as UnknownTarget, a host that is not there.
	Has(ctx context.Context, host string) error
	// Hosts returns at most limit hosts after one, sorted.
	Hosts(ctx context.Context, after string, limit int) ([]string, error)
}

// Arrived is a report as it came in.
type Arrived struct {
	Host   string
	Report hub.Report
	Body   []byte
	At     time.Time // by the hub's clock
}

// Told is the last report of a host.
type Told struct {
	Report hub.Report
	Body   []byte
	At     time.Time // its arrival by the hub's clock
	Since  time.Time // since when the host has been as wished, or not as wished
}

// Outcome is what a report changed.
type Outcome struct {
	News    bool                  // it differs from the one before
	Changed []hub.OperationReport // operations that differ
	Was     op.GateID             // of the report before, if another gate sent that; else empty
	Twin    string                // if the host's gate is new: another host whose last report is of that gate; empty for none
}

// Reports are the last reports of all hosts, and what waits at them.
type Reports interface {
	// Put keeps a report, unless a later one of the same daemon is kept. It has committed what it acknowledges. See Judge
	// for its refusals; UnknownTarget is a host without documents.
	Put(ctx context.Context, a Arrived) (Outcome, error)
	// Report returns the last report of a host, nil before the first.
	Report(ctx context.Context, host string) (*Told, error)
	// Queue returns a page of what waits.
	Queue(ctx context.Context, q Query) (api.FleetQueue, error)
}

// Heads are the newest signed heads of gates, and what contradicted them.
type Heads interface {
	// Head returns the kept head of a gate, nil before the first.
	Head(ctx context.Context, gate op.GateID) (*witness.Record, error)
	// Replace keeps a head if was is still the kept one, or if none is kept and was is nil. It reports whether it did. A new
	// gate of a host with MaxGates of them is OverLimit.
	Replace(ctx context.Context, was *witness.Record, is witness.Record) (bool, error)
	// Contradicted keeps a head as evidence, unless it is kept already. It is OverLimit if the host sent MaxEvidence of the
	// gate, or MaxHostEvidence of all gates.
	Contradicted(ctx context.Context, evidence witness.Record) error
	// Evidence returns what contradicted the heads of a gate, the oldest first.
	Evidence(ctx context.Context, gate op.GateID) ([]witness.Record, error)
	// Contradictions returns the newest evidence that each host sent, of at most limit hosts, the newest first. So no host
	// pushes out what another one sent.
	Contradictions(ctx context.Context, limit int) ([]witness.Record, error)
}

// Store is all that a hub keeps.
type Store interface {
	Reports
	Heads
}

// What is kept of one host. A host is bounded and not a gate, because a program with the token of one host can make up any
// number of gates.
const (
	MaxGates        = 64  // gates whose newest head came from the host
	MaxEvidence     = 16  // contradicting heads of one gate
	MaxHostEvidence = 256 // and of all gates
)
