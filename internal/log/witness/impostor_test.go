package witness_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

// remembersNothing asserts that no file was written.
func remembersNothing(t *testing.T, d witness.Dir) {
	t.Helper()
	m := must.Get(d.Remembered(gate))(t)
	require.Nil(t, m)
}

// TestAnImpostorIsNotSeenFirst: an impostor has the id of a gate that is known at
// another address. Its head is not stored, and the gate's own head still is.
func TestAnImpostorIsNotSeenFirst(t *testing.T) {
	d := dirIn(t)
	impostor, honest := newFake(t, entries("evil", 1, 1)...), newFake(t, entries("good", 1, 120)...)
	met := 0
	new := witness.Gate{ID: gate, Host: "pve1", Address: "unix:/tmp/evil.sock", Known: of.Address, Meet: func() error { met++; return nil }}
	_, err := d.Check(context.Background(), new, impostor)
	require.ErrorIs(t, err, refusal.NotAllowed)
	r := refusal.As(err)
	require.Contains(t, r.Detail, "is known at unix:/run/gated/gated.sock, where its audit log was not seen yet")
	require.Contains(t, r.Hint, "opsign list at the address at which it is known")
	require.Zero(t, met)
	remembersNothing(t, d)
	sees(t, d, honest)

	// From now on the other address must fit the seen head.
	must.Get(d.Check(context.Background(), new, honest))(t)
	require.Equal(t, 1, met)
	must.Fail(d.Check(context.Background(), new, impostor))(t, refusal.BindingMismatch)
	require.Equal(t, 1, met, "a log that is refused is no reason to know its gate")
}

// TestNothingIsRememberedOfAGateThatIsNotMet: Meet comes before the head is stored.
func TestNothingIsRememberedOfAGateThatIsNotMet(t *testing.T) {
	d, f := dirIn(t), newFake(t, entries("a", 1, 3)...)
	g, broken := of, errors.New("read-only")
	g.Meet = func() error { return broken }
	must.Fail(d.Check(context.Background(), g, f))(t, broken)
	remembersNothing(t, d)
	g.Meet = func() error { remembersNothing(t, d); return nil }
	must.Get(d.Check(context.Background(), g, f))(t)

	// Meet is also not called if the head cannot be stored: the caller decides
	// whether that matters.
	g.Meet = func() error { t.Error("met"); return nil }
	var not *witness.NotKept
	_, err := witness.Dir{Now: d.Now}.Check(context.Background(), g, f)
	require.ErrorAs(t, err, &not)
}

// TestAFalseFirstSightIsReplaced: the head with the key that the operator names
// replaces it, and it stays as evidence.
func TestAFalseFirstSightIsReplaced(t *testing.T) {
	d, ctx := dirIn(t), context.Background()
	impostor, honest := newFake(t, entries("evil", 1, 5)...), newFake(t, entries("good", 1, 120)...)
	_, _, err := d.Replace(ctx, gate, honest.key.Public)
	require.ErrorIs(t, err, refusal.UnknownTarget, "nothing is remembered")
	sees(t, d, impostor)
	_, _, err = d.Replace(ctx, gate, honest.key.Public)
	require.ErrorIs(t, err, refusal.UnknownTarget, "never shown with that key")
	_, _, err = d.Replace(ctx, gate, impostor.key.Public)
	require.ErrorIs(t, err, refusal.Conflict)

	for range 2 {
		r := refuses(t, d, honest, refusal.BindingMismatch)
		require.Contains(t, r.Detail, "is not the one that is remembered: it is signed with another key")
		require.Contains(t, r.Detail, "key "+impostor.key.Public)
		require.Contains(t, r.Detail, "key "+honest.key.Public)
		require.Contains(t, r.Hint, "gated audit head on the gate's host itself")
		require.Contains(t, r.Hint, "opsign witness replace "+string(gate)+" --key KEY")
		require.NotContains(t, r.Hint, "forget")
		honest.grow(t, "more")
	}
	refuses(t, d, newFake(t, entries("third", 1, 500)...), refusal.BindingMismatch)
	was, is := must.Two(d.Replace(ctx, gate, honest.key.Public))(t)
	require.Equal(t, impostor.key.Public, was.Key)
	require.EqualValues(t, 121, is.Head().Size, "the largest")
	require.False(t, is.Contradiction())
	m := must.Get(d.Remembered(gate))(t, "the file is as a witness writes it")
	require.Equal(t, is, m.Head)
	require.Len(t, m.Contradictions, 3, "the false one, the first refusal, the third")
	require.Equal(t, was.Signed, m.Contradictions[1].Signed)
	require.Equal(t, witness.OtherKey, m.Contradictions[1].Why)
	require.Equal(t, is.Signed, *m.Contradictions[1].Against)

	sees(t, d, honest)
	refuses(t, d, impostor, refusal.BindingMismatch)
	honest.become(t, entries("good", 1, 120)...)
	refuses(t, d, honest, refusal.BindingMismatch)
}

// TestOneMalformedFile: it hides no evidence in other files.
func TestOneMalformedFile(t *testing.T) {
	d := dirIn(t)
	sees(t, d, newFake(t, entries("a", 1, 3)...))
	bad := []op.GateID{"00000000000000000000000000000000", "ffffffffffffffffffffffffffffffff"}
	for i, id := range bad {
		require.NoError(t, os.WriteFile(d.File(id), []byte("{}\n"), 0o600))
		all, err := d.List()
		require.ErrorIs(t, err, refusal.Malformed)
		require.Len(t, all, 1)
		require.Equal(t, gate, all[0].Head.Gate)
		for _, named := range bad[:i+1] {
			require.ErrorContains(t, err, d.File(named))
		}
	}
}
