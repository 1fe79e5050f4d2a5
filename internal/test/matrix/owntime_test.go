package matrix_test

import (
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// booted says that the machine has booted: the time since boot begins anew.
func (w *world) booted(boot string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boot, w.elapsed = boot, time.Minute
}

// ticks has the gate look at its clock, and do what time brings.
func (w *world) ticks() {
	w.t.Helper()
	require.NoError(w.t, w.gate.Tick(w.ctx))
}

// atMark sets the clock to what was believed of it.
func (w *world) atMark() { w.setClock(w.gate.Moment().Mark.Sub(w.now())) }

// acceptTime does what gated time accept does, by the world's clock.
func (w *world) acceptTime() (life.Accepted, error) {
	return life.AcceptTime(w.ctx, life.AcceptOptions{StateDir: w.dir, Read: w.read, Agree: func(life.TimeState) error { return nil }})
}

// inOneBoot is a row on a machine that does not boot, whose clock somebody sets.
func inOneBoot(id, what string, want refusal.Code, run func(w *world) error) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		w.booted("one")
		w.restart()
		w.pass(time.Minute)
		w.reload() // the mark is of this boot
		return run(w)
	}}
}

var ownTimeRows = []attack{
	inOneBoot("X73a", "the clock goes ahead in steps that are each below the bound", refusal.Unavailable, func(w *world) error {
		r := w.destroyRequest()
		w.arm()
		ahead := time.Duration(0)
		w.allow.repair = w.atMark
		for ; w.gate.Moment().Trusted; ahead += 9 * time.Minute {
			require.LessOrEqual(w.t, ahead, nonce.MaxJump)
			w.setClock(9 * time.Minute)
			w.pass(time.Minute)
		}
		require.Greater(w.t, ahead, nonce.MaxJump/2)
		return w.send(r.ID, w.envelopeOf(r))
	}),
	inOneBoot("X73b", "the clock goes ahead by an hour less a minute, four times within a day", refusal.Unavailable, func(w *world) error {
		r := w.destroyRequest()
		w.arm()
		const step = 59 * time.Minute
		for range 4 {
			w.setClock(step)
			w.pass(4 * time.Hour)
			w.ticks()
		}
		w.allow.repair = func() { w.setClock(-3 * step) }
		require.WithinDuration(w.t, w.now().Add(-3*step), w.gate.Moment().Now, time.Minute, "the first of them was believed")
		return w.send(r.ID, w.envelopeOf(r))
	}),
	inOneBoot("X73c", "the clock jumps while the daemon is stopped, in the same boot", refusal.Unavailable, func(w *world) error {
		r := w.destroyRequest()
		w.setClock(2 * time.Hour)
		w.restart()
		w.arm()
		w.allow.repair = func() { w.setClock(-2 * time.Hour) }
		return w.send(r.ID, w.envelopeOf(r))
	}),
	inOneBoot("X73d", "the time since boot goes back, as a machine's that is gone back to with its memory, and its clock is set right behind it", refusal.Unavailable,
		func(w *world) error {
			r := w.destroyRequest()
			w.setClock(40 * 24 * time.Hour)
			w.mu.Lock()
			w.elapsed -= 30 * time.Second
			w.mu.Unlock()
			w.restart()
			w.arm()
			w.allow.repair = func() { w.setClock(-40 * 24 * time.Hour) }
			return w.send(r.ID, w.envelopeOf(r))
		}),
	inOneBoot("X74a", "ahead by 29 days over a boot, so that nonces are forgotten; back over another one, and a replay", refusal.Expired, func(w *world) error {
		r := w.spent()
		w.setClock(29 * 24 * time.Hour)
		w.booted("two")
		w.restart()
		w.ticks()
		require.NotContains(w.t, w.nonceRows(), r.Nonce, "it was to be forgotten")
		w.setClock(-29 * 24 * time.Hour)
		w.booted("three")
		w.restart()
		w.arm()
		w.allow.repair = func() { w.setClock(29 * 24 * time.Hour) }
		require.ErrorIs(w.t, w.sendOffline(w.envelopeOf(r)), refusal.Expired)
		return w.send(r.ID, w.envelopeOf(r))
	}),
	{id: "X74b", what: "the mark in the database is set back, and so is the clock, to replay what was forgotten", want: reported, run: func(w *world) error {
		r := w.spent()
		w.pass(30 * time.Hour)
		w.ticks()
		require.NotContains(w.t, w.nonceRows(), r.Nonce, "it was to be forgotten")
		w.armUnlogged("it is the database that was changed")
		db := filepath.Join(w.dir, "gated.db")
		w.shut()
		was := w.fileText(db)
		w.byHand(byHand(`UPDATE time_mark SET unix = unix - 108000`))
		w.open()
		report := w.fsck()
		w.shut()
		w.overwrite(db, was)
		w.open()
		return foundBy(report, "nonce-forgotten")
	}},
	inOneBoot("X75", "the clock goes ahead by less than an hour, again and again, to end a cool-off early", refusal.Unavailable, func(w *world) error {
		w.rule(cool(4 * time.Hour))
		r := w.mustSign(w.destroyRequest(), w.bob.votes(operational))
		ahead := time.Duration(0)
		for range 3 {
			w.setClock(59 * time.Minute)
			ahead += 59 * time.Minute
			w.pass(10 * time.Minute)
			w.ticks()
		}
		w.setClock(-ahead + 59*time.Minute) // what of it was believed
		w.pass(90 * time.Minute)
		w.ticks()
		w.armUnlogged("what waits is not refused")
		w.allow.repair = func() { w.rule() }
		_, ok := must.Two(w.gate.Runnable(w.ctx, guest("victim")))(w.t)
		require.False(w.t, ok, "two hours of four have passed, and one was stolen")
		err := w.executor().execute(w.ctx, r.ID)
		w.stop(r)
		return err
	}),
	inOneBoot("X76a", "the clock is set back and accepted, so that what was spent and forgotten has not expired yet", refusal.TargetMismatch, func(w *world) error {
		r := w.spent()
		w.pass(30 * time.Hour)
		w.ticks()
		require.NotContains(w.t, w.nonceRows(), r.Nonce, "it was to be forgotten")
		w.setClock(-30 * time.Hour)
		w.shut()
		a := must.Get(w.acceptTime())(w.t)
		require.NotEmpty(w.t, a.New)
		w.open()
		require.NoError(w.t, w.gate.Tick(w.ctx))
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(w.envelopeOf(r)), refusal.TargetMismatch)
		return w.send(r.ID, w.envelopeOf(r))
	}),
	inOneBoot("X76b", "a time is accepted beside the running gate", refusal.Conflict, func(w *world) error {
		w.setClock(5 * time.Hour)
		w.armUnlogged("nothing was changed")
		w.allow.repair = func() { w.setClock(-5 * time.Hour) }
		return failure(w.acceptTime())
	}),
	inOneBoot("X76c", "the clock is set again between the question and the answer", refusal.Conflict, func(w *world) error {
		w.setClock(5 * time.Hour)
		w.armUnlogged("nothing was changed")
		w.allow.repair = func() { w.setClock(-5 * time.Hour) }
		w.shut()
		_, err := life.AcceptTime(w.ctx, life.AcceptOptions{StateDir: w.dir, Read: w.read, Agree: func(s life.TimeState) error {
			require.Equal(w.t, 5*time.Hour, s.Ahead())
			w.setClock(70 * 365 * 24 * time.Hour)
			return nil
		}})
		w.setClock(-70 * 365 * 24 * time.Hour)
		w.open()
		return err
	}),
	inOneBoot("X76d", "a time is accepted to keep scratch young for ever: its creator destroys it unsigned afterwards", refusal.PendingSignature, func(w *world) error {
		scratch(w)
		w.pass(20 * time.Hour)
		w.ticks()
		w.setClock(-19 * time.Hour)
		w.shut()
		must.Get(w.acceptTime())(w.t)
		w.open()
		w.arm()
		w.allow.finale = []string{"tmp"}
		return w.waits(w.submit(builder, ask("guest.destroy", "tmp")))
	}),
	inOneBoot("X77a", "the clock goes back by a little less than an hour whenever scratch is about to be too old", refusal.PendingSignature, func(w *world) error {
		scratch(w)
		for range 5 {
			w.pass(policy.ScratchMaxAge / 5)
			w.setClock(-55 * time.Second)
			w.ticks()
			w.setClock(55 * time.Second)
		}
		w.pass(time.Minute)
		w.ticks()
		w.setClock(-55 * time.Second)
		w.arm()
		w.allow.finale = []string{"tmp"}
		return w.waits(w.submit(builder, ask("guest.destroy", "tmp")))
	}),
	inOneBoot("X77b", "the machine sleeps for three days with an approved step, which runs when it wakes", refusal.Expired, func(w *world) error {
		r := w.destroyRequest()
		w.mustApprove(r)
		w.pass(72 * time.Hour) // on both clocks: no jump
		w.arm()
		err := w.executor().execute(w.ctx, r.ID)
		w.ends(r.ID, w.stepOf(r.ID).State, nonce.Used)
		return err
	}),
}
