package matrix_test

import (
	"os"

	"github.com/stretchr/testify/require"

	"gated/internal/nonce"
	"gated/internal/op"
	"gated/internal/reserve"
)

// change is something that happens to a scope after people looked at it.
type change struct {
	what string
	do   func(f *floor)
	gone bool // the scope is another one then
}

var scopeChanges = []change{
	{"another agent reserves there", func(f *floor) { f.claim(f.cora, "cmd/**") }, false},
	{"one of them is released", func(f *floor) {
		_, err := f.book.Release(f.ctx, f.bert, rid(f.r2))
		require.NoError(f.t, err)
	}, false},
	{"one is released, and reserved again by its holder", func(f *floor) {
		_, err := f.book.Release(f.ctx, f.bert, rid(f.r2))
		require.NoError(f.t, err)
		f.claim(f.bert, "go.mod", "docs/*.md")
	}, false},
	{"the one to be taken has another holder", func(f *floor) {
		_, err := f.book.Transfer(f.ctx, f.alma, rid(f.r1), "bert")
		require.NoError(f.t, err)
	}, false},
	{"another one has another holder", func(f *floor) {
		_, err := f.book.Transfer(f.ctx, f.bert, rid(f.r2), "cora")
		require.NoError(f.t, err)
	}, false},
	{"the mode of one changes", func(f *floor) { f.claim(f.bert, "README", reserve.Exclusive) }, false},
	{"one's time is up", func(f *floor) {
		_, err := f.book.Renew(f.ctx, f.alma, rid(f.r1), reserve.MinTTL)
		require.NoError(f.t, err)
		f.pass(reserve.MinTTL)
		require.NoError(f.t, f.book.Sweep(f.ctx))
	}, false},
	{"its directory is exchanged for another one", func(f *floor) {
		require.NoError(f.t, os.Rename(f.repo.Path, f.repo.Path+"-aside"))
		require.NoError(f.t, os.Mkdir(f.repo.Path, 0o755))
	}, true},
	{"its directory is exchanged for a symlink to it", func(f *floor) {
		require.NoError(f.t, os.Rename(f.repo.Path, f.repo.Path+"-aside"))
		require.NoError(f.t, os.Symlink("repo-aside", f.repo.Path))
	}, true},
	{"its directory is exchanged for a file", func(f *floor) {
		require.NoError(f.t, os.Rename(f.repo.Path, f.repo.Path+"-aside"))
		require.NoError(f.t, os.WriteFile(f.repo.Path, nil, 0o600))
	}, true},
}

// putBack undoes an exchange of the directory.
func (f *floor) putBack() {
	require.NoError(f.t, os.Remove(f.repo.Path))
	require.NoError(f.t, os.Rename(f.repo.Path+"-aside", f.repo.Path))
}

// staleScopes makes rows of the changes: each between the signature and the
// approval (A06), and between the approval and the run (A07); those of the
// directory are A08.
func staleScopes() (rows []attack) {
	directory := byte('a')
	for i, c := range scopeChanges {
		signed, approved := "A06"+string(rune('a'+i)), "A07"+string(rune('a'+i))
		if c.gone {
			signed, approved = "A08"+string(directory), "A08"+string(directory+1)
			directory += 2
		}
		rows = append(rows,
			onFloor(signed, "release-all and force-transfer are signed, then "+c.what, op.StaleTarget, c.signedBefore),
			onFloor(approved, "release-all and force-transfer are approved, then "+c.what, op.StaleTarget, c.approvedBefore))
	}
	return rows
}

func (c change) signedBefore(f *floor) error {
	release, give := f.request(f.releaseAll), f.request(f.toCora)
	e, e2 := f.by(release.Payload, f.carol.votes(coordination)), f.by(give.Payload, f.carol.votes(coordination))
	c.do(f)
	then := op.StatePending
	if c.gone {
		f.allow.repair, then = f.putBack, op.StateSuperseded
	}
	f.arm()
	require.ErrorIs(f.t, f.sendOffline(e), op.StaleTarget)
	require.ErrorIs(f.t, f.send(give.ID, e2), op.StaleTarget)
	err := f.send(release.ID, e)
	require.NoError(f.t, f.gate.Refresh(f.ctx, f.scope))
	f.ends(release.ID, then, nonce.Superseded)
	f.ends(give.ID, then, nonce.Superseded)
	return err
}

func (c change) approvedBefore(f *floor) error {
	release, give := f.request(f.releaseAll), f.request(f.toCora)
	for _, r := range []op.Request{release, give} {
		require.NoError(f.t, f.approveAs(r, f.carol, op.Coordination))
	}
	c.do(f)
	if c.gone {
		f.allow.repair = f.putBack
	}
	f.arm()
	require.ErrorIs(f.t, f.executor().execute(f.ctx, give.ID), op.StaleTarget)
	err := f.executor().execute(f.ctx, release.ID)
	for _, r := range []op.Request{release, give} {
		require.Equal(f.t, op.StateRefused, f.stepOf(r.ID).State)
		require.Equal(f.t, nonce.Used, f.nonceRows()[r.Nonce].fate)
		require.ErrorIs(f.t, f.approveAs(r, f.carol, op.Coordination), op.Replayed)
	}
	return err
}

var staleScopeRows = append(staleScopes(),
	onFloor("A07z", "two steps on one scope are approved: the second one is for what the first one left nothing of", op.StaleTarget, func(f *floor) error {
		release, give := f.request(f.releaseAll), f.request(f.toCora)
		f.mustApprove(release)
		f.mustApprove(give)
		require.NoError(f.t, f.executor().execute(f.ctx, release.ID))
		f.claim(f.alma, "src/**")
		f.arm()
		return f.executor().execute(f.ctx, give.ID)
	}),
	onFloor("A09a", "64 at once of the same approval", op.Replayed, func(f *floor) error {
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
				require.ErrorIs(f.t, err, op.Replayed)
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
	onFloor("A09b", "an approval that was rejected", op.Rejected, func(f *floor) error {
		r := f.request(f.releaseAll)
		e := f.envelopeOf(r)
		_, err := f.gate.Reject(f.ctx, hub, r.ID, f.rejection(r, f.alice))
		require.NoError(f.t, err)
		f.arm()
		require.ErrorIs(f.t, f.sendOffline(e), op.Rejected)
		return f.send(r.ID, e)
	}),
)
