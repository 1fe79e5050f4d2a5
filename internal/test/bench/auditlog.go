package bench

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
)

// auditLog measures the readers of the audit log as a tree: a walk through all of
// it, and proofs for a client that kept a head.
func (b *bench) auditLog() error {
	dir, err := b.dir("audit")
	if err != nil {
		return err
	}
	s, err := b.longLog(dir)
	if err != nil {
		return err
	}
	defer s.Close()
	began := now() // one run is long enough
	if err := s.View(b.ctx, func(tx *store.Tx) error { _, err := audit.Verify(tx, nil); return err }); err != nil {
		return err
	}
	b.addf(fmt.Sprintf("audit verify, %d entries", b.size.logEntries), inMillis(now().Sub(began)), milliseconds, 10_000,
		"all of it: hashes, links, tree, signed head")
	return b.proofs(s)
}

// longLog writes a log of signed operations with signed heads, a thousand
// entries a group.
func (b *bench) longLog(dir string) (*store.Store, error) {
	s, err := store.Open(b.ctx, filepath.Join(dir, "gated.db"), store.Options{Migrations: life.Migrations()})
	if err != nil {
		return nil, err
	}
	key, err := checkpoint.NewKey(gateID)
	if err != nil {
		return nil, err
	}
	s.OnGroup(audit.Sealer{Gate: gateID, Key: key.Signer}.Seal)
	kinds := []audit.Kind{audit.Requested, audit.Approved, audit.Dispatched, audit.Succeeded}
	for n := 0; n < b.size.logEntries; n += bulk {
		err := s.Update(b.ctx, func(tx *store.Tx) error {
			if n == 0 {
				if err := audit.SetPublicKey(tx, gateID, key.Public); err != nil {
					return err
				}
			}
			entries := make([]audit.Entry, bulk)
			for i := range entries {
				entries[i] = signedEntry(kinds[(n+i)%len(kinds)], op.StepID{Job: op.JobID((n+i)/len(kinds) + 1), Index: 1})
			}
			_, err := audit.Append(tx, entries...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// signedEntry is as long as those of a signed operation are.
func signedEntry(kind audit.Kind, id op.StepID) audit.Entry {
	return audit.Entry{Time: now(), Kind: kind, By: "uid:1000", PID: 4711, Job: id.Job.String(), Step: id.String(),
		Op: "guest.destroy", Target: "guest/web-1", Class: op.Destructive, Rule: "destroy-unproven",
		Incarnation: "0b7f2c9e-5d0e-4b39-8c2f-7a44a1d3e0aa:131:1700000000000000000",
		Payload:     op.SHA256([]byte(id.String())),
		Signers:     []string{"alice@example.com operational SHA256:QaCmFbM0+IPCSVk2UqpHkcE2guAK0mlHfXxAjvc1vYk"},
		Gate:        gateID}
}

// proofs makes proofs for heads and entries that are chosen at random, each in a
// read of its own because a call of the socket does the same.
func (b *bench) proofs(s *store.Store) error {
	r, all := rand.New(rand.NewPCG(1, 2)), int64(b.size.logEntries)
	for _, p := range []struct {
		what   string
		budget float64
		prove  func(tx *store.Tx, at int64) error
	}{
		{"  a consistency proof", 5, func(tx *store.Tx, at int64) error {
			_, err := audit.Proofs{}.Consistency(tx, at, all)
			return err
		}},
		{"  an inclusion proof", 0, func(tx *store.Tx, at int64) error {
			_, _, err := audit.Proofs{}.Inclusion(tx, at, all)
			return err
		}},
	} {
		_, took, err := share(1, b.size.logProofs, func(_, _ int) error {
			at := 1 + r.Int64N(all)
			return s.View(b.ctx, func(tx *store.Tx) error { return p.prove(tx, at) })
		})
		if err != nil {
			return err
		}
		b.addf(p.what, middle(took), milliseconds, p.budget,
			"p99 %.2f ms, slowest of %d: %.2f ms", quantile(took, 0.99), len(took), quantile(took, 1))
	}
	return nil
}
