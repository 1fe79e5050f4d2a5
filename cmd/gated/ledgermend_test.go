package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/host/life"
)

// TestARepairSaysWhatItGivesUp names the approvals, and the era of another member if the ledger has one.
func TestARepairSaysWhatItGivesUp(t *testing.T) {
	r := life.Repair{EntriesThere: 11, EntriesHere: 13, Began: 5}
	r.There.Era, r.There.Last, r.Here.Number = 5, 7, 9
	require.Contains(t, givesUp(r), "the ledger has 7 groups and 11 entries of the audit log; this member has 9 groups and 13 entries")
	require.Contains(t, givesUp(r), "after group 9, that decision is lost, and its approval can count a second time")
	require.NotContains(t, givesUp(r), "era")
	r.There.Era = 6
	require.Contains(t, givesUp(r), "the ledger is in era 6, and this member began era 5: another member may have decided since")
}
