package evidence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/evidencereader"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// verify and witnessFile have both readers read evidence.
var (
	verify      = evidencereader.Verify
	witnessFile = evidencereader.WitnessFile
)

func TestAnExecutedStep(t *testing.T) {
	w := newWorld(t)
	id := w.destroyed("web-1")
	code, words := verify(t, line(t, w.evidence(id)), "--gate-key", w.key.Public)
	require.Equal(t, 0, code, words)
	require.Contains(t, words, "j1.1: verified")
	require.Contains(t, words, "approved at 2026-03-01T12:00:01Z by alice as operational")
	require.Contains(t, words, "succeeded at 2026-03-01T12:00:02Z")
	require.NotContains(t, words, "NOT")
}

func TestARejectedStep(t *testing.T) {
	w := newWorld(t)
	id := w.ask("web-1")
	must.Get(w.gate.Reject(t.Context(), by, id, gateworld.Rejection(t, w.gate, w.request(id), w.wall, w.alice)))(t)
	code, words := verify(t, line(t, w.evidence(id)), "--gate-key", w.key.Public)
	require.Equal(t, 0, code, words)
	require.Contains(t, words, "rejected at 2026-03-01T12:00:00Z by alice as operational")
	require.NotContains(t, words, "NOT")
}

func TestAWitnessVouches(t *testing.T) {
	w := newWorld(t)
	id := w.destroyed("web-1")
	heads, kept := w.head()
	w.destroyed("web-2")
	code, words := verify(t, line(t, w.evidence(id, kept)), witnessFile(t, heads)...)
	require.Equal(t, 0, code, words)
	require.Contains(t, words, "the log goes on from the head of 7 entries that the witness saw")
	require.Contains(t, words, "NOT verified: that the gate signed the head")
}

func TestWithoutAKeyOfTheReader(t *testing.T) {
	w := newWorld(t)
	code, words := verify(t, line(t, w.evidence(w.destroyed("web-1"))))
	require.Equal(t, 2, code, words)
	require.Contains(t, words, "give the gate's public key that you know")
}
