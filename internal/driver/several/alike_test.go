package several

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/drivertest"
	"gated/internal/test/must"
)

// No guest is made under a name that differs from another's only in case, in whichever back end the other one is.
func TestNoNameDiffersOnlyInCase(t *testing.T) {
	w, a, b := newWorld(t)
	g := newGate(t, w)
	a.Put("cache", nil)
	b.Put("db", nil)
	w.time = w.time.Add(recently)
	made := func(name, how string) error {
		o, err := w.Observe(t.Context(), op.Look{Target: guest(name), Op: how, Params: op.Params{"from": "cache"}})
		if err == nil && o.Cannot != "" {
			return refusal.New(o.CannotCode, "%s", o.Cannot).WithHint("%s", o.Clear)
		}
		return err
	}
	for _, name := range []string{"DB", "Db", "CACHE"} {
		for _, how := range []string{"guest.create", "guest.clone"} {
			err := made(name, how)
			require.ErrorIs(t, err, refusal.Conflict, name)
			require.Contains(t, refusal.As(err).Hint, "gated guests ", "the other one is named")
		}
		require.NoError(t, made(name, "guest.start"), "a look for no new guest")
		require.NoError(t, made(name, "guest.undelete"), "nobody's guest keeps another one in the trash")
	}
	for _, name := range []string{"db", "db2", "d-b"} {
		require.NoError(t, made(name, "guest.create"), name)
	}

	// What a step made counts at once, and what comes before a step runs holds that step up.
	g.Done(drivertest.Hub, op.Ask{Op: "guest.create", Target: guest("web"), Params: op.Params{}})
	require.ErrorIs(t, made("Web", "guest.create"), refusal.Conflict)
	s := g.create("mail")
	prepared := a.calls("prepare")
	b.Put("Mail", nil)
	require.ErrorIs(t, g.Execute(s.ID), refusal.Conflict)
	require.Equal(t, prepared, a.calls("prepare"))
	require.False(t, must.Get(a.Observe(t.Context(), op.At(guest("mail"))))(t).Present)
}

// A plan looks at many free names, and lists the guests once.
func TestManyLooksListOnce(t *testing.T) {
	w, a, _ := newWorld(t)
	before := a.calls("list")
	w.time = w.time.Add(recently)
	for range 3 {
		must.Get(w.Observe(t.Context(), op.Look{Target: guest("new"), Op: "guest.create", Params: op.Params{}}))(t)
	}
	require.Equal(t, before+1, a.calls("list"))
}
