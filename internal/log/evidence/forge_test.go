package evidence_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/log/checkpoint"
	"gated/internal/log/evidence"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// TestOnePersonWithTwoKeys: the holder of the gate's key cannot count a person with two keys as two people.
func TestOnePersonWithTwoKeys(t *testing.T) {
	second := mint.Ed25519(t, "alice-laptop")
	w := newWorld(t, second.Line("alice", `namespaces="operational@gated"`))
	d := w.evidence(w.destroyed("web-1"))
	d.Signatures = append(d.Signatures, evidence.Signature{Armor: gateworld.Signed(t, d.Payload, second).Signatures[0]})
	forge(w, &d, func(kind string, text *string) {
		if kind == "approved" {
			replace(text, `"signers":[`, `"signers":["alice operational `+second.Fingerprint()+`",`)
			replace(text, `\"threshold\":1`, `\"threshold\":2`)
		}
	})
	code, words := verify(t, line(t, d), "--gate-key", w.key.Public)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "a person or a key signed twice")
}

// TestARevokedAuthority: the authority is read from the certificate, so that a log that does not name it hides nothing.
func TestARevokedAuthority(t *testing.T) {
	ca, carol := mint.Ed25519(t, "ca"), mint.Ed25519(t, "carol")
	w := newWorld(t, ca.Line("carol", `cert-authority,namespaces="operational@gated"`))
	d := w.evidence(w.destroyedBy("web-1", func(payload []byte) authz.Envelope {
		signed := mint.SignWith(t, mint.Certify(ca, carol, "carol"), carol, op.Operational.Namespace(), payload)
		return authz.Envelope{Payload: payload, Signatures: []string{signed.Armored()}}
	}))
	revoke := func(text *string) { replace(text, lost, ca.Fingerprint()) }
	for says, hide := range map[string]func(text *string){
		"a key that signed was revoked then": func(*string) {},
		notNamed:                             func(text *string) { replace(text, " ca="+ca.Fingerprint(), "") },
	} {
		forged := d
		forged.Entries = append([]evidence.Entry{}, d.Entries...)
		forge(w, &forged, func(kind string, text *string) {
			switch kind {
			case "started":
				revoke(text)
			case "approved":
				hide(text)
			}
		})
		code, words := verify(t, line(t, forged), "--gate-key", w.key.Public)
		require.Equal(t, 1, code, words)
		require.Contains(t, words, says)
	}
}

// TestTamperingWithARejection: also of a step that nobody approved, each thing that operators were shown is checked.
func TestTamperingWithARejection(t *testing.T) {
	w := newWorld(t)
	id := w.ask("web-1")
	must.Get(w.gate.Reject(t.Context(), by, id, gateworld.Rejection(t, w.gate, w.request(id), w.wall, w.alice)))(t)
	for _, c := range []tampering{
		{"another payload", func(_ *world, d *evidence.Document) {
			d.Payload = []byte(strings.Replace(string(d.Payload), "web-1", "web-9", 1))
		}, notAsked},
		{"no payload", func(_ *world, d *evidence.Document) { d.Payload = nil }, notAsked},
		{"another host", func(_ *world, d *evidence.Document) { d.Host = "pve9" }, "the rejection is of something else"},
		{"other labels", func(_ *world, d *evidence.Document) { d.Shown.Labels = `{"tier":"test"}` }, "what people were shown"},
		{"a later rejection", func(w *world, d *evidence.Document) {
			forge(w, d, func(kind string, text *string) {
				if kind == "rejected" {
					replace(text, "2026-03-01T", "2026-03-09T")
				}
			})
		}, "the rejection was not in time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := w.evidence(id)
			c.change(w, &d)
			code, words := verify(t, line(t, d), "--gate-key", w.key.Public)
			require.Equal(t, 1, code, words)
			require.Contains(t, words, c.says)
		})
	}
}

// TestSignaturesOfAStepThatWasNotApproved: the verifier says that it did not verify them.
func TestSignaturesOfAStepThatWasNotApproved(t *testing.T) {
	w := newWorld(t)
	id := w.ask("web-1")
	must.Get(w.gate.Reject(t.Context(), by, id, gateworld.Rejection(t, w.gate, w.request(id), w.wall, w.alice)))(t)
	d := w.evidence(id)
	d.Signatures = []evidence.Signature{{Armor: "no signature"}}
	code, words := verify(t, line(t, d), "--gate-key", w.key.Public)
	require.Equal(t, 0, code, words)
	require.Contains(t, words, "NOT verified: the signatures, on which no approval rests")
}

// TestAnotherGateThanTheReaders: who names a gate's key takes no other gate's log, though he kept a head of it too.
func TestAnotherGateThanTheReaders(t *testing.T) {
	w := newWorld(t)
	id := w.destroyed("web-1")
	heads, kept := w.head()
	d := w.evidence(id, kept)
	d.Head.SSH = ""
	other := must.Get(checkpoint.NewKey("ffffffffffffffffffffffffffffffff"))(t).Public
	code, words := verify(t, line(t, d), append(witnessFile(t, heads), "--gate-key", other)...)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "the head is of another gate than the key")
}

// TestWhatTheWitnessDidNotSee: with both, the reader learns for which entries the gate alone vouches.
func TestWhatTheWitnessDidNotSee(t *testing.T) {
	w := newWorld(t)
	w.destroyed("web-1")
	heads, kept := w.head()
	code, words := verify(t, line(t, w.evidence(w.destroyed("web-2"), kept)), append(witnessFile(t, heads), "--gate-key", w.key.Public)...)
	require.Equal(t, 0, code, words)
	require.Contains(t, words, "NOT verified by a witness: entries after entry 7")
}

// TestAnEmptyFile: a file that somebody emptied is not passed over.
func TestAnEmptyFile(t *testing.T) {
	w := newWorld(t)
	good := filepath.Join(t.TempDir(), "good")
	require.NoError(t, os.WriteFile(good, []byte(line(t, w.evidence(w.destroyed("web-1")))), 0o600))
	code, words := verify(t, "", "--gate-key", w.key.Public, good)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "evidence: NOT VERIFIED")
	require.Contains(t, words, "j1.1: verified")
}

// TestAModuleBesideTheVerifier: who sends files along with the evidence does not make the verifier run them.
func TestAModuleBesideTheVerifier(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	d := w.evidence(w.destroyed("web-1"))
	d.Payload = nil
	for name, text := range map[string]string{"evidence": line(t, d), "json.py": "import os\nos._exit(0)\n",
		"verify.py": string(must.Get(os.ReadFile("../../../scripts/verify-evidence.py"))(t))} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	c := exec.CommandContext(t.Context(), "python3", "verify.py", "--gate-key", w.key.Public, "evidence")
	c.Dir = dir
	out, err := c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "NOT VERIFIED")
}
