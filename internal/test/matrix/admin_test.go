package matrix_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/reserve"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/scope"
	"gated/internal/gate"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// onFloor is a row about a directory in which agents hold reservations.
func onFloor(id, what string, want refusal.Code, run func(f *floor) error) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error { return run(newFloor(w)) }}
}

// takenUnsigned is a row in which somebody asks for what needs a signature, and runs
// it all the same.
func takenUnsigned(id, what string, ask func(f *floor) op.Ask) attack {
	return onFloor(id, what+", unsigned, asked for by a stranger, its holder, its receiver, root and the daemon's uid", refusal.PendingSignature,
		func(f *floor) error {
			f.arm()
			var last error
			for _, by := range []op.Requester{hub, other, f.alma, f.cora, {Source: op.SourceAPI}, {Source: op.SourceAPI, UID: daemonUID}} {
				j, err := f.submit(by, ask(f))
				last = f.waits(j, err)
				require.ErrorIs(f.t, last, refusal.PendingSignature)
				require.ErrorIs(f.t, f.executor().execute(f.ctx, j.Steps[0].ID), refusal.Conflict)
			}
			must.Err(driver.Run(f.ctx, gate.Permit{}, f))(f.t)
			must.Fail(driver.Run(f.ctx, gate.Permit{}, f.scopes))(f.t, refusal.NotAllowed)
			return last
		})
}

// misSigned is a row in which a request about reservations gets a signature that
// does not do, at both end points.
func misSigned(id, what string, want refusal.Code, votes func(f *floor) []vote) attack {
	return onFloor(id, "release-all and force-transfer signed by "+what, want, func(f *floor) error {
		r, give := f.request(f.releaseAll), f.request(f.toCora)
		fresh := f.freshPayload(r)
		f.arm()
		require.ErrorIs(f.t, f.sendOffline(f.by(fresh, votes(f)...)), want)
		require.ErrorIs(f.t, f.send(give.ID, f.by(give.Payload, votes(f)...)), want)
		return f.send(r.ID, f.by(r.Payload, votes(f)...))
	})
}

// accepted is a row in which a role may take reservations, and does, and then
// the same envelope comes again.
func accepted(id string, role op.Role, who func(w *world) key, ask func(f *floor) op.Ask, then func(f *floor)) attack {
	return onFloor(id, "what "+string(role)+" signed is done, and then handed in again", refusal.Replayed, func(f *floor) error {
		r := f.request(ask(f))
		e := f.by(r.Payload, who(f.world).votes(role.Namespace()))
		require.NoError(f.t, f.send(r.ID, e))
		require.NoError(f.t, f.executor().execute(f.ctx, r.ID))
		require.Equal(f.t, op.StateSucceeded, f.stepOf(r.ID).State)
		then(f)
		f.claim(f.alma, "since/**")
		f.arm()
		require.ErrorIs(f.t, f.sendOffline(e), refusal.Replayed)
		require.ErrorIs(f.t, f.executor().execute(f.ctx, r.ID), refusal.Conflict)
		return f.send(r.ID, e)
	})
}

func emptied(f *floor) { require.Zero(f.t, f.taken()) }

func given(f *floor) {
	require.Equal(f.t, 3, f.taken())
	require.Equal(f.t, "cora", must.Get(f.book.View(f.ctx, f.scope.Name))(f.t).Reservations[0].Holder.Name)
}

func releaseEvery(f *floor) op.Ask { return f.releaseAll }
func giveOne(f *floor) op.Ask      { return f.toCora }

func carol(w *world) key   { return w.carol }
func mallory(w *world) key { return w.mallory }

// byKey is one signature of a key in a role.
func byKey(k func(w *world) key, role op.Role) func(f *floor) []vote {
	return func(f *floor) []vote { return []vote{k(f.world).votes(role.Namespace())} }
}

// wrong is a row in which an ask that cannot be is submitted, and its payload
// signed offline where it can be encoded.
func wrong(id, what string, want refusal.Code, ask func(f *floor) op.Ask) attack {
	return onFloor(id, what, want, func(f *floor) error {
		good := f.request(f.toCora)
		a := ask(f)
		p := must.Get(op.DecodePayload(good.Payload))(f.t)
		p.Nonce, p.Op, p.Target, p.Params = op.NewNonce(time.Now()), a.Op, a.Target, a.Params
		f.arm()
		if b, err := p.Encode(); err == nil {
			require.ErrorIs(f.t, f.sendOffline(f.alice.envelope(f.t, b)), want)
		}
		return failure(f.submit(hub, a))
	})
}

// params is an ask with other parameters.
func params(name string, p op.Params) func(f *floor) op.Ask {
	return func(f *floor) op.Ask { return op.Ask{Op: name, Target: f.scope, Params: p} }
}

