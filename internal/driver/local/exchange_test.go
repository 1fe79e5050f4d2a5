package local

import (
	"os"
	"strings"
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
	err := g.write(s, nil)
	require.ErrorIs(t, err, refusal.Oversized)
	require.False(t, driver.IsUnknown(err) || driver.IsTransient(err))
	require.Equal(t, before, w.hash())
	require.True(t, w.observe("web").Present)
}

// TestAHandThatWritesAtTheLastMoment: what a hand wrote after the driver's last read stays, by a rename or in place, and the step runs
// again on another look.
func TestAHandThatWritesAtTheLastMoment(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		w := newWorld(t)
		w.do("create", "web", "memory", int64(64))
		g := must.Get(w.d.openGuest("web"))(t)
		defer g.close()
		changed := strings.Replace(w.content("web", guestFile), `"memory_mib":64`, `"memory_mib":99`, 1)
		require.NotEqual(t, changed, w.content("web", guestFile))
		s, name := g.spec, w.path("web", guestFile)
		s.CPUs = 2
		if !inPlace {
			name += ".new"
		}
		require.NoError(t, os.WriteFile(name, []byte(changed), 0o600))
		if !inPlace {
			require.NoError(t, os.Rename(name, w.path("web", guestFile)))
		}
		err := g.write(s, g.asSeen)
		require.ErrorIs(t, err, refusal.StaleTarget)
		require.True(t, driver.IsTransient(err))
		require.Equal(t, changed, w.content("web", guestFile))
		require.NoFileExists(t, w.path("web", stagePrefix+guestFile))
		require.EqualValues(t, 99, w.observe("web").Spec.Int("memory"))
		w.do("set-config", "web", "cpus", int64(2))
		require.EqualValues(t, 99, w.observe("web").Spec.Int("memory"))
		require.EqualValues(t, 2, w.observe("web").Spec.Int("cpus"))
	}
}
