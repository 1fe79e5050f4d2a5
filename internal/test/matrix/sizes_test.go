package matrix_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

// nested is a certificate whose CA is a certificate, and so on.
func nested(w *world, levels int) mint.Cert {
	c := doraCert(w)
	for range levels {
		outer := doraCert(w)
		outer.CABlob = c.Blob(w.t)
		c = outer
	}
	return c
}

// deep is a payload whose params are arrays in arrays.
func deep(levels int) func(text string) string {
	return func(text string) string {
		return strings.Replace(text, `"params":{}`, `"params":{"a":`+strings.Repeat("[", levels)+strings.Repeat("]", levels)+`}`, 1)
	}
}

// many returns alice's signature so many times.
func many(w *world, payload []byte, n int) authz.Envelope {
	e := authz.Envelope{Payload: payload, Signatures: make([]string, n)}
	good := w.alice.forge(w.t, operational, payload)
	for i := range e.Signatures {
		e.Signatures[i] = good
	}
	return e
}

// crowded is a good certificate with so many principals.
func crowded(n int) func(*world, *mint.Cert) {
	return func(_ *world, c *mint.Cert) {
		c.Principals = make([]string, n)
		for i := range c.Principals {
			c.Principals[i] = fmt.Sprintf("p%d@example.com", i)
		}
	}
}

// sizeRows are S17.
var sizeRows = []attack{
	rewrapped("S17a", "of 16 MiB", refusal.Oversized, func(blob []byte) string { return mint.Armor(append(blob, make([]byte, 12<<20)...), 70) }),
	rewrapped("S17b", "in lines of one character, a hundred thousand of them", refusal.Oversized, func([]byte) string {
		return mint.Armor(make([]byte, 75_000), 1)
	}),
	{id: "S17c", what: "an envelope with 10,000 signatures", want: refusal.Oversized, run: func(w *world) error {
		r := w.destroyRequest()
		w.arm()
		require.ErrorIs(w.t, w.sendOffline(many(w, r.Payload, 10_000)), refusal.Oversized)
		_, err := w.gate.Reject(w.ctx, hub, r.ID, many(w, w.rejection(r, w.alice).Payload, 10_000))
		require.ErrorIs(w.t, err, refusal.Oversized)
		return w.send(r.ID, many(w, r.Payload, 10_000))
	}},
	shaped("S17d", "arrays in arrays, 30,000 deep", refusal.Malformed, deep(30_000)),
	shaped("S17e", "arrays in arrays, a million deep", refusal.Oversized, deep(1_000_000)),
	shaped("S17f", "nothing but a million brackets", refusal.Oversized, func(string) string { return strings.Repeat("[", 1<<20) }),
	certificate("S17g", "whose CA is a certificate", refusal.Malformed, func(w *world, c *mint.Cert) { *c = nested(w, 1) }),
	certificate("S17h", "in a certificate in a certificate, ten deep", refusal.Malformed, func(w *world, c *mint.Cert) { *c = nested(w, 10) }),
	certificate("S17i", "in a certificate in a certificate, a hundred deep", refusal.Oversized, func(w *world, c *mint.Cert) { *c = nested(w, 100) }),
	certificate("S17j", "with 500 principals", refusal.UnknownSigner, crowded(500)),
	certificate("S17k", "with 10,000 principals", refusal.Oversized, crowded(10_000)),
	listedAlone("S17l", "a principal of many stars against a CA's pattern of many stars", refusal.UnknownSigner, func(w *world) string {
		return theCA(w).Line(strings.Repeat("*a", 100)+"b", "cert-authority,"+lineOptions(operational))
	}, func(w *world) vote {
		return certified(mint.Certify(theCA(w), mint.Ed25519(w.t, "dora"), strings.Repeat("a", 255)))
	}),
	{id: "S17m", what: "a rotation that adds a thousand lines", want: refusal.BadParams, run: func(w *world) error {
		var lines []string
		for i := range 1000 {
			lines = append(lines, mint.Ed25519(w.t, fmt.Sprintf("crowd-%d", i)).Line(fmt.Sprintf("p%d@example.com", i), lineOptions(operational)))
		}
		w.arm()
		return failure(w.submit(hub, w.next(lines, nil)))
	}},
	{id: "S17n", what: "an allowed_signers file and a revocation file of more than 1 MiB", want: refusal.Malformed, run: func(w *world) error {
		w.armUnlogged("the files are refused before any gate is asked")
		_, err := authz.LoadRevoked([]byte(strings.Repeat(w.mallory.print(w.t)+"\n", authz.MaxRevoked/40)))
		require.ErrorIs(w.t, err, refusal.Malformed)
		return failure(authz.LoadTrust([]byte(strings.Repeat(w.mallory.line(operational), authz.MaxTrust/100))))
	}},
}

// TestOversizedTakesLittleMemory is the other half of S17: what is refused for
// its size is refused before it is copied or decoded. It runs alone, since it
// looks at all that the process takes.
func TestOversizedTakesLittleMemory(t *testing.T) {
	w := newWorld(t)
	r := w.destroyRequest()
	armor := mint.Armor(make([]byte, 12<<20), 70)
	payload := []byte(strings.Repeat("[", 16<<20))
	good := w.alice.forge(t, operational, r.Payload)
	for what, e := range map[string]authz.Envelope{
		"16 MiB of armor":                {Payload: r.Payload, Signatures: []string{armor}},
		"16 MiB of armor beside another": {Payload: r.Payload, Signatures: []string{good, armor}},
		"16 MiB of payload":              {Payload: payload, Signatures: []string{good}},
		"10,000 signatures":              many(w, r.Payload, 10_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, err := range []error{w.send(r.ID, e), w.sendOffline(e)} {
			require.ErrorIs(t, err, refusal.Oversized, what)
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), what)
	}
	require.Equal(t, op.StatePending, w.stepOf(r.ID).State)
}
