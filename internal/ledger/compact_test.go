package ledger_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/ledger"
	"gated/internal/ledger/ledgertest"
	"gated/internal/ledger/memory"
	"gated/internal/test/must"
)

// imageOf is all rows of a database, which may be open elsewhere.
func imageOf(t testing.TB, path string, migrations []store.Migration) (k store.Kept) {
	s := must.Get(store.OpenReadOnly(context.Background(), path, store.Options{Migrations: migrations}))(t)
	require.NoError(t, s.View(context.Background(), func(tx *store.Tx) (err error) {
		k, err = tx.Image(ledger.LocalNames(), ledger.MaxRows)
		return err
	}))
	require.NoError(t, s.Close())
	return k
}

func settingsOf(e ledger.Engine) ledger.Settings { return ledgertest.Keeper(e).Settings }

func follower(e ledger.Engine) *ledger.Follower { return &ledger.Follower{Settings: settingsOf(e)} }

func compact(t testing.TB, l *memory.Ledger, path string) error {
	_, _, err := ledger.Compact(context.Background(), settingsOf(l.Member()), imageOf(t, path, countedSchema))
	return err
}

// another makes a further group of a database, and closes it.
func another(t *testing.T, l *memory.Ledger, path string) {
	s := must.Get(openOn(t, path, ledgertest.Keeper(l.Member())))(t)
	require.NoError(t, s.Update(t.Context(), insertOne))
	require.NoError(t, s.Close())
}

// TestABaseStandsForItsGroups: new members begin with it, the one at its place goes on, and one before it has to be made
// anew.
func TestABaseStandsForItsGroups(t *testing.T) {
	l, path := three(t)
	old := filepath.Join(t.TempDir(), "old.db")
	must.Get(openOn(t, old, ledgertest.Keeper(l.Member())))(t).Close()
	another(t, l, path)
	require.NoError(t, compact(t, l, path))
	require.Empty(t, l.Groups())
	require.NoError(t, compact(t, l, path), "there is one of this place already")

	s := must.Get(openOn(t, filepath.Join(t.TempDir(), "new.db"), ledgertest.Keeper(l.Member())))(t)
	require.NoError(t, s.Update(t.Context(), insertOne))
	require.NoError(t, s.Close())
	require.NoError(t, ledgertest.Compare(t.Context(), l.Member(), s.Path(), countedSchema))
	another(t, l, path)
	require.Len(t, l.Groups(), 2)
	require.NoError(t, ledgertest.Compare(t.Context(), l.Member(), path, countedSchema))

	_, err := openOn(t, old, ledgertest.Keeper(l.Member()))
	require.ErrorIs(t, err, ledger.ErrBehind)
	_, err = openOn(t, old, follower(l.Member()))
	require.ErrorIs(t, err, ledger.ErrBehind)
	require.ErrorIs(t, compact(t, l, old), ledger.ErrBehind)
}

