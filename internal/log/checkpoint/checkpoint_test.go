package checkpoint_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
	"gated/internal/test/must"
)

const gate = op.GateID("0123456789abcdef0123456789abcdef")

// log is a Merkle tree in memory over the texts of entries.
type log struct {
	texts  []string
	hashes []tlog.Hash
}

// ReadHashes implements tlog.HashReader.
func (l *log) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		out[i] = l.hashes[at]
	}
	return out, nil
}

func (l *log) add(t require.TestingT, text string) {
	more := must.Get(tlog.StoredHashes(int64(len(l.texts)), []byte(text), l))(t)
	l.texts, l.hashes = append(l.texts, text), append(l.hashes, more...)
}

func (l *log) head(t require.TestingT, size int64) checkpoint.Checkpoint {
	root := must.Get(tlog.TreeHash(size, l))(t)
	return checkpoint.Checkpoint{Gate: gate, Size: size, Root: root}
}

func filled(t require.TestingT, n int) *log {
	l := &log{}
	for i := range n {
		l.add(t, fmt.Sprintf(`{"seq":%d}`, i+1))
	}
	return l
}

func newKey(t require.TestingT, of op.GateID) checkpoint.Key {
	return must.Get(checkpoint.NewKey(of))(t)
}

func TestSignAndOpen(t *testing.T) {
	k, c := newKey(t, gate), filled(t, 5).head(t, 5)
	text := must.Get(c.Sign(k))(t)
	got := must.Get(checkpoint.Open(text, k.Public))(t)
	require.Equal(t, c, got)
	got = must.Get(checkpoint.Read(text))(t)
	require.Equal(t, c, got)
	require.True(t, k.Of(gate))
	require.False(t, checkpoint.Key{}.Of(gate))
}

// TestEveryByteCounts: no byte of a signed checkpoint can be changed.
func TestEveryByteCounts(t *testing.T) {
	k := newKey(t, gate)
	text := must.Get(filled(t, 5).head(t, 5).Sign(k))(t)
	for i := range len(text) {
		for _, bit := range []byte{1, 0x20, 0x80} {
			other := []byte(text)
			other[i] ^= bit
			must.Err(checkpoint.Open(string(other), k.Public))(t, "byte %d: %q", i, other)
		}
		must.Err(checkpoint.Open(text[:i], k.Public))(t, "cut off at %d", i)
	}
	must.Err(checkpoint.Open(text+"x", k.Public))(t)
}

// TestFormOfAHead: a head has three lines in one form and at least one entry.
// Another text is refused even if the gate's own key signed it.
func TestFormOfAHead(t *testing.T) {
	k, root := newKey(t, gate), filled(t, 5).head(t, 5).Root.String()
	origin := checkpoint.Origin(gate)
	both := func(text string) (checkpoint.Checkpoint, error, error) {
		signed := must.Get(note.Sign(&note.Note{Text: text}, k))(t)
		read, readErr := checkpoint.Read(string(signed))
		opened, err := checkpoint.Open(string(signed), k.Public)
		require.Equal(t, read, opened, "%q", text)
		return read, readErr, err
	}
	for _, size := range []string{"1", "5", "9223372036854775807"} {
		text := origin + "\n" + size + "\n" + root + "\n"
		c, readErr, err := both(text)
		require.NoError(t, readErr)
		require.NoError(t, err)
		require.Equal(t, text, c.String())
	}
	for detail, texts := range map[string][]string{
		"it has not three lines": {
			"\n", origin + "\n", origin + "\n5\n", "5\n" + root + "\n",
			origin + "\n5\n" + root + "\nmore\n", origin + "\n5\n" + root + "\n\n", "\n" + origin + "\n5\n" + root + "\n",
		},
		"its first line does not name one": {
			string(gate) + "\n5\n" + root + "\n", origin + "0\n5\n" + root + "\n", "gated/\n5\n" + root + "\n",
		},
		"its second line is not a number of entries": {
			origin + "\n0\n" + root + "\n", origin + "\n-1\n" + root + "\n", origin + "\n-0\n" + root + "\n", origin + "\n\n" + root + "\n",
			origin + "\n+5\n" + root + "\n", origin + "\n05\n" + root + "\n", origin + "\n5 \n" + root + "\n",
			origin + "\n0x5\n" + root + "\n", origin + "\n9223372036854775808\n" + root + "\n", origin + "\nfive\n" + root + "\n",
		},
		"its third line is not a root hash": {
			origin + "\n5\n\n", origin + "\n5\n" + root[:40] + "\n", origin + "\n5\n" + root + root + "\n", origin + "\n5\n" + root[:43] + "!\n",
			origin + "\n5\n" + strings.Repeat("A", 42) + "B=\n", // bits without meaning
		},
	} {
		for _, text := range texts {
			_, readErr, err := both(text)
			for _, err := range []error{readErr, err} {
				require.ErrorIs(t, err, refusal.Malformed, "%q", text)
				require.ErrorContains(t, err, detail, "%q", text)
			}
		}
	}
	// A signed note has no carriage return, because the decoder of base64 skips it.
	_, err := checkpoint.Read(origin + "\n5\n" + root[:10] + "\r" + root[10:] + "\n\n")
	require.ErrorContains(t, err, "the one form")
	for _, text := range []string{"", origin, origin + "\n5\n" + root, origin + "\n5\n" + root + "\n"} {
		must.Fail(checkpoint.Read(text))(t, refusal.Malformed, "no signature: %q", text)
	}
}

