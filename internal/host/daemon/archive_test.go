package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/host/retention"
	"gated/internal/log/audit"
)

// TestWhatHealthSaysOfSegmentFiles: a file with a problem makes it bad, whatever archiving itself does.
func TestWhatHealthSaysOfSegmentFiles(t *testing.T) {
	require.Nil(t, (&daemon{}).archiveHealth(), "a gate that archives nothing has no such check")
	bad := filesHealth(retention.FilesState{Segments: 3, Looked: true, Bad: 1, Why: "the file segment-1 is not at hand"}, "archiving is off")
	require.False(t, bad.OK)
	require.Contains(t, bad.Detail, "the file segment-1 is not at hand")
	require.Contains(t, bad.Detail, "archiving is off")
	good := filesHealth(retention.FilesState{Segments: 3, Looked: true, Read: 2}, "archiving is off")
	require.True(t, good.OK)
	require.Contains(t, good.Detail, "of 3 segment files all are there, and 2 were read")
	require.Contains(t, filesHealth(retention.FilesState{}, "").Detail, "not looked at yet")
}

// TestNobodySaysThatArchivedEntriesWereRead of a check that did not read them.
func TestNobodySaysThatArchivedEntriesWereRead(t *testing.T) {
	require.Equal(t, "verified up to entry 977 at the start", verifiedUpTo(audit.Head{Seq: 977}, audit.Head{}))
	says := verifiedUpTo(audit.Head{Seq: 977}, audit.Head{Seq: 512})
	require.Contains(t, says, "verified from entry 513 up to entry 977")
	require.Contains(t, says, "entries 1 to 512 are archived and were NOT read")
}
