package hub

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// refusedWell fails unless an error is a refusal that an answer can have.
func refusedWell(t *testing.T, err error) {
	t.Helper()
	require.Contains(t, []refusal.Code{refusal.Malformed, refusal.Oversized, refusal.TargetMismatch}, refusal.CodeOf(err), "%v", err)
}

// FuzzDesired: what is taken is for this host, has sets whose names are names,
// and is the same when it is written and read again.
func FuzzDesired(f *testing.F) {
	f.Add([]byte(`{"revision":"r","host":"pve1","sets":{"a":"apiVersion: gated/v1\nhost: pve1\nguests: []\n"}}`))
	f.Add([]byte(`{"revision":"r","host":"pve1","sets":{"a":"","a":""}}`))
	f.Add([]byte(`{"revision":null,"host":"pve2","sets":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecodeDesired(b, "pve1")
		if err != nil {
			refusedWell(t, err)
			return
		}
		require.Equal(t, "pve1", d.Host)
		require.NotEmpty(t, d.Sets)
		for name := range d.Sets {
			require.NoError(t, op.CheckName(name))
		}
		again := must.Get(api.Encode(d))(t)
		require.Equal(t, d, must.Get(DecodeDesired(again, "pve1"))(t))
	})
}

// FuzzOperations: each envelope that is taken has a digest of its own.
func FuzzOperations(f *testing.F) {
	f.Add([]byte(`{"host":"pve1","operations":[{"payload":"eA==","signatures":["a","b"]},{"payload":"eA==","signatures":["ab"]}]}`))
	f.Add([]byte(`{"host":"pve1","operations":[null]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := DecodeOperations(b, "pve1")
		if err != nil {
			refusedWell(t, err)
			return
		}
		seen := map[string]string{}
		for _, e := range list {
			text := must.Get(api.Encode(e))(t)
			if before, ok := seen[Digest(e)]; ok {
				require.Equal(t, before, string(text))
			}
			seen[Digest(e)] = string(text)
		}
	})
}

// FuzzReport: a report that a hub takes is one that it can show and write again.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"host":"pve1","gate":"0123","version":"v","started_at":"2026-03-01T12:00:00Z","seq":1,"at":"2026-03-01T12:00:00Z","revision":"r",` +
		`"error":{"code":"unavailable","detail":"d"},"sets":[{"name":"a","guests":1}],"guests":[{"since":"2026-03-01T12:00:00Z"}],"operations":[{"digest":"x"}],"requests":[{"request":"j1.1","created_at":"2026-03-01T12:00:00Z","expires_at":"2026-03-01T12:00:00Z"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeReport(b, "pve1")
		if err != nil {
			refusedWell(t, err)
			return
		}
		again, err := api.Encode(r)
		if err != nil {
			return // a year that RFC 3339 cannot write
		}
		same := must.Get(DecodeReport(again, "pve1"))(t)
		twice := must.Get(api.Encode(same))(t)
		require.True(t, bytes.Equal(again, twice))
	})
}

// FuzzHead: a head that a hub takes is for this host, and the same when it is written and read again.
func FuzzHead(f *testing.F) {
	f.Add([]byte(`{"host":"pve1","gate":"0123456789abcdef0123456789abcdef","key":"k","note":"n","from":0,"proof":[]}`))
	f.Add([]byte(`{"host":"pve1","gate":"x","key":"k","note":"n","from":-1,"proof":["a"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeHead(b, "pve1")
		if err != nil {
			refusedWell(t, err)
			return
		}
		require.True(t, h.Gate.Valid())
		require.GreaterOrEqual(t, h.From, int64(0))
		require.LessOrEqual(t, len(h.Proof), 128)
		if h.Proof == nil {
			h.Proof = []string{} // a gate writes no null
		}
		require.Equal(t, h, must.Get(DecodeHead(must.Get(api.Encode(h))(t), "pve1"))(t))
	})
}

// FuzzKept: a size that a gate believes is about its own head.
func FuzzKept(f *testing.F) {
	const gate = "0123456789abcdef0123456789abcdef"
	f.Add([]byte(`{"gate":"` + gate + `","size":3}`))
	f.Add([]byte(`{"gate":"","size":-3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		size, err := DecodeKept(b, gate)
		if err != nil {
			refusedWell(t, err)
			return
		}
		require.GreaterOrEqual(t, size, int64(0))
		require.Equal(t, size, must.Get(DecodeKept(must.Get(api.Encode(Kept{gate, size}))(t), gate))(t))
	})
}

// FuzzTag: what is sent back is what the hub said, and one tag.
func FuzzTag(f *testing.F) {
	for _, s := range []string{`"a"`, `W/"a"`, `"`, `""`, `"a", "b"`, "W/", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := tag(http.Header{"Etag": {s}})
		if got == "" {
			return
		}
		require.Equal(t, s, got)
		require.Regexp(t, `^(W/)?"[^"]*"$`, got)
		require.LessOrEqual(t, len(got), MaxETag)
	})
}
