package matrix_test

import (
	"os"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/reserve"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// change is something that happens to a scope after people looked at it.
type change struct {
	what string
	do   func(f *floor)
	of   concern
}

// concern is what a change has to do with the transfer of r1. A release of all is
// about each.
type concern int

const (
	ofOthers concern = iota // nothing: others come and go
	ofIt                    // it is not as it was, and asked about again
	endsIt                  // it is not there any more
	ofAll                   // the scope is another one
)

var scopeChanges = []change{
	{"another agent reserves there", func(f *floor) { f.claim(f.cora, "cmd/**") }, ofOthers},
	{"another one is released", func(f *floor) { f.release(f.bert, f.r2) }, ofOthers},
	{"another one is released, and reserved again by its holder", func(f *floor) {
		f.release(f.bert, f.r2)
		f.claim(f.bert, "go.mod", "docs/*.md")
	}, ofOthers},
	{"the one to be taken has another holder", func(f *floor) { f.hands(f.alma, f.r1, "bert") }, ofIt},
	{"another one has another holder", func(f *floor) { f.hands(f.bert, f.r2, "cora") }, ofOthers},
	{"the mode of another one changes", func(f *floor) { f.claim(f.bert, "README", reserve.Exclusive) }, ofOthers},
	{"its time is up", func(f *floor) {
		must.Get(f.book.Renew(f.ctx, f.alma, rid(f.t, f.r1), reserve.MinTTL))(f.t)
		f.pass(reserve.MinTTL)
		require.NoError(f.t, f.book.Sweep(f.ctx))
	}, endsIt},
	{"its holder releases it", func(f *floor) { f.release(f.alma, f.r1) }, endsIt},
	{"its holder releases it and reserves the same again", func(f *floor) {
		f.release(f.alma, f.r1)
		f.claim(f.alma, "src/**")
	}, endsIt},
	{"its mode changes", func(f *floor) { require.Equal(f.t, f.r1, f.claim(f.alma, "src/**", reserve.Shared)) }, ofIt},
	{"its directory is exchanged for another one", func(f *floor) {
		require.NoError(f.t, os.Rename(f.repo.Path, f.repo.Path+"-aside"))
		require.NoError(f.t, os.Mkdir(f.repo.Path, 0o755))
	}, ofAll},
	{"its directory is exchanged for a symlink to it", func(f *floor) {
		require.NoError(f.t, os.Rename(f.repo.Path, f.repo.Path+"-aside"))
		require.NoError(f.t, os.Symlink("repo-aside", f.repo.Path))
	}, ofAll},
	{"its directory is exchanged for a file", func(f *floor) {
		require.NoError(f.t, os.Rename(f.repo.Path, f.repo.Path+"-aside"))
		require.NoError(f.t, os.WriteFile(f.repo.Path, nil, 0o600))
	}, ofAll},
}

func (f *floor) release(by op.Requester, id string) {
	f.t.Helper()
	must.Get(f.book.Release(f.ctx, by, rid(f.t, id)))(f.t)
}

func (f *floor) hands(by op.Requester, id, to string) {
	f.t.Helper()
	must.Get(f.book.Transfer(f.ctx, by, rid(f.t, id), to))(f.t)
}

// putBack undoes an exchange of the directory.
func (f *floor) putBack() {
	require.NoError(f.t, os.Remove(f.repo.Path))
	require.NoError(f.t, os.Rename(f.repo.Path+"-aside", f.repo.Path))
}

// staleScopes makes rows of the changes: each between the signature and the
// approval (A06), and between the approval and the run (A07); those of the
// directory are A08. What a transfer is not about is no row of its: A16.
func staleScopes() (rows []attack) {
	directory := byte('a')
	for i, c := range scopeChanges {
		signed, approved := "A06"+string(rune('a'+i)), "A07"+string(rune('a'+i))
		if c.of == ofAll {
			signed, approved = "A08"+string(directory), "A08"+string(directory+1)
			directory += 2
		}
		steps := "release-all and force-transfer"
		if c.of == ofOthers {
			steps = "release-all"
		}
		rows = append(rows,
			onFloor(signed, steps+" signed, then "+c.what, refusal.StaleTarget, c.signedBefore),
			onFloor(approved, steps+" approved, then "+c.what, refusal.StaleTarget, c.approvedBefore))
	}
	return rows
}

func (c change) signedBefore(f *floor) error {
	release, give := f.request(f.releaseAll), f.request(f.toCora)
	e, e2 := f.by(release.Payload, f.carol.votes(coordination)), f.by(give.Payload, f.carol.votes(coordination))
	c.do(f)
	then, thenGive := op.StatePending, op.StatePending
	if c.of == ofAll {
		f.allow.repair, then = f.putBack, op.StateSuperseded
	}
	if c.of >= endsIt {
		thenGive = op.StateSuperseded
	}
	f.arm()
	require.ErrorIs(f.t, f.sendOffline(e), refusal.StaleTarget)
	if c.of != ofOthers {
		require.ErrorIs(f.t, f.send(give.ID, e2), refusal.StaleTarget)
		f.ends(give.ID, thenGive, nonce.Superseded)
	}
	err := f.send(release.ID, e)
	require.NoError(f.t, f.gate.Refresh(f.ctx, f.scope))
	f.ends(release.ID, then, nonce.Superseded)
	return err
}

func (c change) approvedBefore(f *floor) error {
	release := f.request(f.releaseAll)
	approved := []op.Request{release}
	if c.of != ofOthers {
		approved = append(approved, f.request(f.toCora))
	}
	for _, r := range approved {
		require.NoError(f.t, f.approveAs(r, f.carol, op.Coordination))
	}
	c.do(f)
	if c.of == ofAll {
		f.allow.repair = f.putBack
	}
	f.arm()
	var last error
	for _, r := range approved {
		last = f.executor().execute(f.ctx, r.ID)
		require.ErrorIs(f.t, last, refusal.StaleTarget)
		require.Equal(f.t, op.StateRefused, f.stepOf(r.ID).State)
		require.Equal(f.t, nonce.Used, f.nonceRows()[r.Nonce].fate)
		require.ErrorIs(f.t, f.approveAs(r, f.carol, op.Coordination), refusal.Replayed)
	}
	return last
}

// undodged makes rows in which others come and go while a transfer waits, or the
// holder renews: it can be approved and is done, and then it is handed in again.
func undodged() (rows []attack) {
	letter := 'a'
	add := func(c change, when string, approvedBefore bool) {
		rows = append(rows, onFloor("A16"+string(letter), "a force-transfer is "+when+", "+c.what+", and it is done and handed in again", refusal.Replayed,
			func(f *floor) error { return c.undodged(f, approvedBefore) }))
		letter++
	}
	renews := change{what: "its holder renews it and asks for it again", do: func(f *floor) {
		must.Get(f.book.Renew(f.ctx, f.alma, rid(f.t, f.r1), reserve.MaxTTL))(f.t)
		require.Equal(f.t, f.r1, f.claim(f.alma, "src/**"))
	}}
	for _, c := range append([]change{renews}, scopeChanges...) {
		if c.of == ofOthers {
			add(c, "signed", false)
			add(c, "approved", true)
		}
	}
	return rows
}

func (c change) undodged(f *floor, approvedBefore bool) error {
	r := f.request(f.toCora)
	e := f.by(r.Payload, f.carol.votes(coordination))
	if approvedBefore {
		require.NoError(f.t, f.send(r.ID, e))
	}
	c.do(f)
	require.NoError(f.t, f.gate.Refresh(f.ctx, f.scope))
	require.Equal(f.t, r.Payload, f.reread(r.ID).Payload)
	if !approvedBefore {
		require.NoError(f.t, f.send(r.ID, e))
	}
	require.NoError(f.t, f.executor().execute(f.ctx, r.ID))
	require.Equal(f.t, op.StateSucceeded, f.stepOf(r.ID).State)
	require.Equal(f.t, "cora", must.Get(f.book.View(f.ctx, f.scope.Name))(f.t).Reservations[0].Holder.Name)
	f.arm()
	require.ErrorIs(f.t, f.sendOffline(e), refusal.Replayed)
	return f.send(r.ID, e)
}

var staleScopeRows = append(append(staleScopes(), undodged()...),
	onFloor("A07z", "two steps on one scope are approved: the second one is for what the first one left nothing of", refusal.StaleTarget, func(f *floor) error {
		release, give := f.request(f.releaseAll), f.request(f.toCora)
		f.mustApprove(release)
		f.mustApprove(give)
		require.NoError(f.t, f.executor().execute(f.ctx, release.ID))
		f.claim(f.alma, "src/**")
		f.arm()
		return f.executor().execute(f.ctx, give.ID)
	}),
	onFloor("A09a", "64 at once of the same approval", refusal.Replayed, func(f *floor) error {
		r := f.request(f.releaseAll)
		e := f.envelopeOf(r)
		f.arm()
		f.allow.runs, f.allow.takes = true, true
		f.ends(r.ID, op.StateSucceeded, nonce.Used)
		errs := make(chan error, 64)
		for range cap(errs) {
			go func() { errs <- f.send(r.ID, e) }()
		}
		var last error
		accepted := 0
		for range cap(errs) {
			if err := <-errs; err != nil {
				require.ErrorIs(f.t, err, refusal.Replayed)
				last = err
			} else {
				accepted++
			}
		}
		require.Equal(f.t, 1, accepted)
		require.NoError(f.t, f.runAll())
		emptied(f)
		return last
	}),
	onFloor("A09b", "an approval that was rejected", refusal.Rejected, func(f *floor) error {
		r := f.request(f.releaseAll)
		e := f.envelopeOf(r)
		must.Get(f.gate.Reject(f.ctx, hub, r.ID, f.rejection(r, f.alice)))(f.t)
		f.arm()
		require.ErrorIs(f.t, f.sendOffline(e), refusal.Rejected)
		return f.send(r.ID, e)
	}),
)
