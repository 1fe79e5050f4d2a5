package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/log/journal"
)

// recordFirst records the list of signers that the file says, because the
// database is from before lists had versions.
func (d *daemon) recordFirst(ctx context.Context) error {
	d.list.Version.At = d.gate.Moment().Now
	d.log.Info("the list of signers is taken over as it is", "file", d.signers.Path(), "epoch", d.list.Version.Epoch)
	return d.opened.Store.Update(ctx, func(tx *store.Tx) error {
		return d.list.Record(tx, signers.StateOwner, d.gate.ID(), signers.Compare(nil, d.list.Trust))
	})
}

// showSigners makes the file of signers say what is in force. It decides nothing
// from the file; an edit is kept aside, and the audit log says so.
func (d *daemon) showSigners(ctx context.Context) error {
	wrote, err := d.signers.Show(ctx, d.opened.Store, signers.Showing{
		InForce: func(v journal.TrustVersion) error {
			return signers.Agrees(d.opened.Store, v, d.gate.Epoch(), d.gate.Trust().Digest())
		},
		Edited: func(v journal.TrustVersion) error {
			kept, _ := d.signers.Edited()
			d.log.Warn("the file of signers was edited by hand; the edit decides nothing", "file", d.signers.Path(), "kept", kept)
			return d.gate.Log(ctx, signers.EditedEntry(v))
		},
	})
	if wrote && err == nil {
		d.log.Info("the list of signers was written", "file", d.signers.Path())
	}
	return err
}

// checkSigners is showSigners while the daemon runs: status says what keeps the
// file from saying what is in force.
func (d *daemon) checkSigners(ctx context.Context) {
	err := d.showSigners(ctx)
	if err != nil && ctx.Err() != nil {
		return // it stops
	}
	if err == nil {
		d.signersErr.Store(nil)
		return
	}
	r := refusal.As(err)
	if before := d.signersErr.Swap(r); before == nil || before.Detail != r.Detail {
		d.log.Error("the list of signers is not as the gate has it; what is in force stays", "error", err)
	}
}

// openRevocations finds the revocation file. If the log says that keys were
// revoked, a file that is not there is no pardon: it is lost, or being saved. The
// log may be long, so it is asked only if the file is not there.
func (d *daemon) openRevocations(ctx context.Context) (err error) {
	path, required := life.RevocationPath(d.config, d.opened.Dir.Path())
	needed := true // if the file goes away before it is read
	if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
		err = d.opened.Store.View(ctx, func(tx *store.Tx) (err error) {
			needed, err = signers.RevokedBefore(tx)
			return err
		})
	}
	d.revoked = signers.NewRevocations(path, required, needed, now)
	return err
}
