package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/life"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/nonce"
	"gated/internal/people/policy"
)

// past is how long ago the gate of longAgo was made.
const past = 40 * 24 * time.Hour

// longAgo plays the past of a gate that init has just made: 40 days, with three jobs on the first of them and so many
// entries that some may be archived. No story can wait for that.
func longAgo(args []string) int {
	if err := playPast(context.Background(), args[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// pastGate is a gate with a clock of its own.
type pastGate struct {
	*gate.Gate
	opened  *life.Opened
	key     checkpoint.Key
	began   time.Time
	elapsed time.Duration
}

func (p *pastGate) read() nonce.Reading {
	return nonce.Reading{Wall: p.began.Add(p.elapsed), Elapsed: p.elapsed}
}

// Observe says that each guest is there.
func (p *pastGate) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	return op.Observed{Target: l.Target, Present: true, Incarnation: "i1", Running: "stopped", Fingerprint: op.FingerprintOf(nil), Spec: op.Params{}}, nil
}

func playPast(ctx context.Context, dir string) (err error) {
	p := &pastGate{began: time.Now().UTC().Add(-past)}
	if p.opened, err = life.Open(ctx, dir, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.opened.Close()) }()
	if err := p.opened.Store.Update(ctx, p.makeOlder); err != nil {
		return err
	}
	if err := p.open(ctx, dir); err != nil {
		return err
	}
	return p.live(ctx)
}

// makeOlder moves what init wrote into the past. No head is signed yet.
func (p *pastGate) makeOlder(tx *store.Tx) error {
	entries, err := audit.After(tx, 0, 100)
	if err != nil {
		return err
	}
	for i := range entries {
		entries[i].Time = entries[i].Time.Add(-past)
	}
	for _, statement := range []string{`DELETE FROM audit`, `DELETE FROM audit_head`, `DELETE FROM audit_tree`, `DELETE FROM time_mark`} {
		if _, err := tx.Exec(statement); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(`UPDATE trust SET at = at - ?`, int64(past)); err != nil {
		return err
	}
	_, err = audit.Append(tx, entries...)
	return err
}

// open makes the gate, and its key as the first start does.
func (p *pastGate) open(ctx context.Context, dir string) (err error) {
	if p.key, err = checkpoint.NewKey(p.opened.ID.Gate); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "gate.key"), []byte(p.key.Text()), 0o600); err != nil {
		return err
	}
	lines, err := os.ReadFile(filepath.Join(dir, "allowed_signers"))
	if err != nil {
		return err
	}
	trust, err := authz.LoadTrust(lines)
	if err != nil {
		return err
	}
	c := gate.Config{Store: p.opened.Store, Observer: p, Host: "pve1", ID: p.opened.ID.Gate, Trust: trust, Epoch: 1, Policy: policy.Default(),
		Key: p.key.Signer, Logger: slog.New(slog.DiscardHandler)}
	err = p.opened.Store.View(ctx, func(tx *store.Tx) (err error) {
		c.Clock, err = nonce.LoadClock(tx, p.read)
		return err
	})
	if err != nil {
		return err
	}
	if p.Gate, err = gate.New(c); err != nil {
		return err
	}
	return p.opened.Store.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(audit.SetPublicKey(tx, p.opened.ID.Gate, p.key.Public),
			p.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Detail: p.key.Public, Parts: audit.Parts{HeadKey: p.key.Public}}))
	})
}

// live has three jobs that are cancelled, fills the log, and lets the time pass until a minute ago.
func (p *pastGate) live(ctx context.Context) error {
	by := op.Requester{Source: op.SourceAPI, UID: 1000, PID: 7}
	for i := range 3 {
		ask := op.Ask{Op: "guest.destroy", Target: op.Target{Kind: op.KindGuest, Name: fmt.Sprintf("old-%d", i+1)}, Params: op.Params{}}
		j, err := p.Submit(ctx, op.Submission{Requester: by, Steps: []op.Ask{ask}, Reason: "the project ended"})
		if err == nil {
			_, err = p.Cancel(ctx, by, j.ID)
		}
		if err != nil {
			return err
		}
	}
	more := make([]audit.Entry, 10_300)
	for i := range more {
		more[i] = audit.Entry{Kind: audit.Stopped, By: "gate"}
	}
	if err := p.opened.Store.Update(ctx, func(tx *store.Tx) error { return p.Append(tx, more...) }); err != nil {
		return err
	}
	for p.elapsed < past-time.Hour {
		p.elapsed += time.Hour
		if err := p.Tick(ctx); err != nil {
			return err
		}
	}
	p.elapsed = past - time.Minute
	return p.Tick(ctx)
}
