package matrix_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/config"
	"gated/internal/nonce"
	"gated/internal/people/policy"
	"gated/internal/test/mint"
)

// loosened is a row in which gated.yaml has a rule that asks for less than the
// built-in ones, or for nothing.
func loosened(id, what string, rules ...string) attack {
	return attack{id: id, what: "a policy with " + what, want: refusal.Malformed, run: func(w *world) error {
		w.armUnlogged("the file is refused before any gate is asked")
		var last error
		for _, rule := range rules {
			_, last = config.Parse("gated.yaml", []byte("host: "+testHost+"\npolicy:\n  roles: [manager]\n  rules:\n    - "+rule+"\n"))
			require.ErrorIs(w.t, last, refusal.Malformed, rule)
			require.ErrorContains(w.t, last, "gated.yaml:5", "the line is named: %s", rule)
		}
		return last
	}}.on(anyGuests)
}

// laxer is a row in which a reload brings a policy that was not read from a file.
func laxer(id, what string, rules ...policy.Rule) attack {
	return attack{id: id, what: what, want: refusal.BadParams, run: func(w *world) error {
		w.two()
		w.armUnlogged("what is in force stays")
		var last error
		for _, r := range rules {
			p := w.rules
			p.Rules = []policy.Rule{r}
			last = w.gate.Reload(w.ctx, nil, p)
			require.ErrorIs(w.t, last, refusal.BadParams, "%+v", r)
		}
		require.Equal(w.t, []policy.Rule{two()}, w.gate.Policy().Rules)
		return last
	}}
}

// again is what crowd is tried with: votes that add nobody, sent to both end
// points.
func again(votes func(w *world) []vote) func(w *world, r op.Request) error {
	return func(w *world, r op.Request) error {
		e := w.by(r.Payload, votes(w)...)
		require.ErrorIs(w.t, w.sendOffline(e), refusal.ThresholdUnmet)
		return w.send(r.ID, e)
	}
}

// withLines is crowd with more lines in the trust file.
func withLines(id, what string, lines func(w *world) []string, votes func(w *world) []vote) attack {
	a := crowd(id, what, refusal.ThresholdUnmet, again(votes))
	run := a.run
	a.run = func(w *world) error {
		w.list(lines(w)...)
		return run(w)
	}
	return a
}

// as lists a key under another name.
func (k key) as(name string) string {
	return strings.Replace(k.line(operational), k.name, name+"@example.com", 1)
}

// aliceCert is a certificate of the CA over alice's key.
func aliceCert(w *world, principal string, serial uint64) vote {
	k := mint.Ed25519(w.t, "alice-certified")
	c := mint.Certify(theCA(w), k, principal)
	c.Serial = serial
	return certified(c)
}

// certifiedTwice is a row in which one person signs twice for two, in one envelope and then once more.
func certifiedTwice(id, what string, votes func(*world) (first, second, again vote)) attack {
	return attack{id: id, what: "two people are needed, " + what, want: refusal.PendingSignature, run: func(w *world) error {
		w.list(caLine(w))
		w.two()
		r := w.destroyRequest()
		first, second, again := votes(w)
		w.arm()
		got, err := w.signs(r, first, second)
		require.NoError(w.t, err)
		require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, again)), refusal.ThresholdUnmet)
		return w.unmet(1)(got, err)
	}}
}

