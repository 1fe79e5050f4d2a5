package matrix_test

import (
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// coolOff is how long rows let approved steps cool off.
const coolOff = 10 * time.Minute

func cool(length time.Duration) policy.Rule {
	return policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, CoolOff: length}
}

// cooling is a row in which something changes while a step that bob approved
// cools off, and the step is then to run. It ends as refused, or waits on.
func cooling(id, what string, want refusal.Code, change func(w *world)) attack {
	return attack{id: id, what: "while an approved step cools off, " + what, want: want, run: func(w *world) error {
		w.list(caLine(w))
		w.rule(cool(coolOff))
		r := w.mustSign(w.destroyRequest(), w.bob.votes(operational))
		require.Equal(w.t, op.StateAuthorized, r.Step.State)
		w.pass(coolOff / 2)
		change(w)
		w.pass(coolOff / 2)
		w.arm()
		w.allow.repair = func() { w.rule(); w.pardon() }
		err := w.executor().execute(w.ctx, r.ID)
		if want == refusal.Unavailable {
			require.Equal(w.t, op.StateAuthorized, w.stepOf(r.ID).State, "it waits")
			w.stop(r)
			return err
		}
		require.Contains(w.t, []op.State{op.StateRefused, op.StateExpired}, w.stepOf(r.ID).State)
		require.Equal(w.t, nonce.Used, w.nonceRows()[r.Nonce].fate, "the nonce stays spent")
		return err
	}}
}

// stop cancels what rightly would run later, so that the finale has its own.
func (w *world) stop(r op.Request) {
	w.t.Helper()
	w.cancel(hub, r.ID.Job)
	w.ends(r.ID, op.StateCancelled, nonce.Used)
}

// whileLooking is a row in which something changes after the signatures of an
// envelope were verified and before they are counted: the gate looks at the
// target in between.
func whileLooking(id, what string, want refusal.Code, change func(w *world), send func(w *world, r op.Request, fresh []byte) error) attack {
	return attack{id: id, what: what + ", between the verification and the commit", want: want, run: func(w *world) error {
		r := w.destroyRequest()
		fresh := w.freshPayload(r)
		var once sync.Once
		fn := func(t op.Target) {
			if t == guest("victim") {
				once.Do(func() { change(w) })
			}
		}
		w.arm()
		w.allow.repair = func() { w.rule(); w.pardon() }
		w.meanwhile.Store(&fn)
		defer w.meanwhile.Store(nil)
		return send(w, r, fresh)
	}}
}

func approves(w *world, r op.Request, _ []byte) error {
	return w.send(r.ID, w.by(r.Payload, w.bob.votes(operational)))
}

func approvesOffline(w *world, _ op.Request, fresh []byte) error {
	return w.sendOffline(w.by(fresh, w.bob.votes(operational)))
}

// oneOfTwo approves, where one signature is not enough any more.
func oneOfTwo(w *world, r op.Request, _ []byte) error {
	return w.unmet(1)(w.signs(r, w.bob.votes(operational)))
}

func revokeBob(w *world) { w.revoke(w.bob.print(w.t)) }

