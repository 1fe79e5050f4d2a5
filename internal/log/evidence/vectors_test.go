package evidence_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
	"gated/internal/test/vectors"
)

// shown are the tamperings of which the file has cases: for each step of the verification one at the least.
var shown = []string{
	"another type", "a larger head", "a head signed with another key", "no signature of the head", "another number of an entry", "a shorter proof", "entries in another order",
	"no outcome", "no approval", "it ran as benign, unsigned", "another target in the payload", "other parameters in the log", "another host", "other facts shown",
	"another list of signers", "the signer was revoked", "no signature", "a stranger's signature", "a signature over other bytes", "a security key's flags",
	"more people were needed", "a run after the payload expired", "a run before the approval's time", "an approval after the payload expired", "another gate ran it", "another incarnation than the signed one",
}

// TestVectors: testdata/vectors/evidence.json has these cases. With -write the ones that it lacks are added. A gate's nonces and keys are random, so no two
// runs make the same.
func TestVectors(t *testing.T) {
	if *vectors.Write {
		vectors.Add(t, "evidence", vectors.File{Kind: "evidence", About: "Evidence of single steps, with the keys and heads of its reader: gated docs evidence."}, made(t))
	}
	var have []string
	for _, raw := range vectors.Read(t, "evidence").Cases {
		have = append(have, vectors.CaseName(t, raw))
	}
	for _, n := range append([]string{"approved", "rejected", "a rejection at another host", "a certificate", "a batch", "another place in a batch", "with a witness",
		"without the head of the witness", "an older head than the reader's newest", "an approval of two steps", "two runs of one step", "a rejected payload that ran", withWitness[2].name}, shown...) {
		require.Contains(t, have, n)
	}
}

func made(t *testing.T) (out []vectors.Vector) {
	add := func(n string, w *world, text, heads, says string) {
		v := &vectors.EvidenceCase{Name: vectors.Name(n), GateKey: w.key.Public, Evidence: text, Witness: heads}
		args := []string{"--gate-key", w.key.Public}
		if heads != "" {
			args = append(args, witnessFile(t, heads)...)
		}
		code, words := verify(t, text, args...)
		if says == "" {
			require.Equal(t, 0, code, words)
			end := strings.Fields(words[strings.LastIndex(strings.TrimSpace(words), "\n"):])[0]
			v.Outcome = vectors.Accepted(t, map[string]any{"step": strings.TrimSuffix(strings.Fields(words)[1], ":"), "end": end})
		} else {
			require.Equal(t, 1, code, words)
			require.Contains(t, words, says)
			v.Outcome = vectors.Refuses("", "", says)
		}
		out = append(out, v)
	}
	w := newWorld(t)
	add("approved", w, line(t, w.evidence(w.destroyed("web-1"))), "", "")
	w = newWorld(t)
	id := w.ask("web-1")
	must.Get(w.gate.Reject(t.Context(), by, id, gateworld.Rejection(t, w.gate, w.request(id), w.wall, w.alice)))(t)
	add("rejected", w, line(t, w.evidence(id)), "", "")
	d := w.evidence(id)
	d.Host = "pve9"
	add("a rejection at another host", w, line(t, d), "", "the rejection is of something else")
	ca, carol, dave := mint.Ed25519(t, "ca"), mint.Ed25519(t, "carol"), mint.Ed25519(t, "dave")
	w = newWorld(t, ca.Line("carol", `cert-authority,namespaces="operational@gated"`), dave.Line("dave", `namespaces="operational@gated,operational@batch.gated"`))
	add("a certificate", w, line(t, w.evidence(w.destroyedBy("web-1", func(payload []byte) authz.Envelope {
		signed := mint.SignWith(t, mint.Certify(ca, carol, "carol"), carol, op.Operational.Namespace(), payload)
		return authz.Envelope{Payload: payload, Signatures: []string{signed.Armored()}}
	}))), "", "")
	d = w.evidence(w.destroyedBy("web-2", func(payload []byte) authz.Envelope {
		return gateworld.BatchSigned(t, w.wall, [][]byte{[]byte("another"), payload, []byte("a third")}, dave)[1]
	}))
	add("a batch", w, line(t, d), "", "")
	d.Signatures[0].Batch.Index = 0
	add("another place in a batch", w, line(t, d), "", "the batch has other payloads")
	w = newWorld(t)
	w.destroyed("web-1")
	heads, kept := w.head()
	d = w.evidence(w.destroyed("web-2"), kept)
	add("with a witness", w, line(t, d), heads, "")
	d.Witness = nil
	add("without the head of the witness", w, line(t, d), heads, "the evidence names no head of a witness")
	newer, _ := w.head()
	add("an older head than the reader's newest", w, line(t, w.evidence(op.StepID{Job: 1, Index: 1}, kept)), heads+newer, "your file has a newer head of this gate")
	for _, c := range slices.Concat(withoutKey, withGateKey) {
		if slices.Contains(shown, c.name) {
			w, text, _ := tampered(t, c.change)
			add(c.name, w, text, "", c.says)
		}
	}
	for n, two := range map[string]func(*world) string{"an approval of two steps": usedTwice, "two runs of one step": ranTwice, "a rejected payload that ran": rejectedAndRun} {
		w = newWorld(t)
		add(n, w, two(w), "", oneNonce)
	}
	w, text, heads := tampered(t, withWitness[2].change)
	add(withWitness[2].name, w, text, heads, withWitness[2].says)
	return out
}
