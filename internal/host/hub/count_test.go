package hub_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/hub"
)

// allocated returns how many bytes f asks for.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// many repeats an element, between two texts, up to so many bytes.
func many(bytes int, before, element, after string) []byte {
	return []byte(before + strings.Repeat(element+",", bytes/(len(element)+1)) + element + after)
}

// TestManyElements are counted before anything is made of them.
func TestManyElements(t *testing.T) {
	desired := func(b []byte) error { _, err := hub.DecodeDesired(b, testHost); return err }
	operations := func(b []byte) error { _, err := hub.DecodeOperations(b, testHost); return err }
	report := func(b []byte) error { _, err := hub.DecodeReport(b, testHost); return err }
	const answer, sent = 15 << 20, 4<<20 - 100
	for name, c := range map[string]struct {
		decode func([]byte) error
		body   []byte
	}{
		"operations":         {operations, many(answer, `{"host":"pve1","operations":[`, `{}`, `]}`)},
		"operations, twice":  {operations, many(answer, `{"operations":[],"operations":[`, `{}`, `]}`)},
		"escaped":            {operations, many(answer, `{"op\u0065rations":[`, `{}`, `]}`)},
		"signatures":         {operations, many(answer, `{"operations":[{"signatures":[`, `""`, `]}]}`)},
		"signatures of many": {operations, many(answer, `{"operations":[`, `{"signatures":[`+strings.Repeat(`"",`, 1000)+`""]}`, `]}`)},
		"members":            {operations, many(answer, `{"operations":[{`, `"payload":""`, `}]}`)},
		"sets":               {desired, many(answer, `{"revision":"r","sets":{`, `"a":""`, `}}`)},
		"a list of sets":     {desired, many(answer, `{"sets":[`, `""`, `]}`)},
		"outermost":          {desired, many(answer, `{`, `"a":""`, `}`)},
		"guests":             {report, many(sent, `{"host":"pve1","guests":[`, `{}`, `]}`)},
		"reported":           {report, many(sent, `{"host":"pve1","operations":[`, `{}`, `]}`)},
		"reported sets":      {report, many(sent, `{"host":"pve1","sets":[`, `{}`, `]}`)},
	} {
		var err error
		bytes := allocated(func() { err = c.decode(c.body) })
		require.ErrorIs(t, err, refusal.Oversized, name)
		require.Less(t, bytes, uint64(4<<20), name)
	}
}

// TestWhatIsNotCounted is neither refused nor kept from the decoder's words.
func TestWhatIsNotCounted(t *testing.T) {
	for name, body := range map[string]string{
		"cut off": `{"host":"pve1","operations":[{}`, "a number": `{"host":"pve1","operations":7}`, "no object": `[]`, "trailing": `{"host":"pve1"}}`,
		"nothing": ``,
	} {
		_, err := hub.DecodeOperations([]byte(body), testHost)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, refusal.Oversized, name)
	}
	_, err := hub.DecodeReport(many(1<<20, `{"host":"pve1","later":[`, `{}`, `]}`), testHost)
	require.NoError(t, err, "a member that a newer gate adds")
}