// TestAStandbyThatFollowsOverABase is at the base's place, or hears that it is behind.
func TestAStandbyThatFollowsOverABase(t *testing.T) {
	l, path := three(t)
	follow := func() *store.Store {
		//fsck:none it has no table of a gate
		s := must.Get(store.Open(t.Context(), filepath.Join(t.TempDir(), "b.db"), store.Options{Migrations: countedSchema,
			Keeper: follower(l.Member()), Follows: true, Local: ledger.LocalNames()}))(t)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	near, far := follow(), follow()
	another(t, l, path)
	must.Get(near.Follow(t.Context()))(t)
	require.NoError(t, compact(t, l, path))
	require.EqualValues(t, 4, must.Get(near.Follow(t.Context()))(t).Number)
	_, err := far.Follow(t.Context())
	require.ErrorIs(t, err, ledger.ErrBehind)
	another(t, l, path)
	require.EqualValues(t, 5, must.Get(near.Follow(t.Context()))(t).Number)
	_, err = far.Follow(t.Context())
	require.ErrorIs(t, err, ledger.ErrBehind)
}

// TestACompactionThatIsCutOff: whatever the ledger made of it, all members go on, and it can be said again.
func TestACompactionThatIsCutOff(t *testing.T) {
	for fault, kept := range map[memory.Fault]bool{memory.Lost: false, memory.InDoubt: false, memory.InDoubtKept: true} {
		l, path := three(t)
		m := l.Member()
		m.Order(fault)
		_, _, err := ledger.Compact(t.Context(), settingsOf(m), imageOf(t, path, countedSchema))
		require.Error(t, err)
		require.Equal(t, kept, len(l.Groups()) == 0)
		require.NoError(t, ledgertest.Compare(t.Context(), l.Member(), path, countedSchema))
		another(t, l, path)
		require.NoError(t, compact(t, l, path))
		require.Empty(t, l.Groups())
		require.NoError(t, ledgertest.Compare(t.Context(), l.Member(), path, countedSchema))
	}
}

// TestABaseOfADatabaseThatTheLedgerDoesNotKnow is not made.
func TestABaseOfADatabaseThatTheLedgerDoesNotKnow(t *testing.T) {
	l, path := three(t)
	l.Change(func(g []ledger.Group, era uint64) ([]ledger.Group, uint64) { return g[:2], era })
	require.ErrorIs(t, compact(t, l, path), ledger.ErrLost)
	require.Len(t, l.Groups(), 2)
	other, _ := three(t, insertOne)
	require.ErrorIs(t, compact(t, other, path), ledger.ErrForked)
	require.Len(t, other.Groups(), 3)
}

// TestAMendedLedger has the rows of one database, in a later era: members at that place go on, and others do not.
func TestAMendedLedger(t *testing.T) {
	l, path := three(t)
	same, fewer := filepath.Join(t.TempDir(), "same.db"), filepath.Join(t.TempDir(), "fewer.db")
	must.Get(openOn(t, fewer, ledgertest.Keeper(l.Member())))(t).Close()
	another(t, l, path)
	must.Get(openOn(t, same, ledgertest.Keeper(l.Member())))(t).Close()
	l.Change(func(g []ledger.Group, _ uint64) ([]ledger.Group, uint64) { return g[:2], 2 })
	_, err := openOn(t, path, ledgertest.Keeper(l.Member()))
	require.ErrorIs(t, err, ledger.ErrLost)

	era, err := ledger.Mend(t.Context(), settingsOf(l.Member()), must.Get(l.Member().Position(t.Context()))(t), imageOf(t, path, countedSchema), 9)
	require.NoError(t, err)
	require.EqualValues(t, 10, era, "the machine began era 9 once")
	another(t, l, path)
	another(t, l, same)
	_, err = openOn(t, fewer, ledgertest.Keeper(l.Member()))
	require.ErrorIs(t, err, ledger.ErrBehind)
	require.NoError(t, ledgertest.Compare(t.Context(), l.Member(), same, countedSchema))

	require.NoError(t, l.Member().End(t.Context(), must.Get(l.Member().Position(t.Context()))(t).Era))
	_, err = ledger.Mend(t.Context(), settingsOf(l.Member()), must.Get(l.Member().Position(t.Context()))(t), imageOf(t, path, countedSchema), 9)
	require.ErrorIs(t, err, ledger.ErrEnded)
}

// TestWhatTheOwnerOfTheDatabaseCanDoWithABase has the owner of the ledger's database change the base.
func TestWhatTheOwnerOfTheDatabaseCanDoWithABase(t *testing.T) {
	type rows = []byte
	var older ledger.Base
	var olderRows rows
	for _, c := range []struct {
		name         string
		base         func(b ledger.Base, body rows) (ledger.Base, rows)
		groups       func(g []ledger.Group) []ledger.Group
		active, anew error // nil: not noticed
	}{
		{name: "puts an older base back", base: func(ledger.Base, rows) (ledger.Base, rows) { return older, olderRows },
			active: ledger.ErrLost, anew: ledger.ErrNumber},
		{name: "puts an older base back, and drops the groups", base: func(ledger.Base, rows) (ledger.Base, rows) { return older, olderRows },
			groups: func([]ledger.Group) []ledger.Group { return nil }, active: ledger.ErrLost},
		{name: "puts the base of another gate of the key in its place", base: func(b ledger.Base, _ rows) (ledger.Base, rows) {
			return ofAnotherGate(t, store.Place{Number: b.Number, Era: b.Era, Digest: b.Digest})
		}, anew: ledger.ErrBase},
		{name: "changes the rows", base: func(b ledger.Base, _ rows) (ledger.Base, rows) { return b, olderRows }, anew: ledger.ErrBase},
		{name: "cuts the rows", base: func(b ledger.Base, body rows) (ledger.Base, rows) { return b, body[:len(body)-1] }, anew: ledger.ErrBase},
		{name: "changes the place", base: func(b ledger.Base, body rows) (ledger.Base, rows) { b.Digest[0] ^= 1; return b, body }, anew: ledger.ErrBase},
		{name: "drops the base", base: func(ledger.Base, rows) (ledger.Base, rows) { return ledger.Base{}, nil }, active: ledger.ErrLost, anew: ledger.ErrNumber},
		{name: "drops the groups after it", groups: func([]ledger.Group) []ledger.Group { return nil }, active: ledger.ErrLost},
		{name: "drops the first group after it", groups: func(g []ledger.Group) []ledger.Group { return g[1:] }, active: ledger.ErrLost, anew: ledger.ErrNumber},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, path := three(t)
			require.NoError(t, compact(t, l, path))
			l.ChangeBase(func(b ledger.Base, body rows) (ledger.Base, rows) { older, olderRows = b, body; return b, body })
			another(t, l, path)
			require.NoError(t, compact(t, l, path))
			another(t, l, path)
			another(t, l, path)
			if c.base != nil {
				l.ChangeBase(c.base)
			}
			if c.groups != nil {
				l.Change(func(g []ledger.Group, era uint64) ([]ledger.Group, uint64) { return c.groups(g), era })
			}
			_, err := openOn(t, path, ledgertest.Keeper(l.Member()))
			require.ErrorIs(t, err, c.active)
			_, err = openOn(t, filepath.Join(t.TempDir(), "new.db"), ledgertest.Keeper(l.Member()))
			require.ErrorIs(t, err, c.anew)
		})
	}
}

