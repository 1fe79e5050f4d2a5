package witness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

func TestALogThatGrows(t *testing.T) {
	d, f := dirIn(t), newFake(t, entries("a", 1, 3)...)
	c := sees(t, d, f)
	require.True(t, c.First)
	require.EqualValues(t, 3, c.Head.Size)
	require.Equal(t, f.key.Public, c.Key)
	require.Zero(t, f.asked, "there is nothing to prove yet")
	c = sees(t, d, f)
	require.False(t, c.First)
	require.Zero(t, f.asked, "nor of a log that stood still")
	for n := 4; n < 40; n += 5 {
		f.grow(t, entries("a", n, n+4)...)
		sees(t, d, f)
	}
	require.Equal(t, 8, f.asked)
	m := must.Get(d.Remembered(gate))(t)
	require.Empty(t, m.Contradictions)
	info := must.Get(os.Lstat(m.Path))(t)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Equal(t, "2026-03-01T12:00:00Z", m.Head.Seen.Format("2006-01-02T15:04:05.999Z"), "whole seconds")
}

// TestEveryContradiction: matrix row T14, a database that was overwritten in place,
// and H07, a whole database that was made anew.
func TestEveryContradiction(t *testing.T) {
	long := entries("a", 1, 20)
	rewritten := append(append(entries("a", 1, 9), entries("b", 10, 10)...), entries("a", 11, 20)...)
	for name, c := range map[string]struct {
		why  witness.Why
		make func(*testing.T, *fake)
	}{
		"cut":                             {witness.Shorter, func(t *testing.T, f *fake) { f.become(t, long[:19]...) }},
		"rolled back":                     {witness.Shorter, func(t *testing.T, f *fake) { f.become(t, long[:5]...) }},
		"rolled back, grown to as many":   {witness.OtherRoot, func(t *testing.T, f *fake) { f.become(t, append(long[:5:5], entries("b", 6, 20)...)...) }},
		"rolled back, grown longer":       {witness.NoProof, func(t *testing.T, f *fake) { f.become(t, append(long[:5:5], entries("b", 6, 30)...)...) }},
		"rewritten in the middle":         {witness.OtherRoot, func(t *testing.T, f *fake) { f.become(t, rewritten...) }},
		"rewritten in the middle, longer": {witness.NoProof, func(t *testing.T, f *fake) { f.become(t, append(rewritten, entries("a", 21, 21)...)...) }},
		"an entry taken out, longer":      {witness.NoProof, func(t *testing.T, f *fake) { f.become(t, append(long[1:], entries("a", 21, 25)...)...) }},
		"another key": {witness.OtherKey, func(t *testing.T, f *fake) {
			f.grow(t, "more")
			f.key = newFake(t).key
		}},
		"a proof that is none": {witness.NoProof, func(t *testing.T, f *fake) {
			f.grow(t, "more")
			f.proof = func([]string, error) ([]string, error) { return nil, nil }
		}},
		"a proof that is cut off": {witness.NoProof, func(t *testing.T, f *fake) {
			f.grow(t, "more")
			f.proof = func(p []string, err error) ([]string, error) { return p[1:], err }
		}},
		"a proof that cannot be read": {witness.NoProof, func(t *testing.T, f *fake) {
			f.grow(t, "more")
			f.proof = func(p []string, err error) ([]string, error) { return append(p, "x"), err }
		}},
		"no proof": {witness.NoProof, func(t *testing.T, f *fake) {
			f.grow(t, "more")
			f.proof = func([]string, error) ([]string, error) { return nil, refusal.New(refusal.BadParams, "no") }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, f := dirIn(t), newFake(t, long...)
			was := sees(t, d, f)
			c.make(t, f)
			r := refuses(t, d, f, refusal.BindingMismatch)
			is := must.Get(f.head())(t)
			for _, h := range []checkpoint.Checkpoint{was.Head, is} {
				require.Contains(t, r.Detail, fmt.Sprintf("%d entries, root %s, seen 2026-03-01T12:00:00Z at unix:/run/gated/gated.sock", h.Size, h.Root))
			}
			require.Contains(t, r.Hint, "nothing was signed")
			m := must.Get(d.Remembered(gate))(t)
			require.Len(t, m.Contradictions, 1)
			require.Equal(t, c.why, m.Contradictions[0].Why)
			require.Equal(t, is, m.Contradictions[0].Head())
			require.Equal(t, m.Head.Signed, *m.Contradictions[0].Against)
			refuses(t, d, f, refusal.BindingMismatch) // and again
			m = must.Get(d.Remembered(gate))(t)
			require.Len(t, m.Contradictions, 1, "the same evidence once")
		})
	}
}