// changedRulesRows are S23.
var changedRulesRows = []attack{
	whileLooking("S23a", "the key is revoked", refusal.SignerRevoked, revokeBob, approves),
	whileLooking("S23b", "the key of an offline operation is revoked", refusal.SignerRevoked, revokeBob, approvesOffline),
	whileLooking("S23c", "a second person is asked for", refusal.PendingSignature, func(w *world) {
		w.rule(two())
		w.seconds = []vote{w.bob.votes(operational)}
	}, oneOfTwo),
	whileLooking("S23d", "a touch is asked for", refusal.TouchRequired, func(w *world) { w.rule(touchRule("", op.TouchPresent)) }, approves),
	whileLooking("S23e", "the list of revoked keys becomes unreadable", refusal.Unavailable, func(w *world) {
		require.NoError(w.t, w.gate.Reload(w.ctx, authz.UnreadableRevoked(refusal.Unavailable), w.rules))
	}, approves),
	{id: "S23f", what: "the key is rotated out between the verification and the commit", want: refusal.UnknownSigner, run: func(w *world) error {
		r := w.destroyRequest()
		out := w.mustSign(w.request(w.next(nil, prints(bob)(w))), w.alice.votes(operational))
		var once sync.Once
		var rotated error
		fn := func(t op.Target) {
			if t == guest("victim") {
				once.Do(func() { rotated = w.executor().execute(w.ctx, out.ID) })
			}
		}
		w.arm()
		w.allow.rotates = true
		w.meanwhile.Store(&fn)
		err := w.send(r.ID, w.by(r.Payload, w.bob.votes(operational)))
		w.meanwhile.Store(nil)
		require.NoError(w.t, rotated)
		return err
	}},
	{id: "S23g", what: "the key is revoked after the driver got its permit", want: refusal.SignerRevoked, run: func(w *world) error {
		r := w.mustSign(w.destroyRequest(), w.bob.votes(operational))
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		revokeBob(w)
		w.arm()
		w.allow.repair = w.pardon
		_, err := driver.Run(w.ctx, p, w.driver)
		require.Equal(w.t, op.StateRefused, w.stepOf(r.ID).State)
		return err
	}},
	{id: "S23h", what: "approve and revoke at once, many times: it never runs", want: lostRace, run: func(w *world) error {
		w.arm()
		w.allow.unlogged, w.allow.repair = "both are allowed", w.pardon
		for range 8 {
			w.pardon()
			r := w.destroyRequest()
			e := w.by(r.Payload, w.bob.votes(operational))
			var approved error
			both(func() { approved = w.send(r.ID, e) }, func() { revokeBob(w) })
			if approved != nil {
				require.ErrorIs(w.t, approved, refusal.SignerRevoked)
				w.cancel(hub, r.ID.Job)
				w.ends(r.ID, op.StateCancelled, nonce.Cancelled)
				continue
			}
			require.ErrorIs(w.t, w.executor().execute(w.ctx, r.ID), refusal.SignerRevoked)
			w.ends(r.ID, op.StateRefused, nonce.Used)
		}
		return lostRace
	}},
	crowd("S23i", "her key is revoked and a second one signs: two are still needed", refusal.PendingSignature, func(w *world, r op.Request) error {
		w.revoke(w.alice.print(w.t))
		w.allow.repair = w.pardon
		return w.unmet(1)(w.signs(r, w.bob.votes(operational)))
	}),
	cooling("S23j", "its key is revoked", refusal.SignerRevoked, revokeBob),
	cooling("S23k", "its key is rotated out", refusal.UnknownSigner, func(w *world) { w.rotate(nil, prints(bob)(w), w.alice.votes(operational)) }),
	cooling("S23l", "its key is moved to another role", refusal.UnknownSigner, func(w *world) {
		w.rotate([]string{w.bob.line(coordination)}, prints(bob)(w), w.alice.votes(operational), w.bob.votes(coordination))
	}),
	cooling("S23m", "a second person is asked for", refusal.ThresholdUnmet, func(w *world) { w.rule(cool(coolOff), two()) }),
	cooling("S23n", "a manager is asked for", refusal.ThresholdUnmet, func(w *world) {
		w.rule(cool(coolOff), policy.Rule{Where: "gated.yaml:9", Role: "manager", Threshold: 1})
	}),
	cooling("S23o", "a touch is asked for", refusal.TouchRequired, func(w *world) { w.rule(touchRule(op.Operational, op.TouchPresent)) }),
	cooling("S23p", "a shorter life of payloads is asked for", refusal.Expired, func(w *world) {
		w.rule(policy.Rule{Where: "gated.yaml:9", Threshold: 1, MaxValidity: 5 * time.Minute})
	}),
	cooling("S23q", "a longer one is asked for", refusal.Unavailable, func(w *world) { w.rule(cool(6 * coolOff)) }),
	cooling("S23r", "a window is asked for, and it is closed", refusal.Unavailable, func(w *world) {
		night := must.Get(op.ParseWindow("22:00-06:00Z"))(w.t)
		w.rule(policy.Rule{Where: "gated.yaml:9", Threshold: 1, Window: &night})
	}),
	cooling("S23s", "the list of revoked keys becomes unreadable", refusal.Unavailable, func(w *world) {
		require.NoError(w.t, w.gate.Reload(w.ctx, authz.UnreadableRevoked(refusal.Unavailable), w.rules))
	}),
	{id: "S23t", what: "while an approved step cools off, the CA of its key is revoked", want: refusal.SignerRevoked, run: func(w *world) error {
		w.list(caLine(w))
		w.rule(cool(coolOff))
		r := w.mustSign(w.destroyRequest(), certified(doraCert(w)))
		w.revoke(theCA(w).Fingerprint())
		w.pass(coolOff)
		w.arm()
		w.allow.repair = func() { w.rule(); w.pardon() }
		return w.executor().execute(w.ctx, r.ID)
	}},
	{id: "S23u", what: "while an approved step cools off, its certificate ends", want: refusal.SignerExpired, run: func(w *world) error {
		w.list(caLine(w))
		w.rule(cool(coolOff))
		c := doraCert(w)
		c.ValidBefore = w.now().Add(coolOff)
		r := w.mustSign(w.destroyRequest(), certified(c))
		w.pass(coolOff)
		w.arm()
		w.allow.repair = func() { w.rule() }
		return w.executor().execute(w.ctx, r.ID)
	}},
}

