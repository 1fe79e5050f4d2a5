package service

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// TestWhatConcerns: what one did, what is said to concern it, and what became of
// its wishes; nothing of whoever has a name that looks like it.
func TestWhatConcerns(t *testing.T) {
	//fsck:none entries by hand, for what they say alone
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: gate.Migrations(), Rehearse: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	builder := op.Requester{Source: op.SourceAPI, UID: 1000, Agent: "builder#7"}
	bare := op.Requester{Source: op.SourceAPI, UID: 1000}
	entries := []audit.Entry{
		{By: "agent:builder#7", Kind: audit.Planned},                              // 1
		{By: "agent:builder#8", Kind: audit.Planned},                              // 2: the next one of the name
		{By: "agent:builder2#9", Kind: audit.Planned},                             // 3
		{By: "gate", Kind: audit.Orphaned, For: []string{"tester", "builder"}},    // 4
		{By: "gate", Kind: audit.Expired, Job: "j1"},                              // 5: builder wants it
		{By: "gate", Kind: audit.Expired, Job: "j2"},                              // 6: the bare uid does
		{By: "uid:1000", Kind: audit.Planned},                                     // 7
		{By: "builder", Kind: audit.Planned, Detail: "agent:builder#7", Job: "x"}, // 8: nobody's, and no job
		{By: "uid:1000@node2", Kind: audit.Planned},                               // 9
		{By: "gate", Kind: audit.Expired, Job: "j3"},                              // 10: uid 1000 of node2 wants it
	}
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		for _, by := range []op.Requester{builder, bare, {Source: op.SourceAPI, UID: 1000, Set: "node2"}} {
			if _, err := journal.NewJob(tx, by, "", time.Unix(1, 0)); err != nil {
				return err
			}
		}
		_, err := audit.Append(tx, entries...)
		return err
	}))
	l := &Log{store: s}
	for who, want := range map[string]string{"builder": "[1 2 4 5]", "tester": "[4]", "uid:1000": "[6 7]", "uid:1000@node2": "[9 10]", "uid:1000@node1": "[]", "gate": "[]", "uid:10": "[]", "builder#7": "[]"} {
		got := []int64{}
		// The cursor goes on where nothing is found, and stands still at the end.
		next := int64(0)
		for {
			list, after := must.Two(l.Events(t.Context(), next, 3, 0, who))(t)
			require.GreaterOrEqual(t, after, next)
			for _, e := range list {
				got = append(got, e.Seq)
				require.Greater(t, e.Seq, next)
				require.LessOrEqual(t, e.Seq, after)
			}
			if after == next {
				require.Empty(t, list)
				break
			}
			next = after
		}
		require.EqualValues(t, len(entries), next)
		require.Equal(t, want, fmt.Sprint(got), who)
	}
}
