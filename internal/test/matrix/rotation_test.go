package matrix_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
)

// rotation asks to change the trust file.
func rotation(epoch int64, add, remove []string) op.Ask {
	p := op.Params{"epoch": epoch}
	for name, list := range map[string][]string{"add": add, "remove": remove} {
		var lines []any
		for _, l := range list {
			lines = append(lines, strings.TrimSuffix(l, "\n"))
		}
		if lines != nil {
			p[name] = lines
		}
	}
	return op.Ask{Op: "trust.rotate", Target: op.Signers, Params: p}
}

// next is a rotation to the next epoch.
func (w *world) next(add, remove []string) op.Ask { return rotation(w.gate.Epoch()+1, add, remove) }

// rotate changes the trust file as operators do.
func (w *world) rotate(add, remove []string, votes ...vote) {
	w.t.Helper()
	r := w.mustSign(w.request(w.next(add, remove)), votes...)
	require.Equal(w.t, op.StateAuthorized, r.Step.State)
	require.NoError(w.t, w.executor().execute(w.ctx, r.ID))
	require.Equal(w.t, op.StateSucceeded, w.stepOf(r.ID).State)
}

const (
	recovery     = "recovery@gated"
	coordination = "coordination@gated"
	manager      = "manager@gated"
)

// impossible is a row in which recovery asks for a rotation that cannot be, and
// signs it offline too.
func impossible(id, what string, ask func(w *world) op.Ask) attack {
	return attack{id: id, what: "recovery signs a rotation that " + what, want: refusal.BadParams, run: func(w *world) error {
		good := w.request(w.next(nil, []string{w.bob.print(w.t)}))
		bad := ask(w)
		b := w.altered(good, func(p *op.Payload) { p.Nonce, p.Params = op.NewNonce(time.Now()), bad.Params })
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(w.by(b, w.rita.votes(recovery))), refusal.BadParams)
		return failure(w.submit(hub, bad))
	}}.on(anyGuests)
}

// reserved is a row in which operators sign what recovery alone may do.
func reserved(id, what string, add, remove func(w *world) []string, proofs ...vote) attack {
	return attack{id: id, what: "operators sign a rotation that " + what, want: refusal.RoleDenied, run: func(w *world) error {
		r := w.request(w.next(add(w), remove(w)))
		fresh := w.freshPayload(r)
		votes := append([]vote{w.alice.votes(operational), w.bob.votes(operational)}, proofs...)
		w.arm()
		w.allow.repair = func() { w.cancel(hub, r.ID.Job) }
		require.ErrorIs(w.t, w.sendOffline(w.by(fresh, votes...)), refusal.RoleDenied)
		return w.send(r.ID, w.by(r.Payload, votes...))
	}}.on(withCA)
}

// netCA is a CA for the operators of another domain.
func netCA(w *world) string {
	return theCA(w).Line("*@example.net", "cert-authority,"+lineOptions(operational))
}

// few is a row about a rotation that takes more people than signed it.
func few(id, what string, missing int, ask func(w *world) op.Ask, votes func(w *world) []vote) attack {
	return attack{id: id, what: what, want: refusal.PendingSignature, run: func(w *world) error {
		mona := keyOf(w.t, "mona")
		w.list(mona.line(manager))
		w.rule(two(), policy.Rule{Where: "gated.yaml:9", Op: "guest.wipe", Role: "manager", Threshold: 1})
		w.seconds = []vote{w.bob.votes(operational)}
		r := w.request(ask(w))
		w.arm()
		return w.unmet(missing)(w.signs(r, votes(w)...))
	}}
}

// unproved is a row in which a rotation that adds mallory is approved with
// something that is no proof of possession.
func unproved(id, what string, want refusal.Code, votes func(w *world, payload []byte) []vote) attack {
	return attack{id: id, what: "a rotation adds a key, " + what, want: want, run: func(w *world) error {
		r := w.request(w.next([]string{w.mallory.line("operational@gated,coordination@gated")}, nil))
		fresh := w.freshPayload(r)
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(w.by(fresh, votes(w, fresh)...)), want)
		return w.send(r.ID, w.by(r.Payload, votes(w, r.Payload)...))
	}}.on(anyGuests)
}