// TestOneFormOfASignature: the last digit before the padding has bits without
// meaning. Only the digit of this key's own signature is accepted.
func TestOneFormOfASignature(t *testing.T) {
	k := newKey(t, gate)
	text := must.Get(filled(t, 5).head(t, 5).Sign(k))(t)
	head, ok := strings.CutSuffix(text, "=\n")
	require.True(t, ok, "a signature whose base64 is padded")
	last := head[len(head)-1]
	for _, digit := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		_, err := checkpoint.Open(head[:len(head)-1]+string(digit)+"=\n", k.Public)
		if digit == last {
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, "%q for %q", digit, last)
	}
}

func TestOtherKeysAndGates(t *testing.T) {
	k, c := newKey(t, gate), filled(t, 3).head(t, 3)
	text := must.Get(c.Sign(k))(t)
	_, err := checkpoint.Open(text, newKey(t, gate).Public)
	require.ErrorIs(t, err, refusal.BadSignature, "another key of the same gate's name")
	const other = op.GateID("ffffffffffffffffffffffffffffffff")
	forged := newKey(t, other)
	text = must.Get(c.Sign(forged))(t)
	_, err = checkpoint.Open(text, forged.Public)
	require.ErrorIs(t, err, refusal.Malformed, "a checkpoint of one gate under the name of another")
	must.Fail(checkpoint.Open(text, "no key"))(t, refusal.Malformed)
	both := text
	line := must.Get(c.Sign(k))(t)
	both = line + strings.SplitN(both, "\n\n", 2)[1]
	must.Fail(checkpoint.Open(both, k.Public))(t, refusal.Malformed, "a second signature beside the gate's")
}

func TestKeyFile(t *testing.T) {
	k := newKey(t, gate)
	require.Equal(t, k.Public, must.Get(checkpoint.ParseKey(k.Text()))(t).Public)
	other := newKey(t, gate)
	private, public := strings.Split(k.Text(), "\n"), strings.Split(other.Text(), "\n")
	for name, text := range map[string]string{
		"empty": "", "one line": private[0] + "\n", "halves of two": private[0] + "\n" + public[1] + "\n",
		"turned round": private[1] + "\n" + private[0] + "\n", "no line end": strings.TrimSuffix(k.Text(), "\n"), "more": k.Text() + "\n",
		"of two gates": private[0] + "\n" + newKey(t, "ffffffffffffffffffffffffffffffff").Public + "\n",
	} {
		_, err := checkpoint.ParseKey(text)
		require.ErrorIs(t, err, refusal.Malformed, name)
		require.NotContains(t, err.Error(), "PRIVATE", name)
	}
}