var crowdRows = []attack{
	crowd("S16a", "the same signature again", refusal.ThresholdUnmet, again(func(w *world) []vote { return []vote{w.alice.votes(operational)} })),
	crowd("S16b", "sixteen more by her", refusal.ThresholdUnmet, again(func(w *world) []vote {
		v := w.alice.votes(operational)
		return []vote{v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v}
	})),
	withLines("S16c", "her key under a second name", func(w *world) []string { return []string{w.alice.as("alicia")} },
		func(w *world) []vote { return []vote{w.alice.votes(operational)} }),
	withLines("S16d", "her second key", func(w *world) []string { return []string{w.mallory.as("alice")} },
		func(w *world) []vote { return []vote{w.mallory.votes(operational)} }),
	{id: "S16e", what: "two people are needed, one signs twice in one envelope", want: refusal.PendingSignature, run: func(w *world) error {
		w.two()
		r := w.destroyRequest()
		w.arm()
		return w.unmet(1)(w.signs(r, w.alice.votes(operational), w.alice.votes(operational)))
	}},
	{id: "S16f", what: "two people are needed, one signs with two keys in one envelope", want: refusal.PendingSignature, run: func(w *world) error {
		w.list(w.mallory.as("alice"))
		w.two()
		r := w.destroyRequest()
		w.arm()
		return w.unmet(1)(w.signs(r, w.mallory.votes(operational), w.alice.votes(operational)))
	}},
	{id: "S16g", what: "two people are needed, an offline operation has one signature", want: refusal.PendingSignature, run: func(w *world) error {
		w.two()
		r := w.destroyRequest()
		b := w.freshPayload(r)
		w.arm()
		got, err := w.gate.ApproveOffline(w.ctx, hub, w.by(b, w.alice.votes(operational), w.alice.votes(operational)))
		require.NoError(w.t, err)
		require.ErrorIs(w.t, w.sendOffline(w.by(b, w.alice.votes(operational))), refusal.ThresholdUnmet)
		return w.unmet(1)(got, err)
	}},
	crowd("S16h", "a restart, and the driver is asked to run it", refusal.Conflict, func(w *world, r op.Request) error {
		w.restart()
		w.allow.unlogged = "asking for a permit decides nothing"
		return w.executor().execute(w.ctx, r.ID)
	}),
	crowd("S16i", "a second person who is no operator", refusal.RoleDenied, func(w *world, r op.Request) error {
		return w.send(r.ID, w.by(r.Payload, w.carol.votes("coordination@gated")))
	}),
	crowd("S16j", "an unlisted person", refusal.UnknownSigner, func(w *world, r op.Request) error {
		return w.send(r.ID, w.by(r.Payload, w.mallory.votes(operational)))
	}),
	loosened("S16k", "a threshold of 0, below 0, above the bound, missing, or no whole number", "{threshold: 0}", "{threshold: -1}",
		"{threshold: 17}", "{op: guest.destroy}", "{threshold: 1.5}", "{threshold: two}", "{threshold:}"),
	loosened("S16l", "rules that match nothing, so that they would be none", "{op: guest.vanish, threshold: 2}",
		"{target: web/*, threshold: 2}", "{role: nobody, threshold: 2}", "{role: coordination, op: guest.destroy, threshold: 1}"),
	loosened("S16m", "values that look like more and are less", "{threshold: 1, touch: maybe}", "{threshold: 1, cool_off: -1s}",
		"{threshold: 1, max_validity: 48h}", "{threshold: 1, cool_off: 24h}", `{threshold: 1, window: "22:00-22:00Z"}`, `{threshold: 1, window: "22:00-06:00"}`),
	laxer("S16n", "a reload with a threshold of 0, below 0 or missing", policy.Rule{Where: "x", Op: "guest.destroy"},
		policy.Rule{Where: "x", Threshold: -1}, policy.Rule{Where: "x", Threshold: 17}),
	withLines("S21a", "her key in a certificate with her name", certifiedLines, func(w *world) []vote {
		return []vote{aliceCert(w, "alice@example.com", 1)}
	}),
	{id: "S21b", what: "two people are needed, one key signs plain and in a certificate of another name", want: refusal.PendingSignature,
		run: func(w *world) error {
			w.list(certifiedLines(w)...)
			w.two()
			r := w.destroyRequest()
			plain := minted(mint.Ed25519(w.t, "alice-certified"))
			w.arm()
			got, err := w.signs(r, plain, aliceCert(w, "dora@example.com", 1))
			require.NoError(w.t, err)
			require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, aliceCert(w, "dora@example.com", 1))), refusal.ThresholdUnmet)
			require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, plain)), refusal.ThresholdUnmet)
			return w.unmet(1)(got, err)
		}},
	certifiedTwice("S21c", "one key is certified for two of them", func(w *world) (first, second, again vote) {
		doris := aliceCert(w, "doris@example.com", 2)
		return aliceCert(w, "dora@example.com", 1), doris, doris
	}),
	certifiedTwice("S21d", "and a certificate is renewed to sign twice", func(w *world) (first, second, again vote) {
		return aliceCert(w, "dora@example.com", 1), aliceCert(w, "dora@example.com", 2), aliceCert(w, "dora@example.com", 3)
	}),
	certifiedTwice("S21e", "one is certified with two keys", func(w *world) (first, second, again vote) {
		other := certified(mint.Certify(theCA(w), mint.ECDSA(w.t, "dora", 256), "dora@example.com"))
		return aliceCert(w, "dora@example.com", 1), other, other
	}),
	certificate("S21f", "with two principals", refusal.UnknownSigner, func(_ *world, c *mint.Cert) {
		c.Principals = []string{"dora@example.com", "doris@example.com"}
	}),
	certificate("S21g", "with one principal twice", refusal.UnknownSigner, func(_ *world, c *mint.Cert) {
		c.Principals = []string{"dora@example.com", "dora@example.com"}
	}),
	certificate("S21h", "with two principals in one", refusal.UnknownSigner, func(_ *world, c *mint.Cert) {
		c.Principals = []string{"dora@example.com,alice@example.com"}
	}),
	{id: "S16o", what: "two people sign at once, many times: both count, and the nonce is spent once", want: lostRace, run: func(w *world) error {
		w.two()
		w.armUnlogged("both are allowed")
		for range 8 {
			r := w.destroyRequest()
			both(func() { _, _ = w.signs(r, w.alice.votes(operational)) }, func() { _, _ = w.signs(r, w.bob.votes(operational)) })
			got := w.reread(r.ID)
			require.Equal(w.t, op.StateAuthorized, got.Step.State)
			require.Len(w.t, got.Signatures, 2)
			w.cancel(hub, r.ID.Job)
			w.ends(r.ID, op.StateCancelled, nonce.Used)
		}
		return lostRace
	}},
	{id: "S16p", what: "two people are needed, the request is issued anew after the first: her signature is not carried over", want: refusal.PendingSignature,
		run: func(w *world) error {
			w.two()
			r := w.mustSign(w.destroyRequest(), w.alice.votes(operational))
			w.pass(24*time.Hour + time.Minute + time.Second)
			require.NoError(w.t, w.gate.Tick(w.ctx))
			anew := w.reread(r.ID)
			require.NotEqual(w.t, r.Nonce, anew.Nonce)
			w.arm()
			require.ErrorIs(w.t, w.send(r.ID, w.by(r.Payload, w.bob.votes(operational))), refusal.Expired, "the old bytes")
			return w.unmet(1)(w.signs(anew, w.bob.votes(operational)))
		}},
}

// certifiedLines list alice's second key plainly, and a CA.
func certifiedLines(w *world) []string {
	k := mint.Ed25519(w.t, "alice-certified")
	return []string{caLine(w), fmt.Sprintf("alice@example.com %s %s\n", lineOptions(operational), k.Text())}
}
