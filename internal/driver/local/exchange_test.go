package local

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

// A rename goes by name. If it moved another thing than meant, that thing goes back whole. An
// intruder can cause this by exchanging two guests during a destroy.
func TestWhatWasExchangedGoesBack(t *testing.T) {
	setUp := func(t *testing.T) (w *world, meant entry) {
		w = newWorld(t)
		w.do("create", "web")
		w.do("create", "bystander")
		w.write("precious", "bystander", dataDir, "file")
		meant = must.Get(w.d.root.stat("web"))(t)
		require.NoError(t, os.Rename(w.path("web"), w.path(stagePrefix+"aside")))
		require.NoError(t, os.Rename(w.path("bystander"), w.path("web")))
		return w, meant
	}
	intact := func(t *testing.T, w *world, name string) {
		require.Equal(t, "precious", w.content(name, dataDir, "file"))
		require.Empty(t, entries(t, w.path(trashDir)))
	}
	t.Run("to the trash", func(t *testing.T) {
		w, meant := setUp(t)
		rec := trashed{Name: "web", Incarnation: "x", What: wholeGuest, DestroyedAt: w.clock(), Until: w.clock().Add(time.Hour)}
		committed, err := w.d.put(w.d.root, "web", meant, "web~x", rec)
		require.ErrorIs(t, err, refusal.StaleTarget)
		require.False(t, committed)
		intact(t, w, "web")
	})
	t.Run("a guest that could not be started", func(t *testing.T) {
		w, meant := setUp(t)
		err := w.d.unmake(w.ctx, op.Target{Kind: "guest", Name: "web"}, stagePrefix+"x", meant)
		require.ErrorIs(t, err, refusal.StaleTarget)
		intact(t, w, "web")
	})
}

func TestAGuestFileStaysReadable(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	before := w.hash()
	big := make([]byte, maxSmallFile)
	for i := range big {
		big[i] = 'x'
	}
	g := must.Get(w.d.openGuest("web"))(t)
	defer g.close()
	s := g.spec
	s.Labels = map[string]string{"a": string(big)}
	err := g.write(s)
	require.ErrorIs(t, err, refusal.Oversized)
	require.False(t, driver.IsUnknown(err) || driver.IsTransient(err))
	require.Equal(t, before, w.hash())
	require.True(t, w.observe("web").Present)
}