// TestOnlyTheSameLogContinues: a log with another past is refused with any proof.
// The true proof of the true log is accepted.
func TestOnlyTheSameLogContinues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 300).Draw(t, "size")
		old := rapid.Int64Range(1, n).Draw(t, "old")
		l := filled(t, int(n))
		proof := must.Get(tlog.ProveTree(n, old, l))(t)
		was, is := l.head(t, old), l.head(t, n)
		require.NoError(t, was.Continues(is, proof))

		forged := &log{}
		at := rapid.Int64Range(0, old-1).Draw(t, "altered")
		for i, text := range l.texts {
			if int64(i) == at {
				text += " "
			}
			forged.add(t, text)
		}
		lie := must.Get(tlog.ProveTree(n, old, forged))(t)
		require.ErrorIs(t, was.Continues(forged.head(t, n), lie), refusal.BindingMismatch)
		require.ErrorIs(t, was.Continues(forged.head(t, n), proof), refusal.BindingMismatch)
		if old < n {
			require.ErrorIs(t, is.Continues(was, proof), refusal.BindingMismatch, "cut off")
			bad := append([]tlog.Hash{}, proof...)
			bad[rapid.IntRange(0, len(bad)-1).Draw(t, "hash")][rapid.IntRange(0, 31).Draw(t, "byte")] ^= 1
			require.ErrorIs(t, was.Continues(is, bad), refusal.BindingMismatch)
			require.ErrorIs(t, was.Continues(is, proof[1:]), refusal.BindingMismatch)
		}
		another := is
		another.Gate = "ffffffffffffffffffffffffffffffff"
		require.ErrorIs(t, was.Continues(another, proof), refusal.BindingMismatch)
	})
}

func TestInclusion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 300).Draw(t, "size")
		seq := rapid.Int64Range(1, n).Draw(t, "entry")
		l := filled(t, int(n))
		head := l.head(t, n)
		proof := must.Get(tlog.ProveRecord(n, seq-1, l))(t)
		text := []byte(l.texts[seq-1])
		require.NoError(t, head.Includes(seq, text, proof))
		require.ErrorIs(t, head.Includes(seq, append(text, ' '), proof), refusal.BindingMismatch)
		require.ErrorIs(t, head.Includes(seq+1, text, proof), refusal.BindingMismatch)
		require.ErrorIs(t, head.Includes(0, text, proof), refusal.BindingMismatch)
		require.ErrorIs(t, head.Includes(seq, text, make([]tlog.Hash, checkpoint.MaxProof+1)), refusal.BindingMismatch)
		hashes := must.Get(checkpoint.DecodeHashes(checkpoint.EncodeHashes(proof)))(t)
		require.Equal(t, []tlog.Hash(proof), hashes)
	})
}

func TestHashesAsTheyTravel(t *testing.T) {
	for _, s := range []string{"", "AAAA", strings.Repeat("A", 43), strings.Repeat("A", 43) + "=\n", strings.Repeat("A", 42) + "B="} {
		must.Fail(checkpoint.DecodeHashes([]string{s}))(t, refusal.Malformed, s)
	}
	must.Fail(checkpoint.DecodeHashes(make([]string, checkpoint.MaxProof+1)))(t, refusal.Malformed)
}

func FuzzOpen(f *testing.F) {
	k := newKey(f, gate)
	text := must.Get(filled(f, 5).head(f, 5).Sign(k))(f)
	f.Add(text)
	f.Add("gated/" + string(gate) + "\n1\n")
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := checkpoint.Read(s); err == nil {
			require.True(t, strings.HasPrefix(s, c.String()+"\n"))
		}
		if _, err := checkpoint.Open(s, k.Public); err == nil {
			require.Equal(t, text, s)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add(newKey(f, gate).Text())
	f.Fuzz(func(t *testing.T, s string) {
		if k, err := checkpoint.ParseKey(s); err == nil {
			require.Equal(t, s, k.Text())
		}
	})
}

func TestWhatIsAGatesKey(t *testing.T) {
	k := newKey(t, gate)
	require.True(t, checkpoint.IsKey(k.Public))
	_, another, err := note.GenerateKey(rand.Reader, "other/log")
	require.NoError(t, err)
	for _, text := range []string{"", "x", k.Public[:len(k.Public)-4], another} {
		require.False(t, checkpoint.IsKey(text), text)
	}
}

// TestLengthOfAHead is at, and one byte above, the longest text. Read does not check signatures.
func TestLengthOfAHead(t *testing.T) {
	c := filled(t, 5).head(t, 5)
	at := c.String() + "\n"
	at += strings.Repeat("x", checkpoint.MaxText-len(at))
	require.Equal(t, c, must.Get(checkpoint.Read(at))(t))
	must.Fail(checkpoint.Read(at+"x"))(t, refusal.Malformed)
}

func TestAnotherGatesKeySignsNoHead(t *testing.T) {
	c := filled(t, 5).head(t, 5)
	must.Get(c.SignSSH(newKey(t, gate)))(t)
	for _, k := range []checkpoint.Key{newKey(t, "fedcba9876543210fedcba9876543210"), {}} {
		must.Fail(c.SignSSH(k))(t, refusal.TargetMismatch)
	}
}
