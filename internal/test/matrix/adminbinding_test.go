package matrix_test

import (
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/test/must"
)

// boundScope is a row in which a valid signature stands over a payload about
// reservations that differs from the request's in one thing.
func boundScope(id, what string, want refusal.Code, change func(f *floor, p *op.Payload)) attack {
	return onFloor(id, "a coordinator signs "+what, want, func(f *floor) error {
		r := f.request(f.toCora)
		same := f.altered(r, func(p *op.Payload) { change(f, p) })
		fresh := f.altered(r, func(p *op.Payload) { change(f, p); p.Nonce = op.NewNonce(time.Now()) })
		votes := f.carol.votes(coordination)
		f.arm()
		require.ErrorIs(f.t, f.send(r.ID, f.by(fresh, votes)), want)
		require.ErrorIs(f.t, f.sendOffline(f.by(same, votes)), want)
		return f.send(r.ID, f.by(same, votes))
	})
}

// elsewhere is another directory in which alma has something.
func elsewhere(f *floor) op.Target {
	here := f.repo
	f.repo = place(f.world, "other")
	f.claim(f.alma, "**")
	there := must.Get(f.book.Register(f.ctx, f.repo))(f.t).Target()
	f.repo = here
	return there
}

var adminBindingRows = []attack{
	boundScope("A10a", "another scope", refusal.BindingMismatch, func(_ *floor, p *op.Payload) { p.Target.Name = "s2" }),
	boundScope("A10b", "another reservation", refusal.BindingMismatch, func(f *floor, p *op.Payload) {
		p.Params = op.Params{"reservation": f.r2, "to": "cora"}
	}),
	boundScope("A10c", "another receiver", refusal.BindingMismatch, func(f *floor, p *op.Payload) {
		p.Params = op.Params{"reservation": f.r1, "to": "bert"}
	}),
	boundScope("A10d", "one parameter less", refusal.BindingMismatch, func(f *floor, p *op.Payload) { p.Params = op.Params{"reservation": f.r1} }),
	boundScope("A10e", "one parameter more", refusal.BindingMismatch, func(f *floor, p *op.Payload) {
		p.Params = op.Params{"reservation": f.r1, "to": "cora", "force": true}
	}),
	boundScope("A10f", "a release of all", refusal.BindingMismatch, func(_ *floor, p *op.Payload) { p.Op, p.Params = op.ReleaseAll, op.Params{} }),
	boundScope("A10g", "another directory under the id", refusal.BindingMismatch, func(_ *floor, p *op.Payload) { p.Incarnation += "0" }),
	boundScope("A10h", "other reservations", refusal.BindingMismatch, func(_ *floor, p *op.Payload) { p.State = op.FingerprintOf(nil) }),
	boundScope("A10i", "another host", refusal.TargetMismatch, func(_ *floor, p *op.Payload) { p.Host = "pve2" }),
	onFloor("A10j", "the envelope for one directory is handed in for another", refusal.BindingMismatch, func(f *floor) error {
		there := f.request(op.Ask{Op: op.ReleaseAll, Target: elsewhere(f), Params: op.Params{}})
		here := f.request(f.releaseAll)
		f.arm()
		require.ErrorIs(f.t, f.send(there.ID, f.envelopeOf(here)), refusal.BindingMismatch)
		return f.send(here.ID, f.envelopeOf(there))
	}),
	boundScope("A10l", "one reservation, over the state of all", refusal.BindingMismatch, func(f *floor, p *op.Payload) {
		p.State = must.Get(f.book.View(f.ctx, f.scope.Name))(f.t).Fingerprint()
	}),
	onFloor("A10m", "a payload of an operator's own has all released over the state of one, or one handed on over the state of all or of another",
		refusal.StaleTarget, func(f *floor) error {
			r := f.request(f.toCora)
			v := must.Get(f.book.View(f.ctx, f.scope.Name))(f.t)
			f.arm()
			var last error
			for _, change := range []func(p *op.Payload){
				func(p *op.Payload) { p.Op, p.Params = op.ReleaseAll, op.Params{} },
				func(p *op.Payload) { p.State = v.Fingerprint() },
				func(p *op.Payload) { p.Params = op.Params{"reservation": f.r2, "to": "cora"} },
			} {
				own := f.altered(r, func(p *op.Payload) { change(p); p.Nonce = op.NewNonce(time.Now()) })
				last = f.sendOffline(f.by(own, f.carol.votes(coordination)))
				require.ErrorIs(f.t, last, refusal.StaleTarget)
			}
			return last
		}),
	onFloor("A10k", "a release of one directory's reservations is done, and those of another are still there", refusal.Replayed, func(f *floor) error {
		there := elsewhere(f)
		r := f.request(f.releaseAll)
		e := f.by(r.Payload, f.carol.votes(coordination))
		require.NoError(f.t, f.send(r.ID, e))
		require.NoError(f.t, f.runAll())
		emptied(f)
		require.Len(f.t, must.Get(f.book.View(f.ctx, there.Name))(f.t).Reservations, 1)
		f.arm()
		return f.send(r.ID, e)
	}),
	onFloor("A14", "rows of reservations and agents written into the database by hand", reported, func(f *floor) error {
		f.armUnlogged("whoever writes the database does not ask")
		for _, forged := range []string{
			`UPDATE reservations SET agent = 'cora', uid = 2000, registration = 3 WHERE id = 1`,
			`DELETE FROM reservation_patterns WHERE reservation = 1`,
			`UPDATE reservation_patterns SET prefix = '/nowhere' WHERE reservation = 1`,
			`UPDATE reservations SET mode = 'shared' WHERE id = 1`,
			`UPDATE agents SET uid = 0 WHERE id = 1`,
			`INSERT INTO agents(name, uid, pid, start, boot, token, at) VALUES('mallory', 0, 0, 0, '', 'x', 0)`,
			`UPDATE scopes SET last_step = 'j1.1'`,
		} {
			f.forges(forged)
		}
		return reported
	}),
}

// forges requires that fsck sees what was written by hand, and takes it back.
func (f *floor) forges(text string) {
	f.t.Helper()
	seen := errors.New("seen")
	require.ErrorIs(f.t, f.store.Update(f.ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(text); err != nil {
			return err
		}
		report, err := fsck.Run(tx)
		if err != nil || report.Sound {
			return err
		}
		return seen
	}), seen, "%s", text)
}
