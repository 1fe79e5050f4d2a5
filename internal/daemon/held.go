package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/gate"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// How versions of the trust file came to be that no step made.
const (
	howInit   = "init"
	howFirst  = "adopted: first start with this version"
	howByRoot = "adopted by uid %d"
)

// held is the trust file that a start begins with.
type held struct {
	trust *authz.Trust
	v     journal.TrustVersion
	isNew bool // the database does not have it yet
	older bool // its file was that of the version before
}

// hold is the trust file to start with. It says what it had to put right.
func (d *daemon) hold(ctx context.Context) (held, error) {
	h, wrote, err := hold(ctx, d.opened.store, d.signers)
	if wrote {
		d.log.Warn("the list of signers was written anew from the database", "file", d.signers.path, "epoch", h.v.Epoch)
	}
	return h, err
}

// adoptFirst records the first version where the database had none.
func (d *daemon) adoptFirst(ctx context.Context, h held) error {
	if !h.isNew {
		return nil
	}
	h.v.At = d.gate.Moment().Now
	d.log.Info("the list of signers is taken over as it is", "file", d.signers.path, "epoch", h.v.Epoch)
	return d.opened.store.Update(ctx, func(tx *store.Tx) error { return h.record(tx, stateOwner, d.gate.ID(), compare(nil, h.trust)) })
}

// noteOlder writes to the audit log that the file said what the version before
// says, and was put right: a crash between a rotation and its file leaves that,
// and so does a hand that would have a key back.
func (d *daemon) noteOlder(ctx context.Context, v journal.TrustVersion) error {
	d.log.Warn("the list of signers was the version before", "file", d.signers.path, "epoch", v.Epoch)
	return d.gate.Log(ctx, audit.Entry{Kind: audit.Trusted, Epoch: v.Epoch, Digest: op.SHA256(v.Text), Target: op.Signers.String(),
		Detail: fmt.Sprintf(saysOlder+"was that of epoch %d, and was written anew", v.Epoch-1)})
}

// checkSigners has the file say what is in force, and keeps for status what
// keeps it from that. What was edited by other hands is left as it is, and
// counts for nothing.
func (d *daemon) checkSigners(ctx context.Context) {
	v, err := readVersions(ctx, d.opened.store)
	var done settled
	if now := d.gate.Trust().Digest(); err == nil && v.newest.Epoch == d.gate.Epoch() && op.SHA256(v.newest.Text) != now {
		err = tampered(d.opened.dir.Path(), v.newest.Epoch, "it is another in force")
	}
	if err == nil {
		done, err = d.signers.settle(v)
	}
	if err != nil && ctx.Err() != nil {
		return // it stops
	}
	before := d.signersErr.Load()
	switch {
	case err == nil:
		d.signersErr.Store(nil)
		if done.wrote {
			d.log.Info("the list of signers was written", "file", d.signers.path, "epoch", v.newest.Epoch)
		}
		if done.older {
			err = d.noteOlder(ctx, v.newest)
		}
		if err != nil && ctx.Err() == nil {
			d.log.Error("the audit log does not say that the list of signers was an older one", "error", err)
		}
		return
	case before == nil || before.Detail != op.AsRefusal(err).Detail:
		d.log.Error("the list of signers is not as the gate has it; what is in force stays", "error", err)
	}
	d.signersErr.Store(op.AsRefusal(err))
}

// hold returns the newest version of the trust file, and has the file say the
// same. A database from before there were versions takes the file as it is for
// the first one; record writes that.
func hold(ctx context.Context, s *store.Store, f *signersFile) (h held, wrote bool, err error) {
	v, err := readVersions(ctx, s)
	if err != nil {
		return h, false, err
	}
	h.v = v.newest
	if h.isNew = h.v.Epoch == 0; h.isNew {
		text, err := f.read()
		if errors.Is(err, fs.ErrNotExist) {
			err = op.Refuse(op.Unavailable, "the list of signers %s is missing, and the database has none", f.path).
				WithHint("put it back from a backup")
		}
		if err != nil {
			return h, false, err
		}
		h.v = journal.TrustVersion{Epoch: 1, Text: text, How: howFirst}
	} else {
		if err := toldTrust(ctx, s, v.newest); err != nil { // before the file is written from it
			return h, false, err
		}
		done, err := f.settle(v)
		if err != nil {
			return h, false, err
		}
		wrote, h.older = done.wrote, done.older
	}
	h.trust, err = loadTrust(f.path, h.v.Text)
	return h, wrote, err
}

// loadTrust is authz.LoadTrust with the file's name in its refusal.
func loadTrust(path string, text []byte) (*authz.Trust, error) {
	trust, err := authz.LoadTrust(text)
	if err == nil {
		return trust, nil
	}
	r := op.AsRefusal(err)
	return nil, op.Refuse(r.Code, "%s: %s", path, r.Detail).WithHint("%s", r.Hint)
}

// record writes a version that no step made, with its audit entry, in one
// transaction.
func (h held) record(tx *store.Tx, by string, id op.GateID, c change) error {
	if err := journal.AddTrust(tx, h.v); err != nil {
		return fmt.Errorf("record the signers: %w", err)
	}
	e := gate.RotatedEntry(by, authz.Rotation{Trust: h.trust, Added: c.added, Removed: c.removed}, h.v)
	e.Gate, e.Time, e.Target = id, h.v.At, op.Signers.String()
	_, err := audit.Append(tx, e)
	return err
}
