package local

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// TestALookSaysWhatIsInTheWay: a step that Prepare would refuse as the guest is now is told before anybody signs it.
func TestALookSaysWhatIsInTheWay(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.do("snapshot", "web", "snapshot", "s")
	look := func(verb string, kv ...any) op.Observed {
		l := op.Step{Op: "guest." + verb, Target: target("web"), Params: gateworld.Params(kv...)}.Look()
		return must.Get(w.d.Observe(w.ctx, l))(t)
	}
	for _, verb := range []string{"restore", "snapshot-delete"} {
		require.Equal(t, `guest/web has no snapshot "nope"`, look(verb, "snapshot", "nope").Missing)
		require.Empty(t, look(verb, "snapshot", "s").Missing+look(verb, "snapshot", "s").Cannot)
	}
	require.Contains(t, look("restart").Cannot, "no command to run")
	require.Contains(t, look("restart").Clear, "guest.set-config web -p command=NAME")
	for _, at := range []string{"data/mnt", "snapshots/s/x", ""} {
		point := w.path("web", at)
		w.d.mountinfo = func() ([]byte, error) { return []byte("1 2 0:1 / " + point + " rw - ext4 /dev/x rw\n"), nil }
		for _, verb := range []string{"destroy", "wipe", "restore"} {
			o := look(verb, "snapshot", "s")
			require.Equal(t, "guest."+verb+" would reach through the mount at "+point, o.Cannot)
			require.Equal(t, "unmount it first", o.Clear)
		}
		require.Equal(t, at == "snapshots/s/x", look("snapshot-delete", "snapshot", "s").Cannot != "", at)
		for _, verb := range []string{"start", "stop", "snapshot", "set-config"} {
			require.Empty(t, look(verb, "snapshot", "t").Cannot, verb)
		}
	}
	w.d.mountinfo = func() ([]byte, error) { return nil, os.ErrPermission }
	require.Empty(t, look("destroy").Cannot, "the step itself says that the table cannot be read")
}
