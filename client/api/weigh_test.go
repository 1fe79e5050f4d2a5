package api_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// TestTokensOfABodyAreBounded: below, at and above. A body of 1 MiB of empty
// objects took 62 MiB.
func TestTokensOfABodyAreBounded(t *testing.T) {
	const around = 12 // of the object, the members op and target, params, and the array
	for n, code := range map[int]refusal.Code{api.MaxTokens - 1: "", api.MaxTokens: "", api.MaxTokens + 1: refusal.TooComplex} {
		body := `{"op":"guest.start","target":"guest/web","params":{"a":[` + strings.TrimSuffix(strings.Repeat("1,", n-around), ",") + `]}}`
		_, err := api.Weigh([]byte(body))
		if code == "" {
			require.NoError(t, err, n)
			continue
		}
		require.Equal(t, code, refusal.CodeOf(err), n)
	}
}

// TestABodyWeighsWhatItTakes: whatever its shape, what a body takes in memory is
// no more than Weigh said before anything was made of it.
func TestABodyWeighsWhatItTakes(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	within := func(params string) string {
		return `{"op":"guest.start","target":"guest/web","params":{"a":` + params + `}}`
	}
	for name, body := range map[string]string{
		"empty steps":   `{"steps":[` + strings.Repeat("{},", 7000) + `{}]}`,
		"empty objects": within(`[` + strings.Repeat("{},", 7000) + `{}]`),
		"empty arrays":  within(`[` + strings.Repeat("[],", 7000) + `[]]`),
		"small objects": within(`[` + strings.Repeat(`{"":1},`, 4000) + `{}]`),
		"names":         within(`{` + many(8000, `"%d":1,`) + `}`),
		"texts":         within(`{` + many(4000, `"%d":"`+strings.Repeat("x", 200)+`",`) + `}`),
		"one text":      within(`"` + strings.Repeat("x", 1<<20-100) + `"`),
		"numbers":       within(`[` + many(16000, `%d,`) + `]`),
		"escapes":       within(`"` + strings.Repeat(`\u00e9`, 100_000) + `"`),
	} {
		weight := must.Get(api.Weigh([]byte(body)))(t, name)
		took := func() uint64 {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var in api.Submit
			require.NoError(t, api.DecodeWeighed([]byte(body), &in), name)
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(in)
			return max(after.HeapAlloc, before.HeapAlloc) - before.HeapAlloc
		}()
		require.LessOrEqual(t, took, uint64(weight), name)
	}
}