// hurried is a row in which a step with a cool-off is to run too early.
func hurried(id, what string, hurry func(w *world, r op.Request)) attack {
	return attack{id: id, what: what, want: refusal.Unavailable, run: func(w *world) error {
		w.rule(cool(coolOff))
		r := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
		w.pass(coolOff - time.Second)
		hurry(w, r)
		w.arm()
		w.allow.repair = func() { w.rule() }
		err := w.executor().execute(w.ctx, r.ID)
		require.Equal(w.t, op.StateAuthorized, w.stepOf(r.ID).State)
		w.stop(r)
		return err
	}}
}

var delayRows = []attack{
	hurried("X28a", "the rule of a cool-off is taken away by a reload while a step cools off", func(w *world, _ op.Request) { w.rule() }),
	hurried("X28b", "a restart without the rule while a step cools off", func(w *world, _ op.Request) {
		w.rules.Rules = nil
		w.restart()
	}),
	hurried("X28c", "the approval is sent again, by another operator", func(w *world, r op.Request) {
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, w.bob.votes(operational))), refusal.Replayed)
	}),
	{id: "X28d", what: "a cool-off counted from the first of two signatures", want: refusal.Unavailable, run: func(w *world) error {
		w.rule(policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 2, CoolOff: coolOff})
		r := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
		w.pass(coolOff - time.Second)
		r = w.mustSign(r, w.bob.votes(operational))
		w.pass(time.Second)
		w.arm()
		w.seconds, w.allow.wait = []vote{w.bob.votes(operational)}, coolOff
		err := w.executor().execute(w.ctx, r.ID)
		w.stop(r)
		return err
	}},
	{id: "X28e", what: "a permit taken before the rule of a cool-off came into force", want: refusal.Unavailable, run: func(w *world) error {
		r := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		w.rule(cool(coolOff))
		w.arm()
		w.allow.wait = coolOff
		_, err := driver.Run(w.ctx, p, w.driver)
		w.stop(r)
		return err
	}},
	{id: "X29", what: "a rejection stops what cools off, and its permit is used when the time is over", want: refusal.Conflict, run: func(w *world) error {
		w.rule(cool(coolOff))
		r := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
		p := must.Get(w.gate.Permit(w.ctx, r.ID))(w.t)
		must.Get(w.gate.Reject(w.ctx, hub, r.ID, w.rejection(r, w.bob)))(w.t)
		w.pass(coolOff)
		w.arm()
		w.allow.wait = coolOff
		return failure(driver.Run(w.ctx, p, w.driver))
	}},
	outsideWindow("X30a", "a minute before a window opens", "22:00-06:00Z", 10*time.Hour-time.Minute),
	outsideWindow("X30b", "past midnight, in a window that closed", "22:00-06:00Z", 18*time.Hour),
	outsideWindow("X30c", "past midnight, in the window of a day that did not have one the evening before", "mon 10:00-06:00Z", 15*time.Hour),
	outsideWindow("X30d", "in one of two windows that a step has to be in", "08:00-18:00Z", time.Hour, "14:00-16:00Z"),
}

// outsideWindow is a row in which a step is approved at noon on a Sunday, and
// tried so long after.
func outsideWindow(id, what, window string, after time.Duration, more ...string) attack {
	return attack{id: id, what: "a step is run " + what, want: refusal.Unavailable, run: func(w *world) error {
		var rules []policy.Rule
		for _, s := range append([]string{window}, more...) {
			open := must.Get(op.ParseWindow(s))(w.t)
			rules = append(rules, policy.Rule{Where: "gated.yaml:3", Op: "guest.destroy", Threshold: 1, Window: &open})
		}
		w.rule(rules...)
		r := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
		w.pass(after)
		w.arm()
		w.allow.repair = func() { w.rule() }
		err := w.executor().execute(w.ctx, r.ID)
		require.Equal(w.t, op.StateAuthorized, w.stepOf(r.ID).State)
		w.stop(r)
		return err
	}}
}
