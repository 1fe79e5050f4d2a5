package evidence_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/log/evidence"
	"gated/internal/test/evidencereader"
	"gated/internal/test/gateworld"
)

// oneNonce is what the verifier says of the second of two lines.
const oneNonce = "differ and have one nonce: one of them had no request of its own"

// onThe has the gate's key run a step on the payload and the signatures of another one.
func onThe(first evidence.Document, w *world, second evidence.Document) evidence.Document {
	own := op.SHA256(second.Payload)
	second.Payload, second.Signatures = first.Payload, first.Signatures
	forge(w, &second, func(_ string, text *string) { *text = strings.ReplaceAll(*text, own, op.SHA256(first.Payload)) })
	return second
}

// usedTwice is evidence of two steps about one guest. The second one ran on the approval of the first.
func usedTwice(w *world) string {
	first, second := w.evidence(w.destroyed("web-1")), w.evidence(w.destroyed("web-1"))
	return line(w.t, first) + line(w.t, onThe(first, w, second))
}

// ranTwice is evidence of two runs under one step's name. Each line leaves the other run out.
func ranTwice(w *world) string {
	id := w.destroyed("web-1")
	first, second := w.evidence(id), w.evidence(id)
	forge(w, &second, func(kind string, text *string) {
		if kind == "dispatched" || kind == "succeeded" {
			replace(text, "12:00:02Z", "12:00:09Z")
		}
	})
	return line(w.t, first) + line(w.t, second)
}

// rejectedAndRun is evidence of a rejected step and of another one, which ran with its payload.
func rejectedAndRun(w *world) string {
	ran := w.evidence(w.destroyed("web-1"))
	id := w.ask("web-1")
	signed := gateworld.Signed(w.t, w.request(id).Payload, w.alice)
	w.reject(id)
	no := w.evidence(id)
	asSigned := no
	asSigned.Signatures = []evidence.Signature{{Armor: signed.Signatures[0]}}
	return line(w.t, no) + line(w.t, onThe(asSigned, w, ran))
}

// TestOneNonceOfTwoLines: evidence of one step does not show that its payload was used for another run. Evidence of both does.
func TestOneNonceOfTwoLines(t *testing.T) {
	for name, c := range map[string]struct {
		live func(*world) string
		says string
	}{
		"an approval of two steps":    {usedTwice, "NOT VERIFIED: j2.1 and j1.1 of evidence "},
		"two runs of one step":        {ranTwice, "NOT VERIFIED: j1.1 and j1.1 of evidence "},
		"a rejected payload that ran": {rejectedAndRun, "NOT VERIFIED: j1.1 and j2.1 of evidence "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			both := c.live(w)
			for one := range strings.Lines(both) {
				code, words := verify(t, one, "--gate-key", w.key.Public)
				require.Equal(t, 0, code, "%s\nthe page says that one file alone does not show this", words)
			}
			code, words := verify(t, both, "--gate-key", w.key.Public)
			require.Equal(t, 1, code, words)
			require.Contains(t, words, c.says+oneNonce)
		})
	}
}

// TestEvidenceTwice: a step of which there is evidence twice, and two steps with approvals of their own, are verified.
func TestEvidenceTwice(t *testing.T) {
	w := newWorld(t)
	first, second, third := w.destroyed("web-1"), w.destroyed("web-1"), w.ask("web-1")
	w.reject(third)
	honest := ""
	for _, id := range []op.StepID{first, second, third, first, third} {
		honest += line(t, w.evidence(id))
	}
	code, words := verify(t, honest, "--gate-key", w.key.Public)
	require.Equal(t, 0, code, words)
	require.NotContains(t, words, "NOT VERIFIED")
}

// TestOneNonceOfTwoFiles: the verifier names both files, because it cannot know which of them is the honest one.
func TestOneNonceOfTwoFiles(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	honest, forged, _ := strings.Cut(strings.TrimSpace(usedTwice(w)), "\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "j2"), []byte(honest), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "j10"), []byte(forged), 0o600))
	script, err := filepath.Abs("../../../scripts/verify-evidence.py")
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), evidencereader.Python(t), script, "--gate-key", w.key.Public, ".")
	c.Dir = dir
	out, err := c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "./j2: NOT VERIFIED: j1.1 and j2.1 of ./j10 "+oneNonce)
}