func none(*world) []string { return nil }

func prints(keys ...func(w *world) key) func(w *world) []string {
	return func(w *world) (out []string) {
		for _, k := range keys {
			out = append(out, k(w).print(w.t))
		}
		return out
	}
}

func alice(w *world) key { return w.alice }
func bob(w *world) key   { return w.bob }
func rita(w *world) key  { return w.rita }

// over signs other bytes than are sent.
func over(v vote, other []byte) vote {
	return func(t testing.TB, _ []byte) string { return v(t, other) }
}

var rotationRows = []attack{
	impossible("S18a", "removes the last operational keys", func(w *world) op.Ask { return w.next(nil, prints(alice, bob)(w)) }),
	impossible("S18b", "removes the last recovery key", func(w *world) op.Ask { return w.next(nil, prints(rita)(w)) }),
	impossible("S18c", "removes everybody", func(w *world) op.Ask {
		return w.next(nil, append(prints(alice, bob, rita)(w), w.carol.print(w.t)))
	}),
	impossible("S18d", "leaves one operator, whose key has expired", func(w *world) op.Ask {
		return w.next([]string{w.mallory.line(operational, `valid-before="20260101Z"`)}, prints(alice, bob)(w))
	}),
	impossible("S18e", "leaves one operator, whose key counts from next year", func(w *world) op.Ask {
		return w.next([]string{w.mallory.line(operational, `valid-after="20270101Z"`)}, prints(alice, bob)(w))
	}),
	{id: "S18f", what: "recovery signs a rotation that leaves one operator, whose key is revoked", want: refusal.BadParams, run: func(w *world) error {
		w.revoke(w.bob.print(w.t))
		w.arm()
		return failure(w.submit(hub, w.next(nil, prints(alice)(w))))
	}},
	impossible("S18g", "moves a recovery key to the operators, so that there is none", func(w *world) op.Ask {
		return w.next([]string{w.rita.line(operational)}, prints(rita)(w))
	}),
	impossible("S18h", "leaves the epoch as it is", func(w *world) op.Ask { return rotation(w.gate.Epoch(), nil, prints(bob)(w)) }),
	impossible("S18i", "leaves an epoch out", func(w *world) op.Ask { return rotation(w.gate.Epoch()+2, nil, prints(bob)(w)) }),
	impossible("S18j", "changes nothing", func(w *world) op.Ask { return w.next(nil, nil) }),
	impossible("S18k", "lists a key a second time, under another name", func(w *world) op.Ask { return w.next([]string{w.alice.as("alicia")}, nil) }),
	impossible("S18l", "removes a key that is not listed", func(w *world) op.Ask { return w.next(nil, []string{w.mallory.print(w.t)}) }),
	impossible("S18u", "names a role that this gate does not have", func(w *world) op.Ask {
		return w.next([]string{w.mallory.line("operational@gated,managers@gated")}, nil)
	}),
	unproved("S18m", "and nobody but recovery signed", refusal.BadParams, func(w *world, _ []byte) []vote {
		return []vote{w.rita.votes(recovery)}
	}),
	unproved("S18n", "and its holder signed for one role of the two", refusal.BadParams, func(w *world, _ []byte) []vote {
		return []vote{w.rita.votes(recovery), w.mallory.votes(operational)}
	}),
	unproved("S18o", "and its holder signed in a role that it is not added for", refusal.UnknownSigner, func(w *world, _ []byte) []vote {
		return []vote{w.rita.votes(recovery), w.mallory.votes(recovery)}
	}),
	unproved("S18p", "and its holder signed other bytes", refusal.BadSignature, func(w *world, p []byte) []vote {
		return []vote{w.rita.votes(recovery), over(w.mallory.votes(operational), append([]byte(" "), p...)), w.mallory.votes(coordination)}
	}),
	unproved("S18q", "and a certificate of it signed", refusal.UnknownSigner, func(w *world, _ []byte) []vote {
		return []vote{w.rita.votes(recovery), certified(doraCert(w))}
	}),
	unproved("S18r", "and another key signed that is not listed", refusal.UnknownSigner, func(w *world, _ []byte) []vote {
		return []vote{w.rita.votes(recovery), minted(mint.Ed25519(w.t, "nobody"))}
	}),
	{id: "S18s", what: "a security key that is added proves itself without a touch", want: refusal.TouchRequired, run: func(w *world) error {
		r := w.request(w.next([]string{dora(token(0))(w)}, nil))
		w.arm()
		return failure(w.signs(r, w.rita.votes(recovery), minted(token(0)(w))))
	}},
	{id: "S18t", what: "two rotations, each removes one of the two operators, both approved: the second is stale", want: refusal.BadParams,
		run: func(w *world) error {
			first := w.mustSign(w.request(w.next(nil, prints(bob)(w))), w.rita.votes(recovery))
			second := w.mustSign(w.request(w.next(nil, prints(alice)(w))), w.rita.votes(recovery))
			require.NoError(w.t, w.executor().execute(w.ctx, first.ID))
			w.arm()
			err := w.executor().execute(w.ctx, second.ID)
			require.Equal(w.t, op.StateRefused, w.stepOf(second.ID).State)
			return err
		}},
	reserved("S22a", "adds a recovery key", func(w *world) []string { return []string{w.mallory.line(recovery)} }, none),
	reserved("S22b", "removes a recovery key for another", func(w *world) []string { return []string{w.mallory.line(recovery)} }, prints(rita)),
	reserved("S22c", "adds a CA", func(w *world) []string {
		return []string{mint.Ed25519(w.t, "evil").Line("*", "cert-authority,"+lineOptions(operational))}
	}, none),
	reserved("S22d", "removes a CA", none, func(w *world) []string { return []string{theCA(w).Fingerprint()} }),
	reserved("S22e", "makes an operator recovery too", func(w *world) []string { return []string{w.alice.line("operational@gated,recovery@gated")} }, prints(alice)),
	reserved("S22f", "makes a CA's key a person's", func(w *world) []string { return []string{theCA(w).Line("x@example.com", lineOptions(operational))} },
		func(w *world) []string { return []string{theCA(w).Fingerprint()} }),
	reserved("S22g", "removes an operator and, with it, a recovery key", func(w *world) []string {
		return []string{w.mallory.line(recovery)}
	}, prints(bob, rita)),
	{id: "S22h", what: "the coordination role signs the rotation of a coordinator", want: refusal.RoleDenied, run: func(w *world) error {
		r := w.request(w.next([]string{w.mallory.line(coordination)}, nil))
		w.arm()
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, w.carol.votes(coordination), w.alice.votes(operational))), refusal.RoleDenied)
		return failure(w.signs(r, w.carol.votes(coordination)))
	}},
	few("S22i", "a rotation of operators where some destroy takes two of them: one signs", 1,
		func(w *world) op.Ask { return w.next(nil, prints(bob)(w)) }, func(w *world) []vote { return []vote{w.alice.votes(operational)} }),
	few("S22j", "a rotation of operators: one signs, and the key that is added", 1,
		func(w *world) op.Ask { return w.next([]string{w.mallory.line(operational)}, nil) },
		func(w *world) []vote { return []vote{w.alice.votes(operational), w.mallory.votes(operational)} }),
	few("S22k", "a rotation that makes a manager: two operators sign, and the key that is added", 1,
		func(w *world) op.Ask { return w.next([]string{w.mallory.line(manager)}, nil) },
		func(w *world) []vote {
			return []vote{w.alice.votes(operational), w.bob.votes(operational), w.mallory.votes(manager)}
		}),
	few("S22l", "a rotation that removes the manager, for another: two operators sign", 1,
		func(w *world) op.Ask { return w.next([]string{w.mallory.line(manager)}, prints(mona)(w)) },
		func(w *world) []vote {
			return []vote{w.alice.votes(operational), w.bob.votes(operational), w.mallory.votes(manager)}
		}),
	few("S22m", "a rotation that makes an operator a manager too: he signs for both, and nobody else", 1,
		func(w *world) op.Ask {
			return w.next([]string{w.alice.line("operational@gated,manager@gated")}, prints(alice)(w))
		},
		func(w *world) []vote {
			return []vote{w.alice.votes(operational), w.bob.votes(operational), w.alice.votes(manager)}
		}),
}

func mona(w *world) key { return keyOf(w.t, "mona") }
