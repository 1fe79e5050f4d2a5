package evidence_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/checkpoint"
	"gated/internal/log/evidence"
	"gated/internal/test/evidencereader"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// TestTheNewestKeptHeadCounts: the evidence cannot choose an older head of the reader's file, because its log could contradict the newer one.
func TestTheNewestKeptHeadCounts(t *testing.T) {
	w := newWorld(t)
	w.destroyed("web-0")
	older, keptOlder := w.head()
	id := w.destroyed("web-1")
	newer, keptNewer := w.head()
	withOlder, withBoth := line(t, w.evidence(id, keptOlder)), line(t, w.evidence(id, keptOlder, keptNewer))
	larger := keptNewer.Checkpoint
	larger.Size = 100
	rolledBack := must.Get(larger.Sign(w.key))(t)
	contradiction := `{"type":"gated/witness/v1","note":` + quoted(t, rolledBack) + `,"why":"shorter","against":{"note":` + quoted(t, keptNewer.Note) + "}}\n"
	for _, c := range []struct {
		text, heads, says string
		code              int
	}{
		{withBoth, older + newer, "the witness saw", 0},
		{withBoth, newer + older, "the witness saw", 0},
		{withBoth, older + newer + contradiction, "heads in your file that contradicted a kept one: 1", 0},
		{withOlder, older + newer, "your file has a newer head of this gate, of 11 entries", 1},
		{withBoth, `{"note":` + quoted(t, rolledBack) + "}\n" + older + newer, "your file has a newer head of this gate, of 100 entries", 1},
	} {
		code, words := verify(t, c.text, append(witnessFile(t, c.heads), "--gate-key", w.key.Public)...)
		require.Equal(t, c.code, code, words)
		require.Contains(t, words, c.says)
	}
	other := keptNewer
	other.Root[0] ^= 1
	for _, c := range []struct {
		kept []evidence.Kept
		code refusal.Code
	}{
		{[]evidence.Kept{{Checkpoint: must.Get(checkpoint.Read(rolledBack))(t), Note: rolledBack}}, refusal.BindingMismatch},
		{[]evidence.Kept{keptNewer, other}, refusal.BindingMismatch},
		{[]evidence.Kept{other}, refusal.BindingMismatch},
		{[]evidence.Kept{{Checkpoint: checkpoint.Checkpoint{Gate: "00112233445566778899aabbccddeeff", Size: 1}}}, refusal.UnknownTarget},
	} {
		require.ErrorIs(t, w.store.View(t.Context(), func(tx *store.Tx) error {
			_, err := evidence.Maker{Host: "pve1", Kept: c.kept}.Job(tx, id.Job, id.Index)
			return err
		}), c.code)
	}
}

// TestTheReadersOwnFiles: each file counts, and a line that is no head is an error of the reader's file and not of the evidence.
func TestTheReadersOwnFiles(t *testing.T) {
	w := newWorld(t)
	id := w.destroyed("web-1")
	heads, kept := w.head()
	text := line(t, w.evidence(id, kept))
	larger, another := kept.Checkpoint, kept.Checkpoint
	larger.Size = 100
	another.Root[0] ^= 1
	newer := `{"note":` + quoted(t, must.Get(larger.Sign(w.key))(t)) + "}\n"
	two := `{"note":` + quoted(t, must.Get(another.Sign(w.key))(t)) + "}\n"

	code, words := verify(t, text, append(witnessFile(t, heads), witnessFile(t, newer)...)...)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "your file has a newer head of this gate, of 100 entries")
	code, words = verify(t, text, append(witnessFile(t, newer), witnessFile(t, heads)...)...)
	require.Equal(t, 1, code, words)
	code, words = verify(t, text, witnessFile(t, heads+two)...)
	require.Equal(t, 1, code, words)
	require.Contains(t, words, "it showed two logs")
	for _, bad := range []string{`{"note":"hello"}`, `{"note":["x"]}`, `{"note":null}`, `{}`, `[]`, strings.Repeat("[", 100_000),
		strings.TrimSuffix(heads, "}\n") + `,"against":null}`, strings.TrimSuffix(heads, "}\n") + `,"note":""}`} {
		code, words := verify(t, text, append(witnessFile(t, heads+bad+"\n"), "--gate-key", w.key.Public)...)
		require.Equal(t, 2, code, words)
		require.Contains(t, words, ":2: this is no line of opsign witness export")
		require.NotContains(t, words, "Traceback")
	}
	code, words = verify(t, text, "--witness", "", "--gate-key", w.key.Public)
	require.Equal(t, 2, code, words)
}

// TestANumberWithoutEnd: one line that is no evidence does not keep the next from being read.
func TestANumberWithoutEnd(t *testing.T) {
	w := newWorld(t)
	text := line(t, w.evidence(w.destroyed("web-1")))
	endless := strings.Replace(text, `[{"seq":3`, `[{"seq":1e999`, 1)
	require.NotEqual(t, text, endless)
	code, words := verify(t, endless, "--gate-key", w.key.Public)
	require.Equal(t, 1, code, words)
	require.NotContains(t, words, "Traceback")
}

// TestTheLogOfAnotherGate: after a restore the log goes on under another id. A step from before is of the gate before.
func TestTheLogOfAnotherGate(t *testing.T) {
	w := newWorld(t)
	d := w.evidence(w.destroyed("web-1"))
	c := must.Get(checkpoint.Read(d.Head.Note))(t)
	key := must.Get(checkpoint.NewKey("00112233445566778899aabbccddeeff"))(t)
	c.Gate = "00112233445566778899aabbccddeeff"
	d.Head = evidence.Head{Note: must.Get(c.Sign(key))(t), Key: key.Public, SSH: must.Get(c.SignSSH(key))(t)}
	code, words := verify(t, line(t, d), "--gate-key", key.Public)
	require.Equal(t, 0, code, words)
	require.Contains(t, words, "NOT verified: that the log of gated/"+string(gateworld.ID)+", which decided this, went on as that of gated/00112233445566778899aabbccddeeff")
}

// TestWithoutSSHKeygen: the verifier says what it lacks, and calls no evidence wrong.
func TestWithoutSSHKeygen(t *testing.T) {
	w := newWorld(t)
	text := line(t, w.evidence(w.destroyed("web-1")))
	evidencereader.Python(t)
	t.Setenv("PATH", t.TempDir())
	code, words := verify(t, text, "--gate-key", w.key.Public)
	require.Equal(t, 2, code, words)
	require.Contains(t, words, "ssh-keygen is not in PATH")
}
