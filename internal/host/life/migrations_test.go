package life

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/gate"
	"gated/internal/host/fsck"
)

// A gate writes nothing that the database of a daemon has no place for.
func TestAllThatAGateWritesHasItsPlace(t *testing.T) {
	var all []string
	for _, m := range Migrations() {
		all = append(all, m.SQL)
	}
	for _, m := range gate.Migrations() {
		require.Contains(t, all, m.SQL, m.Name)
	}
}

// fsck misses rejections and incidents that a program of this schema, by its entry in the log, should have kept.
func TestRowsAreSinceTheSchemaThatFsckKnows(t *testing.T) {
	all := Migrations()
	require.Contains(t, all[fsck.RejectionsSchema-1].SQL, "CREATE TABLE rejections")
	require.Contains(t, all[fsck.IncidentsSchema-1].SQL, "CREATE TABLE incidents")
	for i, m := range all {
		require.Equal(t, i+1, m.Version)
	}
}
