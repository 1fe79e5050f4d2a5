package main

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// madePlaces is a batch over n payloads, and the file beside it.
func madePlaces(t testing.TB, n int) (batch []byte, in places) {
	var payloads [][]byte
	for i := range n {
		payloads = append(payloads, fmt.Appendf(nil, `{"n":%d}`, i))
	}
	tree := must.Get(authz.NewBatchTree(payloads))(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	batch = must.Get(op.Batch{Role: op.Operational, Count: n, Root: must.Get(tree.Root())(t), IssuedAt: at, ExpiresAt: at.Add(time.Minute)}.Encode())(t)
	for i, p := range payloads {
		one := place{Address: "unix:/s", Host: "h", ID: fmt.Sprintf("j%d.1", i+1), Payload: base64.StdEncoding.EncodeToString(p), Path: []string{}}
		for _, d := range must.Get(tree.Path(i))(t) {
			one.Path = append(one.Path, d.String())
		}
		in.Requests = append(in.Requests, one)
	}
	return batch, in
}

// TestPlacesBelongToTheirBatch: a file beside a batch that says anything else of its leaves is refused.
func TestPlacesBelongToTheirBatch(t *testing.T) {
	batch, in := madePlaces(t, 5)
	envelopes, _, err := parsePlaces(batch, must.Get(api.Encode(in))(t))
	require.NoError(t, err)
	require.Len(t, envelopes, 5)
	require.Equal(t, 3, envelopes[3].Batch.Index)
	for name, c := range map[string]struct {
		change func(*places)
		code   refusal.Code
	}{
		"one less":              {func(p *places) { p.Requests = p.Requests[1:] }, refusal.Malformed},
		"two changed places":    {func(p *places) { p.Requests[0], p.Requests[1] = p.Requests[1], p.Requests[0] }, refusal.BindingMismatch},
		"another payload":       {func(p *places) { p.Requests[0].Payload = "e30=" }, refusal.BindingMismatch},
		"a payload of no form":  {func(p *places) { p.Requests[0].Payload = "e30" }, refusal.Malformed},
		"another path":          {func(p *places) { p.Requests[0].Path[0] = strings.Repeat("0", 64) }, refusal.BindingMismatch},
		"a path in capitals":    {func(p *places) { p.Requests[0].Path[0] = strings.Repeat("F", 64) }, refusal.Malformed},
		"the path of another":   {func(p *places) { p.Requests[0].Path = p.Requests[1].Path }, refusal.BindingMismatch},
		"a path that is longer": {func(p *places) { p.Requests[0].Path = append(p.Requests[0].Path, strings.Repeat("0", 64)) }, refusal.BindingMismatch},
	} {
		_, in := madePlaces(t, 5)
		c.change(&in)
		_, _, err := parsePlaces(batch, must.Get(api.Encode(in))(t))
		require.ErrorIs(t, err, c.code, name)
	}
	_, _, err = parsePlaces([]byte("{}"), must.Get(api.Encode(in))(t))
	require.ErrorIs(t, err, refusal.Malformed)
}

// FuzzPlaces: what is accepted has a leaf of the batch for each of its requests.
func FuzzPlaces(f *testing.F) {
	batch, in := madePlaces(f, 3)
	text := must.Get(api.Encode(in))(f)
	f.Add(batch, text)
	f.Add(batch, []byte(`{"requests":[]}`))
	f.Add(batch, []byte(strings.Replace(string(text), `"j1.1"`, `null`, 1)))
	f.Fuzz(func(t *testing.T, batch, text []byte) {
		envelopes, in, err := parsePlaces(batch, text)
		if err != nil {
			require.NotEqual(t, refusal.Internal, refusal.CodeOf(err), "%v", err)
			return
		}
		b := must.Get(op.DecodeBatch(batch))(t)
		require.Len(t, envelopes, b.Count)
		require.Len(t, in.Requests, b.Count)
		for i, e := range envelopes {
			require.Equal(t, i, e.Batch.Index)
			require.Equal(t, string(batch), string(must.Get(base64.StdEncoding.DecodeString(e.Batch.Payload))(t)))
		}
	})
}

// TestTheTallyOfABatch counts by gate and operation, and what nothing takes back, or people alone, and only for a while.
func TestTheTallyOfABatch(t *testing.T) {
	trash := op.Fact{Name: "destroy", Text: "can be undone until 2026-01-06T03:04:05Z"}
	kept := op.Fact{Name: "wipe", Text: "can be undone by hand until 2026-01-06T03:04:05Z: copy it"}
	n := 0
	on := func(host string, q question) *batched {
		n++
		q.payload.Host, q.payload.Target.Name = host, fmt.Sprint(n)
		return &batched{ID: fmt.Sprintf("j%d.1", n), q: q}
	}
	require.Equal(t, "In all:\n  pve2: 2 of guest.destroy, 1 of them CANNOT BE UNDONE\n"+
		"  pve1: 3 of guest.wipe, 1 of them CANNOT BE UNDONE, 2 of them can be undone by hand alone\n"+
		"  pve2: 2 of guest.set-config, 1 of them CANNOT BE UNDONE\n", tally([]*batched{
		on("pve2", asked(t, "guest.destroy", op.Params{}, trash)), on("pve1", asked(t, "guest.wipe", op.Params{}, kept)),
		on("pve1", asked(t, "guest.wipe", op.Params{})), on("pve1", asked(t, "guest.wipe", op.Params{}, kept)), on("pve2", programSwap(t)),
		on("pve2", asked(t, "guest.set-config", op.Params{"memory": int64(1)})), on("pve2", asked(t, "guest.destroy", op.Params{}))}))
}

// TestSeveralRequestsOfOneTarget: the facts of one do not say what another takes.
func TestSeveralRequestsOfOneTarget(t *testing.T) {
	of := func(id, host, name string) *batched {
		q := asked(t, name, op.Params{})
		q.payload.Host = host
		return &batched{ID: id, q: q}
	}
	require.Contains(t, tally([]*batched{of("j1.1", "pve1", "guest.backup-delete"), of("j2.1", "pve2", "guest.destroy"),
		of("j3.1", "pve1", "guest.destroy")}), "\n  guest/web-1 on pve1: j1.1, j3.1 were each shown as if the others did not run\n")
	require.Empty(t, crowded([]*batched{of("j1.1", "pve1", "guest.destroy"), of("j1.1", "pve2", "guest.destroy")}))
}
