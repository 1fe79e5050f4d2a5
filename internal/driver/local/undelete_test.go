package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// TestUndeleteUnderAnotherName brings a guest back while another guest has its name. The guest
// keeps its incarnation, and the other guest does not change.
func TestUndeleteUnderAnotherName(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web", "labels", labels("tier", "prod"), "protected", true)
	w.write("precious", "web", dataDir, "file")
	before := w.observe("web")
	w.do("destroy", "web")
	w.do("create", "web")
	w.write("squatter", "web", dataDir, "file")

	w.refused(refusal.Conflict, "undelete", "web")
	w.refused(refusal.UnknownTarget, "undelete", "web-back")
	w.refused(refusal.UnknownTarget, "undelete", "web-back", "from", "we")
	w.refused(refusal.UnknownTarget, "undelete", "web-back", "from", "web", "incarnation", string(w.observe("web").Incarnation))
	w.restart()
	w.do("undelete", "web-back", "from", "web", "incarnation", string(before.Incarnation))

	back := w.observe("web-back")
	require.Equal(t, before.Incarnation, back.Incarnation)
	require.Equal(t, before.Labels, back.Labels)
	require.True(t, back.Protected)
	require.Equal(t, "precious", w.content("web-back", dataDir, "file"))
	require.Equal(t, "squatter", w.content("web", dataDir, "file"))
	require.Empty(t, entries(t, w.path(trashDir)))

	w.do("destroy", "web-back")
	require.Len(t, w.observe("web-back").Trash, 1, "the trash has it by the name that it had last")
	require.Empty(t, w.observe("web").Trash)
}

// TestALookForAnUndeleteShowsTheOldName: from the look, the gate sees which guest would come
// back.
func TestALookForAnUndeleteShowsTheOldName(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.do("destroy", "web")
	for params, want := range map[string]int{"web": 1, "we": 0, "": 0} {
		o, err := w.d.Observe(w.ctx, op.Look{Target: target("back"), Op: op.Undelete, Params: op.Params{"from": params}})
		require.NoError(t, err)
		require.Len(t, o.Trash, want, "from %q", params)
	}
	o, err := w.d.Observe(w.ctx, op.Look{Target: target("back"), Op: "guest.clone", Params: op.Params{"from": "web"}})
	require.NoError(t, err)
	require.Empty(t, o.Trash, "a clone's from is a live guest")
}

// TestCrashInUndeleteUnderAnotherName: the guest is back, and its record is still in the trash.
func TestCrashInUndeleteUnderAnotherName(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	inc := w.observe("web").Incarnation
	w.do("destroy", "web")
	w.crashed(func() {
		require.NoError(t, os.Rename(w.path(trashDir, trashName("web", inc)), w.path("back")))
	})
	require.Equal(t, inc, w.observe("back").Incarnation)
	require.Empty(t, w.observe("web").Trash)
	require.Empty(t, entries(t, w.path(trashDir)))
}

// TestSweepKeepsWhatACallerAskedFor: a guest with a request to undelete stays in the trash
// after its time. It also stays if the gate does not answer.
func TestSweepKeepsWhatACallerAskedFor(t *testing.T) {
	var wanted op.Incarnation
	var broken error
	w := newWorld(t, func(c *Config) {
		c.Wanted = func(_ context.Context, name string, inc op.Incarnation) (bool, error) {
			return name == "web" && inc == wanted, broken
		}
	})
	for _, name := range []string{"web", "db"} {
		w.do("create", name)
		w.write("precious", name, dataDir, "file")
		w.do("destroy", name)
	}
	wanted = w.observe("web").Trash[0].Incarnation
	w.pass(2 * DefaultTrashKeep)
	broken = errors.New("the journal cannot be read")
	require.ErrorIs(t, w.d.Sweep(w.ctx), broken)
	require.Len(t, w.observe("db").Trash, 1)

	broken = nil
	require.NoError(t, w.d.Sweep(w.ctx))
	require.Empty(t, w.observe("db").Trash)
	w.do("undelete", "back", "from", "web")
	require.Equal(t, "precious", w.content("back", dataDir, "file"))

	w.do("destroy", "back")
	w.pass(2 * DefaultTrashKeep)
	require.NoError(t, w.d.Sweep(w.ctx))
	require.Empty(t, w.observe("back").Trash)
}

// TestNothingPushesOthersOutOfTheTrash: an agent makes and destroys guests again and again. A
// guest that another requester destroyed before stays in the trash until the time that its
// operator saw.
func TestNothingPushesOthersOutOfTheTrash(t *testing.T) {
	w := newWorld(t)
	w.do("create", "precious")
	w.write("precious", "precious", dataDir, "file")
	w.do("destroy", "precious")
	until := w.observe("precious").Trash[0].Until
	for i := range 200 {
		w.do("create", "tmp", "labels", labels("n", fmt.Sprint(i)))
		w.write("0123456789", "tmp", dataDir, "file")
		w.do("destroy", "tmp")
		w.pass(time.Minute)
		require.NoError(t, w.d.Sweep(w.ctx))
	}
	require.Len(t, w.observe("tmp").Trash, 200)
	require.Equal(t, until, w.observe("precious").Trash[0].Until)
	w.restart()
	w.pass(until.Sub(w.clock()))
	require.NoError(t, w.d.Sweep(w.ctx))
	w.do("undelete", "precious")
	require.Equal(t, "precious", w.content("precious", dataDir, "file"))
}
