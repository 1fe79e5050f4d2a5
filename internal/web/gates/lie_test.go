package gates

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// once looks once within a test.
var once = pace{look: patience, every: time.Hour, first: time.Hour, longest: time.Hour, steady: time.Hour}

// asked reports whether the first look is over.
func asked(g Gate) bool { return g.Err != error(errNotAsked) }

// A gate that lies sends a list of empty objects: two bytes each, and some hundred in memory. The list is not decoded.
func TestListsOfEmptyObjects(t *testing.T) {
	empty := "[" + strings.TrimSuffix(strings.Repeat("{},", maxAnswer/3-100), ",") + "]"
	for path, text := range map[string]string{"/v1/requests": `{"requests":` + empty + `}`, "/v1/trust": `{"signers":` + empty + `}`,
		"/v1/status": `{"health":` + empty + `}`} {
		f := fakeGate(another, "pve1", 1)
		f.raw = map[string]string{path: text}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g := until(t, watch(t, once, known(serve(t, f), "pve1", f.status.Gate)), "pve1", asked)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, g.Err, refusal.TooComplex, path)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20*maxAnswer), path) // which is to read it, and what the test itself sends
	}
}

// What a gate says of itself and of its signers is bounded, as its requests are.
func TestHugeStatusAndSigners(t *testing.T) {
	huge := strings.Repeat("x", maxBeside)
	for name, lie := range map[string]func(*fake){
		"status": func(f *fake) { f.status.Version = huge },
		"signers": func(f *fake) {
			f.raw = map[string]string{"/v1/trust": string(must.Get(api.Encode(api.Trust{Epoch: 1, Text: huge}))(t))}
		},
	} {
		f := fakeGate(another, "pve1", 1)
		lie(f)
		g := until(t, watch(t, once, known(serve(t, f), "pve1", f.status.Gate)), "pve1", asked)
		require.ErrorIs(t, g.Err, refusal.Oversized, name)
		require.Empty(t, g.Status.Version)
		require.Empty(t, g.Trust.Text)
	}
}

// What a gate says of itself is in the sentence that refuses it. It is cut there: a log and the pages have it.
func TestLongLies(t *testing.T) {
	huge := strings.Repeat("é", 1<<20)
	for name, lie := range map[string]func(*fake){
		"its host":     func(f *fake) { f.status.Host = huge },
		"of a request": func(f *fake) { f.requests[0].Host = huge },
	} {
		f := fakeGate(another, "pve1", 1)
		lie(f)
		g := until(t, watch(t, once, known(serve(t, f), "pve1", another)), "pve1", asked)
		require.ErrorIs(t, g.Err, refusal.TargetMismatch, name)
		require.Less(t, len(g.Err.Error()), 3*maxWhy)
		require.True(t, utf8.ValidString(g.Err.Error()))
	}
	short := refusal.New(refusal.Internal, "%s", strings.Repeat("x", maxWhy))
	require.Same(t, error(short), inShort(short))
	require.NotSame(t, error(short), inShort(refusal.New(refusal.Internal, "%s", strings.Repeat("x", maxWhy+1))))
}
