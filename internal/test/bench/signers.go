package bench

import (
	"fmt"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/gate"
	"gated/internal/people/policy"
)

// kind is a way to approve an operation.
type kind struct {
	name   string
	by     []key
	apart  bool    // each signature in a call of its own
	budget float64 // of the CPU of a decision, against a plain key; 0 for none
}

// kinds begin with the plain key, because the others are compared with it.
func (b *bench) kinds() []kind {
	k := b.keys
	return []kind{
		{"a plain key", []key{k.plain}, false, 0},
		{"a certificate", []key{k.certified}, false, 1.25},
		{"a security key", []key{k.touched}, false, 0},
		{"a threshold of two, in one envelope", []key{k.plain, k.second}, false, 0},
		{"a threshold of two, in two calls", []key{k.plain, k.second}, true, 0},
	}
}

// trial sends n destroys, each with this kind of approval, to a gate that asks for
// as many people as the kind has.
func (b *bench) trial(k kind, name string, n int) (trial, error) {
	ops, err := b.destroyRequests(n, k.apart, k.by...)
	t := trial{name: name, ops: ops, want: authorized, end: op.StateAuthorized}
	if len(k.by) > 1 {
		t.threshold = len(k.by)
	}
	return t, err
}

// signers measures what each kind of approval costs. The kinds take turns, because
// then other work on the machine slows all of them.
func (b *bench) signers() error {
	if err := b.approvals(); err != nil {
		return err
	}
	kinds := b.kinds()
	measured, rates, costs := make([]results, len(kinds)), make([][]float64, len(kinds)), make([][]float64, len(kinds))
	for turn := range b.size.signerTurns {
		for i, k := range kinds {
			t, err := b.trial(k, fmt.Sprintf("signers-%d-%d", i+1, turn+1), b.size.signerOps)
			if err != nil {
				return err
			}
			r, err := b.loadOnce(t)
			if err != nil {
				return err
			}
			measured[i] = append(measured[i], r)
			plain := measured[0][turn]
			rates[i], costs[i] = append(rates[i], r.rate/plain.rate), append(costs[i], r.ratio/plain.ratio)
		}
	}
	b.ratioRow("signed, decided: "+kinds[0].name, measured[0].middle(), 0)
	for i, k := range kinds[1:] {
		r := measured[i+1].middle()
		b.addf("  CPU of "+k.name+", against a plain key", middle(costs[i+1]), plain, k.budget,
			"%.2f × the plain key's rate; %.0f/s; %s", middle(rates[i+1]), r.rate, r.cost())
	}
	return nil
}

// approvals measures the verification alone: from the bytes of an envelope to the
// approval that they make.
func (b *bench) approvals() error {
	trust, err := authz.LoadTrust(b.keys.lines())
	if err != nil {
		return err
	}
	v := authz.Verifier{Gate: gateID, Host: host, Trust: trust, Skew: gate.Skew, MaxValidity: policy.MaxValidity}
	kinds := b.kinds()[:4] // not the two calls, because each of them has one plain key
	took := make([][]float64, len(kinds))
	for range b.size.approvalTurns {
		for i, k := range kinds {
			all, err := b.destroys(1, k.by...)
			if err != nil {
				return err
			}
			cost, err := b.verifyCost(v, authz.Envelope{Payload: all[0].payload, Signatures: all[0].armors})
			if err != nil {
				return err
			}
			took[i] = append(took[i], cost)
		}
	}
	plain := middle(took[0])
	for i, k := range kinds {
		each := middle(took[i])
		b.addf("verification of one approval: "+k.name, each, microseconds, 0, "%.2f × the plain key's CPU", each/plain)
	}
	return nil
}

// verifyCost is the CPU time of one verification, in microseconds.
func (b *bench) verifyCost(v authz.Verifier, e authz.Envelope) (float64, error) {
	before, err := used()
	if err != nil {
		return 0, err
	}
	at := now()
	for range b.size.approvalEach {
		if _, err := v.Approval(e, at); err != nil {
			return 0, err
		}
	}
	after, err := used()
	return inMicros(after-before) / float64(b.size.approvalEach), err
}
