package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// counted returns a function that counts its runs and writes a row.
func counted(runs *int, k string) func(*Tx) error {
	return func(tx *Tx) error { *runs++; return put(k)(tx) }
}

func TestAFailedCallRunsItsGroupAgainWithSavepoints(t *testing.T) {
	s := tempStore(t)
	var first, last int
	errs := oneGroup(t, s, counted(&first, "a"), func(tx *Tx) error { return errors.Join(put("b")(tx), errMine) },
		counted(&last, "c"))
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], errMine)
	require.NoError(t, errs[2])
	require.Equal(t, []int{2, 1}, []int{first, last}, "what follows the failed call had not run yet")
	require.Equal(t, map[string]bool{"a": true, "c": true}, keys(t, s))
}

func TestAGroupWithoutFailuresRunsOnce(t *testing.T) {
	s := tempStore(t)
	var runs int
	require.Equal(t, []error{nil, nil}, oneGroup(t, s, counted(&runs, "a"), counted(&runs, "b")))
	require.Equal(t, 2, runs)
	require.Equal(t, map[string]bool{"a": true, "b": true}, keys(t, s))
}

func TestAfterAFailureGroupsHaveSavepointsForAWhile(t *testing.T) {
	s := tempStore(t)
	require.ErrorIs(t, s.Update(t.Context(), func(*Tx) error { return errMine }), errMine)
	failing := func() (runs int) {
		require.ErrorIs(t, s.Update(t.Context(), func(*Tx) error { runs++; return errMine }), errMine)
		return runs
	}
	for i := range carefulGroups {
		require.Equal(t, 1, failing(), "group %d", i)
	}
	require.Equal(t, 2, failing())
}

func TestWhatRunsInsteadIsKeptAlone(t *testing.T) {
	s := tempStore(t)
	require.NoError(t, s.UpdateOr(t.Context(), func(tx *Tx) error { return errors.Join(put("a")(tx), errMine) },
		func(tx *Tx, failed error) error {
			require.ErrorIs(t, failed, errMine)
			return put("instead")(tx)
		}))
	require.Equal(t, map[string]bool{"instead": true}, keys(t, s))
	require.NoError(t, s.UpdateOr(t.Context(), put("b"), func(*Tx, error) error { panic("nothing failed") }))
	require.ErrorContains(t, s.UpdateOr(t.Context(), func(*Tx) error { panic("boom") },
		func(tx *Tx, _ error) error { return put("after a panic")(tx) }), "boom")
	require.Equal(t, map[string]bool{"instead": true, "b": true}, keys(t, s))
}

func TestARehearsalKeepsNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "gated.db"), Options{Rehearse: true})
	var runs int
	require.NoError(t, s.Update(t.Context(), counted(&runs, "a")))
	require.Equal(t, 2, runs)
	var all []string
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error { all = append(all, "b"); return put("b")(tx) }))
	require.Equal(t, []string{"b", "b"}, all, "a function that adds to its results shows that it runs twice")
	require.Equal(t, map[string]bool{"a": true, "b": true}, keys(t, s))
	require.Equal(t, []error{nil, errMine}, oneGroup(t, s, put("c"), func(*Tx) error { return errMine }))
	require.Equal(t, map[string]bool{"a": true, "b": true, "c": true}, keys(t, s))
}
