package bench

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/programs"
)

func TestMain(m *testing.M) {
	if ok, err := MaybeFlood(os.Args[1:]); ok {
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSignedStepsUnderFloods drives the real daemon, which is always built without the
// race detector. The bound is eight times the figure of a busy machine, and the best of
// three tries counts.
func TestSignedStepsUnderFloods(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the daemon")
	}
	b := tiny(t)
	b.size = full
	b.Programs = t.TempDir()
	require.NoError(t, programs.Build(b.Programs+"/", "gated/cmd/gated"))
	for _, k := range floodKinds {
		best := float64(floodStart)
		for try := 1; best >= floodStart && try <= 3; try++ {
			took, rss, err := b.under(k)
			require.NoError(t, err, k.name)
			t.Logf("under %s a signed step took %.0f ms, and %.0f MiB were resident", k.what, took, rss)
			require.Less(t, rss, float64(floodRSS), k.name)
			best = min(best, took)
		}
		require.Less(t, best, float64(floodStart), "%s: milliseconds from approval to succeeded", k.name)
	}
}