// TestTheHonestLogComesBack: the false log in its place stays on record.
func TestTheHonestLogComesBack(t *testing.T) {
	d, f := dirIn(t), newFake(t, entries("a", 1, 9)...)
	sees(t, d, f)
	for n := 1; n < 20; n++ {
		f.become(t, entries("b", 1, n)...)
		refuses(t, d, f, refusal.BindingMismatch)
	}
	f.become(t, entries("a", 1, 12)...)
	sees(t, d, f)
	m := must.Get(d.Remembered(gate))(t)
	require.Len(t, m.Contradictions, 16, "evidence is bounded")
	require.EqualValues(t, 1, m.Contradictions[0].Head().Size)
	require.EqualValues(t, 15, m.Contradictions[14].Head().Size)
	require.EqualValues(t, 19, m.Contradictions[15].Head().Size)
}

func TestWhatIsNoSignedHead(t *testing.T) {
	d, f := dirIn(t), newFake(t, entries("a", 1, 9)...)
	shows := func(fn func(witness.Shown) witness.Shown) { f.show = fn }
	other, err := checkpoint.NewKey("ffffffffffffffffffffffffffffffff")
	require.NoError(t, err)
	c := must.Get(f.head())(t)
	c.Gate = "ffffffffffffffffffffffffffffffff"
	foreign := must.Get(c.Sign(other))(t)

	check := func(code refusal.Code) {
		t.Helper()
		must.Fail(d.Check(context.Background(), of, f))(t, code)
	}
	all := func() {
		t.Helper()
		shows(func(s witness.Shown) witness.Shown { s.Note = strings.Replace(s.Note, "\n9\n", "\n8\n", 1); return s })
		check(refusal.BadSignature)
		shows(func(s witness.Shown) witness.Shown { s.Key = "gated"; return s })
		check(refusal.Malformed)
		shows(func(s witness.Shown) witness.Shown { s.Note, s.Key = foreign, other.Public; return s })
		check(refusal.TargetMismatch)
	}
	all() // Meet was called first
	m := must.Get(d.Remembered(gate))(t)
	require.Nil(t, m)

	// A gate that signs nothing, or not all of its log, is reported. If it signed
	// before, it is refused.
	var unsigned *witness.Unsigned
	none := func(s witness.Shown) witness.Shown { return witness.Shown{Seq: s.Seq} }
	stale := func(s witness.Shown) witness.Shown { s.Seq++; return s }
	for _, fn := range []func(witness.Shown) witness.Shown{none, stale} {
		shows(fn)
		_, err = d.Check(context.Background(), of, f)
		require.ErrorAs(t, err, &unsigned)
	}
	shows(nil)
	sees(t, d, f)
	for _, fn := range []func(witness.Shown) witness.Shown{none, stale} {
		shows(fn)
		r := refuses(t, d, f, refusal.BindingMismatch)
		require.Contains(t, r.Detail, "remembered:  9 entries")
	}
	all()
	m = must.Get(d.Remembered(gate))(t)
	require.Empty(t, m.Contradictions, "what is not signed is no evidence")
}