// target is a release-all of something else.
func target(kind, name string) func(f *floor) op.Ask {
	return func(*floor) op.Ask {
		return op.Ask{Op: op.ReleaseAll, Target: op.Target{Kind: kind, Name: name}, Params: op.Params{}}
	}
}

// impossibleTo is a row in which people sign what turns out to be impossible:
// nothing is taken from anybody, and their approval is spent.
func impossibleTo(id, what string, want refusal.Code, then op.State, ask func(f *floor) op.Ask, meanwhile func(f *floor)) attack {
	return onFloor(id, "signed, and impossible: "+what, want, func(f *floor) error {
		r := f.request(ask(f))
		f.mustApprove(r)
		meanwhile(f)
		f.arm()
		err := f.executor().execute(f.ctx, r.ID)
		require.Equal(f.t, then, f.stepOf(r.ID).State)
		require.Equal(f.t, nonce.Used, f.nonceRows()[r.Nonce].fate)
		require.ErrorIs(f.t, f.send(r.ID, f.envelopeOf(r)), refusal.Replayed)
		return err
	})
}

// during is a book in which something happens when the work of a transfer begins: the permit is used.
type during struct {
	*reserve.Book
	happens func()
}

func (d during) ForceTransfer(ctx context.Context, step op.StepID, id string, seen op.Fingerprint, r op.ReservationID, to string) (reserve.Reservation, error) {
	d.happens()
	return d.Book.ForceTransfer(ctx, step, id, seen, r, to)
}

