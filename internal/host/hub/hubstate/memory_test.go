package hubstate

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/test/must"
)

func all(context.Context, string) error { return nil }

// TestReportsAreBounded: all of them together, by what it takes to keep them.
func TestReportsAreBounded(t *testing.T) {
	short := `{"host":"pve1","guests":[` + strings.Repeat("{},", 499) + `{}],"operations":[` + strings.Repeat("{},", 499) + `{}],"requests":[{}`
	for i := range 499 {
		short += `,{"request":"` + strconv.Itoa(i) + `"}`
	}
	short += "]}"
	for name, body := range map[string][]byte{"long": make([]byte, hub.MaxReport), "short": []byte(short)} {
		report := hub.Report{}
		if name == "short" {
			report = must.Get(hub.DecodeReport(body, "pve1"))(t)
		}
		m := NewMemory(all)
		var err error
		n := 0
		for ; err == nil; n++ {
			_, err = m.Put(t.Context(), Arrived{strconv.Itoa(n), report, body, time.Unix(0, 0)})
			require.Less(t, n, 1000, name)
		}
		require.ErrorIs(t, err, refusal.OverLimit, name)
		require.Greater(t, n, 6, name)
		require.LessOrEqual(t, m.bytes, maxReports, name)
		least := cap(body) + len(report.Guests)*88 + len(report.Operations)*128 + len(report.Requests)*120
		require.LessOrEqual(t, len(m.of)*least, m.bytes, "%s: nothing is counted as less than it takes", name)
		report.Seq = 1
		_, err = m.Put(t.Context(), Arrived{"0", report, body, time.Unix(0, 0)})
		require.NoError(t, err, "one in the place of another")
	}
}