// TestWhatTheGateCannotAnswer: such an answer is neither a contradiction nor
// evidence.
func TestWhatTheGateCannotAnswer(t *testing.T) {
	d, f := dirIn(t), newFake(t, entries("a", 1, 9)...)
	sees(t, d, f)
	f.grow(t, "more")
	away := errors.New("away")
	for _, want := range []error{away, refusal.New(refusal.Unavailable, "busy"), refusal.New(refusal.Internal, "broken")} {
		f.proof = func([]string, error) ([]string, error) { return nil, want }
		must.Fail(d.Check(context.Background(), of, f))(t, want)
	}
	m := must.Get(d.Remembered(gate))(t)
	require.EqualValues(t, 9, m.Head.Head().Size)
	require.Empty(t, m.Contradictions)
}

// TestWhereNothingCanBeKept: a stored head is compared anyway.
func TestWhereNothingCanBeKept(t *testing.T) {
	var not *witness.NotKept
	f := newFake(t, entries("a", 1, 9)...)
	for _, path := range []string{"", filepath.Join(os.Args[0], "witness")} { // no home; a file, not a directory
		c, err := witness.Dir{Path: path, Now: dirIn(t).Now}.Check(context.Background(), of, f)
		require.ErrorAs(t, err, &not)
		require.EqualValues(t, 9, c.Head.Size)
		require.True(t, c.First)
	}
	d := dirIn(t)
	sees(t, d, f)
	lock := d.File(gate) + ".lock"
	require.NoError(t, os.Remove(lock))
	require.NoError(t, os.Symlink("elsewhere", lock))
	f.grow(t, "more")
	c, err := d.Check(context.Background(), of, f)
	require.ErrorAs(t, err, &not)
	require.False(t, c.First)
	f.become(t, entries("a", 1, 3)...)
	r := refuses(t, d, f, refusal.BindingMismatch)
	require.Contains(t, r.Detail, "could not be kept")
}

// TestManyWitnessesOfOneUser: many check a log while it grows, and a sound log never
// seems to go backwards.
func TestManyWitnessesOfOneUser(t *testing.T) {
	d, f := dirIn(t), newFake(t, entries("a", 1, 1)...)
	var all sync.WaitGroup
	f.before = func() { f.grow(t, "between") }
	for range 16 {
		all.Go(func() {
			for range 4 {
				if _, err := d.Check(context.Background(), of, f); err != nil {
					t.Error(err)
				}
				f.grow(t, "more")
			}
		})
	}
	all.Wait()
	f.before = nil
	sees(t, d, f)
}

// TestWaitingEnds: the wait ends when the caller gives up.
func TestWaitingEnds(t *testing.T) {
	d, f := dirIn(t), newFake(t, entries("a", 1, 1)...)
	ctx, cancel := context.WithCancel(context.Background())
	f.before = func() {
		g := newFake(t, entries("a", 1, 1)...)
		cancel()
		must.Fail(d.Check(ctx, of, g))(t, context.Canceled)
	}
	sees(t, d, f)
}

// TestOnlyExtensionsAreAccepted: of all possible histories, exactly those are
// accepted that begin with the stored one.
func TestOnlyExtensionsAreAccepted(t *testing.T) {
	root := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		d := witness.Dir{Path: fmt.Sprintf("%s/%d/witness", root, n), Now: func() time.Time { return noon }}
		text := rapid.SampledFrom([]string{"a", "b"})
		known := rapid.SliceOfN(text, 1, 12).Draw(rt, "known")
		f := newFake(rt, known...)
		must.Get(d.Check(context.Background(), of, f))(rt)
		for range 2 {
			next := rapid.SliceOfN(text, 1, 12).Draw(rt, "next")
			if rapid.Bool().Draw(rt, "grown") {
				next = append(append([]string{}, known...), next...)
			}
			f.become(rt, next...)
			_, err := d.Check(context.Background(), of, f)
			if len(next) >= len(known) && strings.Join(next[:len(known)], "") == strings.Join(known, "") {
				require.NoError(rt, err)
				known = next
			} else {
				require.ErrorIs(rt, err, refusal.BindingMismatch)
			}
		}
	})
}