var adminRows = []attack{
	takenUnsigned("A03a", "a release of every reservation", releaseEvery),
	takenUnsigned("A03b", "the transfer of a reservation", giveOne),
	onFloor("A03c", "desired state wants reservations gone", refusal.PendingSignature, func(f *floor) error {
		f.arm()
		return f.waits(f.gate.Want(f.ctx, "hub", f.releaseAll))
	}),
	onFloor("A03d", "another agent, and the bare uid of its holder, release and transfer a reservation by themselves", refusal.NotHolder, func(f *floor) error {
		f.armUnlogged("the book was asked, not the server")
		for _, by := range []op.Requester{f.bert, f.cora, hub, {Source: op.SourceAPI}, {Source: op.SourceAPI, UID: 1000, Agent: "alma#99"}} {
			if op.AgentName(by.Agent) != "alma" {
				must.Fail(f.book.Release(f.ctx, by, rid(f.t, f.r1)))(f.t, refusal.NotHolder)
			}
			must.Fail(f.book.Transfer(f.ctx, by, rid(f.t, f.r1), "cora"))(f.t, refusal.NotHolder)
		}
		must.Get(f.book.ReleaseMine(f.ctx, hub))(f.t, "it has none")
		return failure(f.book.Renew(f.ctx, f.bert, rid(f.t, f.r1), 0))
	}),
	misSigned("A04a", "recovery, whose key is listed for recovery alone", refusal.RoleDenied, byKey(rita, op.Recovery)),
	misSigned("A04b", "recovery's key, as an operator", refusal.UnknownSigner, byKey(rita, op.Operational)),
	misSigned("A04c", "recovery's key, as a coordinator", refusal.UnknownSigner, byKey(rita, op.Coordination)),
	misSigned("A04d", "an operator's key, as a coordinator", refusal.UnknownSigner, byKey(alice, op.Coordination)),
	misSigned("A04e", "nobody's key", refusal.UnknownSigner, byKey(mallory, op.Coordination)),
	misSigned("A04f", "a coordinator and recovery", refusal.RoleDenied, func(f *floor) []vote {
		return []vote{f.carol.votes(coordination), f.rita.votes(recovery)}
	}),
	misSigned("A04g", "a coordinator, over other bytes", refusal.BadSignature, func(f *floor) []vote {
		return []vote{over(f.carol.votes(coordination), []byte("{}"))}
	}),
	onFloor("A04h", "a coordinator signs the destroy of a guest in the same job as the release", refusal.RoleDenied, func(f *floor) error {
		j := must.Get(f.submit(hub, f.releaseAll, ask("guest.destroy", "victim")))(f.t)
		release, destroy := f.reread(j.Steps[0].ID), f.reread(j.Steps[1].ID)
		require.NoError(f.t, f.approveAs(release, f.carol, op.Coordination))
		f.arm()
		f.allow.finale = []string{"victim"}
		return f.approveAs(destroy, f.carol, op.Coordination)
	}),
	accepted("A05a", op.Coordination, carol, releaseEvery, emptied),
	accepted("A05b", op.Operational, alice, releaseEvery, emptied),
	accepted("A05c", op.Coordination, carol, giveOne, given),
	accepted("A05d", op.Operational, alice, giveOne, given),
	onFloor("A05e", "an approval from before is handed in for a new request of the same wish", refusal.Replayed, func(f *floor) error {
		r := f.request(f.releaseAll)
		e := f.envelopeOf(r)
		require.NoError(f.t, f.send(r.ID, e))
		require.NoError(f.t, f.runAll())
		emptied(f)
		f.claim(f.alma, "src/**")
		again := f.request(f.releaseAll)
		f.arm()
		return f.send(again.ID, authz.Envelope{Payload: e.Payload, Signatures: e.Signatures})
	}),

	wrong("A11a", "a reservation that there is not", refusal.UnknownTarget, func(f *floor) op.Ask { return f.giving("r99", "cora") }),
	wrong("A11b", "a reservation of another directory", refusal.UnknownTarget, func(f *floor) op.Ask {
		here := f.repo
		f.repo = place(f.world, "other")
		r := f.claim(f.alma, "**")
		f.repo = here
		return f.giving(r, "cora")
	}),
	impossibleTo("A11c", "an agent whose process ends in the midst of the step", refusal.UnknownTarget, op.StateFailed, giveOne,
		func(f *floor) {
			f.scopes = scope.New(during{f.book, func() { f.dismiss(f.cora); f.arm() }}, "")
		}),
	wrong("A11k", "an agent that there is not", refusal.UnknownTarget, func(f *floor) op.Ask { return f.giving(f.r1, "nobody") }),
	impossibleTo("A11d", "an agent whose process has ended since", refusal.StaleTarget, op.StateRefused, giveOne, func(f *floor) { f.dismiss(f.cora) }),
	impossibleTo("A11i", "an agent that got the name since", refusal.StaleTarget, op.StateRefused, giveOne, func(f *floor) {
		f.dismiss(f.cora)
		f.cora = f.enlist("cora", 2000)
	}),
	impossibleTo("A11j", "an agent of another uid that got the name since", refusal.StaleTarget, op.StateRefused, giveOne, func(f *floor) {
		f.dismiss(f.cora)
		f.cora = f.enlist("cora", 3000)
	}),
	wrong("A11e", "the receiver has it already", refusal.BadParams, func(f *floor) op.Ask { return f.giving(f.r1, "alma") }),
	impossibleTo("A11l", "the receiver has it since", refusal.StaleTarget, op.StateRefused, giveOne, func(f *floor) {
		must.Get(f.book.Transfer(f.ctx, f.alma, rid(f.t, f.r1), "cora"))(f.t)
	}),
	impossibleTo("A11f", "two holders would have what overlaps since", refusal.Conflict, op.StateFailed, giveOne, func(f *floor) {
		f.claim(f.alma, "src/main.go", "x") // more than it has already
	}),
	wrong("A11m", "two holders would have what overlaps", refusal.Conflict, func(f *floor) op.Ask {
		f.claim(f.bert, "docs/x*") // more than r2
		return f.giving(f.r2, "cora")
	}),
	wrong("A11g", "reservations of a directory that the gate does not know", refusal.UnknownTarget, target(op.KindScope, "s99")),
	wrong("A11h", "reservations of a directory by its name", refusal.UnknownTarget, target(op.KindScope, "repo")),

	wrong("A12a", "a release with force", refusal.BadParams, params(op.ReleaseAll, op.Params{"force": true})),
	wrong("A12b", "a release of one reservation, of which it knows nothing", refusal.BadParams, params(op.ReleaseAll, op.Params{"reservation": "r1"})),
	wrong("A12c", "a transfer to nobody", refusal.BadParams, params(op.ForceTransfer, op.Params{"reservation": "r1"})),
	wrong("A12d", "a transfer of nothing", refusal.BadParams, params(op.ForceTransfer, op.Params{"to": "cora"})),
	wrong("A12e", "a transfer of several", refusal.BadParams, params(op.ForceTransfer, op.Params{"reservation": []any{"r1", "r2"}, "to": "cora"})),
	wrong("A12f", "a transfer of all", refusal.BadParams, params(op.ForceTransfer, op.Params{"reservation": "*", "to": "cora"})),
	wrong("A12g", "a transfer to one registration, by its number", refusal.BadParams, params(op.ForceTransfer, op.Params{"reservation": "r1", "to": "cora#3"})),
	wrong("A12h", "a transfer to a uid", refusal.BadParams, params(op.ForceTransfer, op.Params{"reservation": "r1", "to": "uid:0"})),
	wrong("A12i", "a release that names a path", refusal.NotAllowed, params(op.ReleaseAll, op.Params{"path": "/"})),
	wrong("A12j", "a release of a guest", refusal.BadParams, target("guest", "victim")),

	wrong("A13a", "a release of every scope", refusal.Malformed, target(op.KindScope, "*")),
	wrong("A13b", "a release of several scopes", refusal.Malformed, target(op.KindScope, "s1,s2")),
	wrong("A13c", "a release of a range of scopes", refusal.Malformed, target(op.KindScope, "s[1-9]")),
	wrong("A13d", "a release of a path", refusal.Malformed, target(op.KindScope, "/home")),
	wrong("A13e", "a release of nothing", refusal.Malformed, target(op.KindScope, "")),
}
