package daemon_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store/storetest"
	"gated/internal/test/must"
)

func TestTheWholeLogIsVerifiedAfterTheStart(t *testing.T) {
	w := newServing(t)
	w.waiting("web")
	w.halt()
	from := len(w.log.String())
	w.serve()
	w.log.await(t, from, "the audit log is whole")
	h := w.health("audit log")
	require.True(t, h.OK)
	var upTo int64
	must.Get(fmt.Sscanf(h.Detail, "verified up to entry %d at the start", &upTo))(t, h.Detail)
	require.Positive(t, upTo)
	require.LessOrEqual(t, upTo, w.status().AuditHead.Seq)
	w.halt()
	require.NotContains(t, w.log.String(), "level=ERROR")
}

func TestALogThatWasAlteredShowsAfterTheStart(t *testing.T) {
	for name, c := range map[string]struct{ statement, says string }{
		"altered": {`UPDATE audit SET body = CAST(replace(CAST(body AS TEXT), '"seq":4', '"seq": 4') AS BLOB) WHERE seq = 4`, "audit entry 4: was altered"},
		"removed": {`DELETE FROM audit WHERE seq = 3`, "audit entry 3: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newInitialised(t)
			storetest.Breaks(t, w.database(), "audit-log")
			w.serve()
			w.waiting("web")
			w.halt()
			w.statement(c.statement)
			from := len(w.log.String())
			w.serve()
			w.log.await(t, from, "the audit log is not what was written")
			w.log.await(t, from, "level=ERROR")
			h := w.health("audit log")
			require.False(t, h.OK)
			require.Contains(t, h.Detail, c.says)
			require.Contains(t, h.Detail, "gated audit verify")
			require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "other")).State, "it goes on")
			w.halt()
		})
	}
}
