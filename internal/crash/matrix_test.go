package crash

import (
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/crashpoint"
	"gated/internal/op"
)

// cells is which cells of the matrix run: some, so that each point and each kind
// is there, or all.
var cells = flag.String("cells", "some", "which cells of the crash matrix run: some, all")

// onlyKind is for one row of the matrix.
var onlyKind = flag.String("kind", "", "the one kind of operation to run, with every point that it reaches")

// cellsOfBench is after how many cells a new state directory is begun.
const cellsOfBench = 60

// matrix runs cells and counts them.
type matrix struct {
	t     *testing.T
	bench *bench
	runs  map[string]int // by the point's name
	kinds map[string]int // cells that ended at their point
	cells int
}

// on returns a bench with room for one more cell.
func (m *matrix) on() *bench {
	if m.bench == nil || m.bench.cells >= cellsOfBench {
		m.end()
		m.bench = newBench(m.t)
	}
	return m.bench
}

// end checks a bench as a whole, and drops it.
func (m *matrix) end() {
	if m.bench == nil {
		return
	}
	m.bench.checked.everything()
	m.bench.m().clear()
	m.bench = nil
}

// row runs a kind with the points that it passes: each as often as it is passed
// if all is so, else those that no kind was cut off at yet, and at least one.
func (m *matrix) row(k kind, all bool) {
	began, done := time.Now(), 0
	if k.alone {
		m.end()
		defer m.end()
	}
	counts := m.on().traced(k)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		for n := 1; n <= counts[name] && (all || n == 1 && m.runs[name] == 0); n++ {
			done += m.cell(k, name, n)
		}
	}
	if done == 0 {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if done == 0 {
				done += m.cell(k, name, 1)
			}
		}
	}
	m.t.Logf("%s: %d points, %d cells in %s", k.name, len(counts), done, time.Since(began).Round(time.Millisecond))
}

// cell runs one, and returns 1 if it was cut off where it should be. What a
// program does beside the operation may come before or after it, so that a point
// is not always passed as often as the last time.
func (m *matrix) cell(k kind, name string, n int) int {
	m.cells++
	if !m.on().at(k, name, n) {
		return 0
	}
	m.runs[name]++
	m.kinds[k.name]++
	return 1
}

// TestCrashMatrix has the daemon, or the command that runs in its place, end at
// each crash point with each kind of operation, and checks what must hold.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	all := *cells == "all"
	require.Contains(t, []string{"some", "all"}, *cells)
	m := &matrix{t: t, runs: map[string]int{}, kinds: map[string]int{}}
	ops := map[string]bool{}
	for i, k := range kinds() {
		ops[k.name] = true
		if *onlyKind != "" && *onlyKind != k.name || testing.Short() && i%4 > 0 {
			continue
		}
		m.row(k, all || *onlyKind != "")
		if !t.Failed() && all {
			t.Logf("reliability: killed at a crash point | %s | runs %d | lost 0 | twice 0", k.name, m.kinds[k.name])
		}
	}
	m.end()
	if *onlyKind != "" || testing.Short() {
		return
	}
	for _, spec := range op.Catalogue() {
		require.True(t, ops[spec.Name], "%s is an operation, and no kind of the matrix", spec.Name)
	}
	for _, row := range crashpoint.Table() {
		require.Positive(t, m.runs[row.Name], "no kind was cut off at %s: %s", row.Name, row.Doc)
	}
	t.Logf("%d kinds, %d points, %d cells", len(ops), len(crashpoint.Table()), m.cells)
}
