package crash

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/postgres"
)

// ledgerPoints are the moments of a group that is kept in a ledger: captured, sent, acknowledged, committed.
var ledgerPoints = []string{"ledger.captured", "ledger.sent", "ledger.acknowledged", "store.committed"}

// TestCrashMatrixOnALedger has the daemon end at each of these with what its callers ask, over a ledger in PostgreSQL with
// a synchronous standby. The kinds that stop a gate are not there: such a gate refuses some, and starts have a lease. Each
// kind has one of the points, in turn; -cells all has each kind with each.
func TestCrashMatrixOnALedger(t *testing.T) {
	t.Parallel()
	pair := postgres.NewPair(t)
	m := &matrix{t: t, store: pair.DSN(), runs: map[string]int{}, by: map[string]map[string]bool{}}
	all := slices.Concat(guestKinds(), dataKinds(), decisionKinds(), agentKinds())
	all = slices.DeleteFunc(all, func(k kind) bool { return k.alone || k.launches || k.recover != nil })
	for i, k := range all {
		if *onlyKind != "" && *onlyKind != k.name || testing.Short() && i%4 > 0 {
			continue
		}
		of := &figures{name: k.name + ", on a ledger"}
		m.kinds = append(m.kinds, of)
		counts := m.on().traced(k, of)
		for j, point := range ledgerPoints {
			require.Positive(t, counts[point], "%s does not pass %s", k.name, point)
			if *cells == "all" || j == i%len(ledgerPoints) {
				m.cell(k, of, point, 1)
			}
		}
	}
	m.end()
	for _, f := range m.kinds {
		t.Logf("reliability: killed at a crash point | %s | runs %d | lost %d | twice %d", f.name, f.runs, f.lost, f.twice)
	}
	if *onlyKind == "" && !testing.Short() {
		for _, point := range ledgerPoints {
			require.Positive(t, m.runs[point], "no kind was cut off at %s", point)
		}
	}
	t.Logf("%d kinds, %d cells", len(m.kinds), m.cells)
}
