package daemon_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// TestANameIsItsOwners: who is no agent and has an operator's uid, as any orphan
// has under single_user, takes no name from a process, whatever that holds.
func TestANameIsItsOwners(t *testing.T) {
	w, dir := serving(t)
	builder := w.actor(nil)
	builder.does("register builder")
	_, err := w.client.Unregister(t.Context(), "builder")
	require.ErrorIs(t, err, refusal.NotHolder, "it holds nothing, and lives")
	require.ErrorContains(t, err, "bound to process")
	builder.does("reserve %s src/**", dir)
	builder.does("keep %s docs/", dir)
	must.Fail(w.client.Unregister(t.Context(), "builder"))(t, refusal.NotHolder)
	require.Equal(t, "builder#1", builder.does("self"))
	require.Equal(t, []string{"r1 builder", "r2 builder"}, w.reservations())
	must.Fail(w.client.Unregister(t.Context(), "nobody"))(t, refusal.UnknownTarget)
	require.Equal(t, "ok builder#1", builder.does("once unregister builder"), "whoever it started is the same agent")
	require.Equal(t, []string{"r2 builder"}, w.reservations())
	w.haltSound()
}

// TestALostTokenBlocksANameNoLongerThanItsReservations: an operator frees it when
// nothing is reserved under it, of this registration or kept from one before.
func TestALostTokenBlocksANameNoLongerThanItsReservations(t *testing.T) {
	w, dir := serving(t)
	first, boxed := w.actor(nil), w.actor(nil)
	first.does("register boxed")
	first.does("keep %s docs/", dir)
	first.does("unregister boxed")
	file := filepath.Join(w.dir, "token")
	first.does("token boxed %s", file)
	unregister := func() error { _, err := w.client.Unregister(t.Context(), "boxed"); return err }
	err := unregister()
	require.ErrorIs(t, err, refusal.NotHolder)
	require.ErrorContains(t, err, "r1")

	boxed.does("use %s", file)
	require.Equal(t, "r1", boxed.does("release r1"))
	require.Equal(t, "r2", boxed.does("reserve %s src/**", dir))
	require.ErrorIs(t, unregister(), refusal.NotHolder)
	require.Equal(t, []string{"r2 boxed"}, w.reservations())
	first.does("register other")
	first.cannot(refusal.NotHolder, "unregister boxed")
	boxed.does("release r2")
	first.cannot(refusal.NotHolder, "unregister boxed")
	require.NoError(t, unregister())
	boxed.cannot(refusal.NotAllowed, "self")
	require.Equal(t, []string{"other#3"}, w.agents())
	w.haltSound()
}

// TestUnregisterWhileItReserves: one of the two comes first, and what is reserved
// is somebody's.
func TestUnregisterWhileItReserves(t *testing.T) {
	w, dir := serving(t)
	boxed := w.actor(nil)
	for i := range 20 {
		name := fmt.Sprintf("boxed%d", i)
		file := filepath.Join(w.dir, name)
		boxed.does("use ")
		boxed.does("token %s %s", name, file)
		boxed.does("use %s", file)
		boxed.does("self") // the connection is there
		boxed.begin("reserve %s %s", dir, name)
		_, err := w.client.Unregister(t.Context(), name)
		got := boxed.line()
		if err == nil {
			require.Regexp(t, "^error not_(holder|allowed) ", got)
			continue
		}
		require.ErrorIs(t, err, refusal.NotHolder)
		boxed.does("release %s", got[len("ok "):])
	}
	require.Empty(t, w.reservations())
	w.haltSound()
}
