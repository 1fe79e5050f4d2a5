package crash

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// seed makes a failure repeatable as far as the scheduler lets it.
const seed = 20261121

func TestFiftyKills(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 5
	}
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	for i := range kills {
		d := start(t, w.state, w.socket)
		if i > 0 {
			w.check(d)
		}
		w.live(d, r, 1+r.IntN(20))
		if t.Failed() {
			t.Fatalf("after kill %d (seed %d)", i+1, seed)
		}
	}
	d := start(t, w.state, w.socket)
	w.check(d)
	d.stop(t)
	require.NotEmpty(t, w.approved, "the story has to reach an approval, or it shows nothing")
	require.NotEmpty(t, w.made)
	t.Logf("%d kills; %d jobs, %d guests and %d approvals were acknowledged, none lost, none counted twice",
		kills, len(w.jobs), len(w.made), len(w.approved))
}

// TestTheCheckCanFail takes things away behind the daemon's back: the check that
// the other test relies on has to see it.
func TestTheCheckCanFail(t *testing.T) {
	w := newWorld(t)
	d := start(t, w.state, w.socket)
	require.NoError(t, w.create(t.Context(), d.client))
	w.check(d)
	require.NoError(t, w.lost("g1"))
	trash := filepath.Join(w.state, "guests", ".trash", "g1~somehow")
	require.NoError(t, os.Rename(filepath.Join(w.state, "guests", "g1"), trash))
	require.Error(t, w.lost("g1"), "in the trash, and nobody signed for it")
	w.tried["g1"] = true
	require.NoError(t, w.lost("g1"))
	require.NoError(t, os.WriteFile(filepath.Join(trash, "data", "precious"), []byte("other"), 0o600))
	require.Error(t, w.lost("g1"), "it is not what it was")
	require.NoError(t, os.RemoveAll(trash))
	require.Error(t, w.lost("g1"), "it is nowhere")
	d.stop(t)
}
