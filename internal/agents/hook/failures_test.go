package hook

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func TestFailuresAreKeptAndCounted(t *testing.T) {
	g := newGate(t)
	require.Error(t, g.guard().Failed(KindInput, errors.New("first\nline {\"n\":1}")))
	guard := g.guard()
	guard.OnFailure = Block
	require.Error(t, guard.Failed(KindPath, errors.New("second \x1b[31m")))
	s := g.home.Status(g.now, 5)
	require.EqualValues(t, 2, s.Failures)
	require.False(t, s.Open)
	require.Equal(t, []Record{
		{Time: g.now.UTC(), Hook: "pre-tool-use", Kind: KindPath, Then: Block, Gate: g.home.gate, Detail: "second \x1b[31m"},
		{Time: g.now.UTC(), Hook: "pre-tool-use", Kind: KindInput, Then: Warn, Gate: g.home.gate, Detail: "first\nline {\"n\":1}"},
	}, s.Last)
	require.Len(t, g.home.Status(g.now, 1).Last, 1)

	b := must.Get(os.ReadFile(filepath.Join(g.home.Dir(), failuresName)))(t)
	require.Equal(t, 2, strings.Count(string(b), "\n"))
	require.NotContains(t, string(b), "\x1b")
	require.NoError(t, filepath.WalkDir(g.home.Dir(), func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, path)
		return nil
	}))
}

func TestFailuresAreBounded(t *testing.T) {
	g := newGate(t)
	long := errors.New(strings.Repeat("\x01ü", 1<<16))
	const n = 1500
	for range n {
		require.Error(t, g.guard().Failed(KindInput, long))
	}
	s := g.home.Status(g.now, 10)
	require.EqualValues(t, n, s.Failures)
	require.Len(t, s.Last, 10)
	var size int64
	entries := must.Get(os.ReadDir(g.home.Dir()))(t)
	for _, e := range entries {
		info := must.Get(e.Info())(t)
		size += info.Size()
	}
	require.Less(t, size, int64(3*maxFailures))
	require.FileExists(t, filepath.Join(g.home.Dir(), olderName))

	// Broken lines are passed over.
	f := must.Get(g.home.append(failuresName))(t)
	must.Get(f.WriteString("{\nnull\n\x00\n"))(t)
	require.NoError(t, f.Close())
	require.Equal(t, KindInput, g.home.Status(g.now, 1).Last[0].Kind)
}

// BenchmarkOpenCircuit is what a dead daemon costs.
func BenchmarkOpenCircuit(b *testing.B) {
	dir := b.TempDir()
	g := &gate{now: newGateTime, err: errAway, home: HomeOf(func(string) string { return dir }, "x")}
	for range tripAt {
		g.ask(b)
	}
	b.ResetTimer()
	for b.Loop() {
		if g.ask(b) != KindOpen {
			b.Fatal("it is not open")
		}
	}
}
