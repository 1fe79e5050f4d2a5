package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/ledger"
)

// TestARepairSaysWhatItGivesUp names the approvals, and the era of another member if the ledger has one.
func TestARepairSaysWhatItGivesUp(t *testing.T) {
	r := life.Repair{LedgerState: life.LedgerState{There: ledger.Position{Era: 5, Last: 7}, Here: store.Place{Number: 9}}, EntriesThere: 11, EntriesHere: 13, Began: 5}
	require.Contains(t, givesUp(r), "the ledger has 7 groups and 11 entries of the audit log; this member has 9 groups and 13 entries")
	require.Contains(t, givesUp(r), "after group 9, that decision is lost, and its approval can count a second time")
	require.NotContains(t, givesUp(r), "era")
	r.There.Era = 6
	require.Contains(t, givesUp(r), "the ledger is in era 6, and this member began era 5: another member may have decided since")
}
