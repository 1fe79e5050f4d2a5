package journal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/log/journal"
)

func TestRangesOfJobs(t *testing.T) {
	for _, c := range []struct {
		jobs []op.JobID
		want []journal.Range
	}{
		{nil, nil},
		{[]op.JobID{0}, []journal.Range{{First: 0, Last: 0}}},
		{[]op.JobID{4}, []journal.Range{{First: 4, Last: 4}}},
		{[]op.JobID{1, 2, 3, 5, 7, 8}, []journal.Range{{First: 1, Last: 3}, {First: 5, Last: 5}, {First: 7, Last: 8}}},
	} {
		require.Equal(t, c.want, journal.RangesOf(c.jobs), c.jobs)
	}
}
