package local

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// TestSweepLooksAgain: between a sweep's look and its delete, a guest is brought back and
// destroyed again. It has the same name in the trash and must be kept for its whole time.
func TestSweepLooksAgain(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.write("precious", "web", dataDir, "file")
	inc := w.observe("web").Incarnation
	w.do("destroy", "web")
	w.pass(2 * DefaultTrashKeep)

	unlock := w.d.names.lock("web") // a step on web is running
	swept := make(chan error, 1)
	go func() { swept <- w.d.Sweep(w.ctx) }()
	waitFor(t, "the sweep waits for the name", func() bool {
		w.d.names.mu.Lock()
		defer w.d.names.mu.Unlock()
		return w.d.names.held["web"].users == 2
	})
	require.NoError(t, w.d.undelete(w.ctx, trashName("web", inc), target("web")))
	g := must.Get(w.d.openGuest("web"))(t)
	defer g.close()
	must.Get(w.d.destroy(w.ctx, g))(t)
	unlock()

	require.NoError(t, <-swept)
	w.do("undelete", "web")
	require.Equal(t, inc, w.observe("web").Incarnation)
	require.Equal(t, "precious", w.content("web", dataDir, "file"))
}

// TestSweepOfWhatWasBroughtBack: there is nothing to delete, and that is no error.
func TestSweepOfWhatWasBroughtBack(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	id := trashName("web", w.observe("web").Incarnation)
	require.Empty(t, must.Get(w.d.beginPurge(w.ctx, id, "web", w.clock()))(t))
	require.True(t, w.observe("web").Present)
}
