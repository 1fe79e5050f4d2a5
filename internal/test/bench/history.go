package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/people/policy"
)

// history writes in bulk the rows that a gate would have written. A start depends on
// the number of rows, not on their content.
type history struct {
	ctx   context.Context
	store *store.Store
	at    time.Time
	armor string
	need  op.Requirement
	gate  op.GateID // of the state directory, gateID if that has none
	next  int
}

func openHistory(ctx context.Context, dir string) (*history, error) {
	s, err := store.Open(ctx, filepath.Join(dir, "gated.db"), store.Options{Migrations: life.Migrations()})
	if err != nil {
		return nil, err
	}
	s.OnGroup(audit.Seal)
	h, err := newHistory(ctx, s)
	if err == nil {
		err = s.View(ctx, func(tx *store.Tx) error { return tx.QueryRow(`SELECT gate FROM gate_identity`).Scan(&h.gate) })
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, errors.Join(err, s.Close())
	}
	return h, nil
}

// newHistory writes into the store of a gate with the id of the bench.
func newHistory(ctx context.Context, s *store.Store) (*history, error) {
	spec, err := op.Lookup("guest.destroy")
	if err != nil {
		return nil, err
	}
	h := &history{ctx: ctx, store: s, at: now().Add(-time.Hour), armor: fmt.Sprintf("%0290d", 0), gate: gateID,
		need: policy.Default().Requirement(policy.Subject{Spec: spec})}
	return h, s.View(ctx, func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT coalesce(max(id), 0) FROM jobs`).Scan(&h.next)
	})
}

func (h *history) close() error { return h.store.Close() }

// bulk is how many operations share a transaction.
const bulk = 1000

// write calls one n times, or until the time is over. It returns how often.
func (h *history) write(n int, until time.Time, one func(*store.Tx) error) (done int, err error) {
	for ; done < n && now().Before(until); done += bulk {
		err := h.store.Update(h.ctx, func(tx *store.Tx) error {
			for range min(bulk, n-done) {
				if err := one(tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return done, err
		}
	}
	return min(done, n), nil
}

// past writes n signed operations that succeeded, rowsPerStep rows each. It writes
// fewer if the time does not suffice.
func (h *history) past(n int, until time.Time) (int, error) {
	return h.write(n, until, func(tx *store.Tx) error {
		id, err := h.operation(tx, op.StateSucceeded, audit.Requested, audit.Approved, audit.Dispatched, audit.Succeeded)
		if err != nil {
			return err
		}
		_, err = journal.Finish(tx, id.Job, h.at)
		return err
	})
}

// underWay writes n signed operations that a crash left dispatched.
func (h *history) underWay(n int) error {
	_, err := h.write(n, now().Add(patience), func(tx *store.Tx) error {
		_, err := h.operation(tx, op.StateDispatched, audit.Requested, audit.Approved, audit.Dispatched)
		return err
	})
	return err
}

// operation writes a job, its requester, step, request, nonce and signature, and the
// entries of the audit log.
func (h *history) operation(tx *store.Tx, state op.State, logged ...audit.Kind) (op.StepID, error) {
	h.next++
	by := op.Requester{Source: op.SourceOffline, UID: 1000, PID: 1}
	job, err := journal.NewJob(tx, by, "the project ended", h.at)
	if err != nil {
		return op.StepID{}, err
	}
	name := "past-" + guestName(h.next)
	s := op.Step{ID: op.StepID{Job: job, Index: 1}, Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: name},
		Incarnation: op.Incarnation(name), Fingerprint: op.FingerprintOf([]byte(name)), Params: op.Params{}, State: state,
		Verdict:   op.Verdict{Class: op.Destructive, Rule: "destroy-unproven", Why: "the gate did not make it"},
		UpdatedAt: h.at}
	r := op.Request{ID: s.ID, Nonce: op.NewNonce(h.at), Need: h.need, CreatedAt: h.at, IssuedAt: h.at,
		ExpiresAt: h.at.Add(time.Hour), Offline: true}
	r.Payload, err = op.Payload{Gate: h.gate, Host: host, Op: s.Op, Target: s.Target, Incarnation: s.Incarnation,
		State: s.Fingerprint, Params: s.Params, Nonce: r.Nonce, IssuedAt: r.IssuedAt, ExpiresAt: r.ExpiresAt,
		Reason: "the project ended"}.Encode()
	if err != nil {
		return s.ID, err
	}
	used := nonce.Record{Nonce: r.Nonce, Request: s.ID, Payload: op.SHA256(r.Payload), ExpiresAt: r.ExpiresAt,
		Fate: nonce.Used}
	if err = errors.Join(journal.AddStep(tx, s), nonce.Issue(tx, used), journal.PutRequest(tx, r)); err != nil {
		return s.ID, err
	}
	_, err = journal.AddSignature(tx, s.ID, op.Signed{Principal: "alice@example.com", Role: op.Operational,
		Key: "SHA256:key", Armor: h.armor, At: h.at})
	if err != nil {
		return s.ID, err
	}
	entries := make([]audit.Entry, len(logged))
	for i, kind := range logged {
		entries[i] = audit.Entry{Time: h.at, Kind: kind, By: "uid:1000", Job: s.ID.Job.String(), Step: s.ID.String(),
			Op: s.Op, Target: "guest/past", Class: op.Destructive, Rule: s.Verdict.Rule, Gate: h.gate}
	}
	_, err = audit.Append(tx, entries...)
	return s.ID, err
}