// ofAnotherGate is a base that the same key signed for another gate.
func ofAnotherGate(t *testing.T, at store.Place) (b ledger.Base, body []byte) {
	l := memory.New()
	s := settingsOf(l.Member())
	s.Gate = "00000000000000000000000000000000"
	must.Get(ledger.Mend(t.Context(), s, ledger.Position{}, store.Kept{Place: at, Schema: 1, Base: true}, 0))(t)
	b = must.Get(l.Member().Base(t.Context()))(t)
	require.NoError(t, ledger.VerifyBase(s.Gate, s.Verifier, b))
	return b, must.Get(l.Member().BaseBody(t.Context(), b))(t)
}

// TestABaseOfOtherRowsAtTheSamePlace: the member at its place looks at the signature and the place.
func TestABaseOfOtherRowsAtTheSamePlace(t *testing.T) {
	l, path := three(t)
	require.NoError(t, compact(t, l, path))
	other, elsewhere := three(t, insertOne)
	require.NoError(t, compact(t, other, elsewhere))
	other.ChangeBase(func(b ledger.Base, body []byte) (ledger.Base, []byte) {
		l.ChangeBase(func(ledger.Base, []byte) (ledger.Base, []byte) { return b, body })
		return b, body
	})
	_, err := openOn(t, path, ledgertest.Keeper(l.Member()))
	require.ErrorIs(t, err, ledger.ErrForked)
	l.ChangeBase(func(b ledger.Base, body []byte) (ledger.Base, []byte) { b.Era++; return b, body })
	_, err = openOn(t, path, ledgertest.Keeper(l.Member()))
	require.ErrorIs(t, err, ledger.ErrBase)
}
