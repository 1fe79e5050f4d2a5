package daemon

import (
	"context"

	"gated/internal/base/store"
	"gated/internal/host/signers"
)

// trustAsWritten takes over the list of signers that the active member wrote since. A standby also reads its file of
// revoked keys, so that status says long before a takeover if it is not in order.
func (d *daemon) trustAsWritten(ctx context.Context) error {
	if err := d.revokedAsTold(ctx); err != nil {
		return err
	}
	v, err := signers.Newest(ctx, d.opened.Store)
	if err != nil || v.Epoch == d.gate.Epoch() {
		return err
	}
	list, _, err := signers.Current(ctx, d.opened.Store, d.signers)
	if err != nil {
		return err
	}
	d.gate.Follow(d.gate.Trust().Succeeded(list.Trust), list.Version.Epoch)
	d.checkSigners(ctx)
	return nil
}

// revokedAsTold reads the file of revoked keys if it changed, or if the log told of such keys.
func (d *daemon) revokedAsTold(ctx context.Context) error {
	if d.member.told {
		if err := d.revokedInOrder(ctx); err != nil {
			return err
		}
		d.member.told = false
	}
	if !d.revoked.Due() {
		return nil
	}
	if list, differs := d.revoked.Read(); differs {
		d.gate.Follow(d.gate.Trust().WithRevoked(list), d.gate.Epoch())
		d.sayRevoked(list)
	}
	return nil
}

// revokedInOrder has the file of revoked keys count only if it is in order with that of the member before.
func (d *daemon) revokedInOrder(ctx context.Context) error {
	if d.member == nil {
		return nil
	}
	return d.opened.Store.View(ctx, func(tx *store.Tx) error {
		o, err := signers.OfAnotherMember(tx, d.member.Member, d.member.mine)
		d.revoked.InOrderWith(o)
		return err
	})
}
