package crash

import (
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
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
	store string // where the ledger is; "" is nowhere
	bench *bench
	runs  map[string]int             // by the point's name
	by    map[string]map[string]bool // which kinds were cut off there
	kinds []*figures
	cells int
}

// figures are what came of a kind.
type figures struct {
	name        string
	runs        int // cells that were cut off at their point
	lost, twice int // findings
}

// count sorts findings by what they say. None is let pass: where it is not that
// something happened twice, something is lost.
func (f *figures) count(wrong []string) {
	for _, w := range wrong {
		if strings.Contains(w, "twice") || strings.Contains(w, "after its end") || strings.Contains(w, "a replay") {
			f.twice++
		} else {
			f.lost++
		}
	}
}

// on returns a bench with room for one more cell.
func (m *matrix) on() *bench {
	if m.bench == nil || m.bench.cells >= cellsOfBench {
		m.end()
		m.bench = newBench(m.t, m.store)
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
	of := &figures{name: k.name}
	m.kinds = append(m.kinds, of)
	counts := m.on().traced(k, of)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		for n := 1; n <= counts[name] && (all || n == 1 && m.runs[name] == 0); n++ {
			done += m.cell(k, of, name, n)
		}
	}
	if done == 0 {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if done == 0 {
				done += m.cell(k, of, name, 1)
			}
		}
	}
	m.t.Logf("%s: %d points, %d cells in %s", k.name, len(counts), done, time.Since(began).Round(time.Millisecond))
}

// cell runs one, and returns 1 if it was cut off where it should be. What a
// program does beside the operation may come before or after it, so that a point
// is not always passed as often as the last time.
func (m *matrix) cell(k kind, of *figures, name string, n int) int {
	m.cells++
	if !m.on().at(k, of, name, n) {
		return 0
	}
	if m.by[name] == nil {
		m.by[name] = map[string]bool{}
	}
	m.by[name][k.name] = true
	m.runs[name]++
	of.runs++
	return 1
}

// report says what docs/reliability.md shows.
func (m *matrix) report() {
	for _, f := range m.kinds {
		m.t.Logf("reliability: killed at a crash point | %s | runs %d | lost %d | twice %d", f.name, f.runs, f.lost, f.twice)
	}
	for _, row := range crashpoint.Table() {
		m.t.Logf("crash point: %s | %d | %d | %d | %s", row.Name, len(m.by[row.Name]), len(m.kinds)-len(m.by[row.Name]), m.runs[row.Name], row.Doc)
	}
}

// TestCrashMatrix has the daemon, or the command that runs in its place, end at
// each crash point with each kind of operation, and checks what must hold.
// elsewhere are the operations that guests which are directories do not have.
var elsewhere = map[string]bool{"guest.clone": true, "guest.disk-create": true, "guest.disk-resize": true, "guest.disk-wipe": true,
	"guest.disk-detach": true, "guest.disk-delete": true, "guest.backup": true, "guest.backup-restore": true, "guest.backup-delete": true}

func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	all := *cells == "all"
	require.Contains(t, []string{"some", "all"}, *cells)
	m := &matrix{t: t, runs: map[string]int{}, by: map[string]map[string]bool{}}
	if all {
		defer m.report()
	}
	ops := map[string]bool{}
	for i, k := range kinds() {
		ops[k.name] = true
		if *onlyKind != "" && *onlyKind != k.name || testing.Short() && i%4 > 0 {
			continue
		}
		m.row(k, all || *onlyKind != "")
	}
	m.end()
	if *onlyKind != "" || testing.Short() {
		return
	}
	for _, spec := range op.Catalogue() {
		if elsewhere[spec.Name] {
			continue
		}
		require.True(t, ops[spec.Name], "%s is an operation, and no kind of the matrix", spec.Name)
	}
	for _, row := range crashpoint.Table() {
		if strings.HasPrefix(row.Name, "ledger.") {
			continue // a daemon without a ledger does not pass it: TestCrashMatrixOnALedger
		}
		require.Positive(t, m.runs[row.Name], "no kind was cut off at %s: %s", row.Name, row.Doc)
	}
	t.Logf("%d kinds, %d points, %d cells", len(ops), len(crashpoint.Table()), m.cells)
}
