package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"gated/internal/audit"
	"gated/internal/checkpoint"
	"gated/internal/life"
	"gated/internal/op"
	"gated/internal/store"
)

// logEntries is how long the audit log is that is verified; logProofs is how
// many proofs of each sort are made.
const (
	logEntries = 1_000_000
	logProofs  = 1000
)

// auditLog measures what reads the audit log as a tree: a walk through all of
// it, and proofs for who kept a head.
func (b *bench) auditLog() error {
	dir, err := b.dir("audit")
	if err != nil {
		return err
	}
	s, err := longLog(b.ctx, dir)
	if err != nil {
		return err
	}
	defer s.Close()
	var whole []float64
	for range 3 {
		began := now()
		if err := s.View(b.ctx, func(tx *store.Tx) error { _, err := audit.Verify(tx, nil); return err }); err != nil {
			return err
		}
		whole = append(whole, now().Sub(began).Seconds()*1000)
	}
	b.table.add(row{fmt.Sprintf("audit verify, %d entries", logEntries), middle(whole), milliseconds, 10_000, "all of it: hashes, links, tree, signed head"})
	return b.proofs(s)
}

// longLog writes a log of signed operations with signed heads, a thousand
// entries a group.
func longLog(ctx context.Context, dir string) (*store.Store, error) {
	s, err := store.Open(ctx, filepath.Join(dir, "gated.db"), store.Options{Migrations: life.Migrations()})
	if err != nil {
		return nil, err
	}
	key, err := checkpoint.NewKey(gateID)
	if err != nil {
		return nil, err
	}
	s.OnGroup(audit.Sealer{Gate: gateID, Key: key.Signer}.Seal)
	kinds := []audit.Kind{audit.Requested, audit.Approved, audit.Dispatched, audit.Succeeded}
	for n := 0; n < logEntries; n += bulk {
		err := s.Update(ctx, func(tx *store.Tx) error {
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
	return audit.Entry{Time: now(), Kind: kind, By: "uid:1000", PID: 4711, Job: id.Job.String(), Step: id.String(), Op: "guest.destroy",
		Target: "guest/web-1", Incarnation: "0b7f2c9e-5d0e-4b39-8c2f-7a44a1d3e0aa:131:1700000000000000000", Class: op.Destructive,
		Rule: "destroy-unproven", Payload: op.SHA256([]byte(id.String())),
		Signers: []string{"alice@example.com operational SHA256:QaCmFbM0+IPCSVk2UqpHkcE2guAK0mlHfXxAjvc1vYk"}, Gate: gateID}
}

// proofs makes proofs for heads and entries that are chosen at random, each in a
// read of its own as a call of the socket makes it.
func (b *bench) proofs(s *store.Store) error {
	r := rand.New(rand.NewPCG(1, 2))
	measure := func(prove func(tx *store.Tx, at int64) error) (took []float64, err error) {
		for range logProofs {
			at, began := 1+r.Int64N(logEntries), now()
			if err := s.View(b.ctx, func(tx *store.Tx) error { return prove(tx, at) }); err != nil {
				return nil, err
			}
			took = append(took, float64(now().Sub(began))/float64(time.Millisecond))
		}
		return took, nil
	}
	consistency, err := measure(func(tx *store.Tx, at int64) error { _, err := audit.ProveConsistency(tx, at, logEntries); return err })
	if err != nil {
		return err
	}
	inclusion, err := measure(func(tx *store.Tx, at int64) error { _, _, err := audit.ProveInclusion(tx, at, logEntries); return err })
	if err != nil {
		return err
	}
	b.table.add(row{"  a consistency proof", middle(consistency), milliseconds, 5, fmt.Sprintf("p99 %.2f ms, slowest of %d: %.2f ms",
		quantile(consistency, 0.99), logProofs, quantile(consistency, 1))})
	b.table.add(row{"  an inclusion proof", middle(inclusion), milliseconds, 0, fmt.Sprintf("p99 %.2f ms, slowest %.2f ms",
		quantile(inclusion, 0.99), quantile(inclusion, 1))})
	return nil
}
