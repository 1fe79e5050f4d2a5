package server

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"gated/internal/op"
)

// FuzzQuery: a query is understood or Malformed, and what is understood is
// within its bounds.
func FuzzQuery(f *testing.F) {
	f.Add("state=failed&after=j3&limit=7")
	f.Add("after=-1&limit=99999999999999999999")
	f.Add("state=%zz")
	f.Fuzz(func(t *testing.T, raw string) {
		r := httptest.NewRequest(http.MethodGet, "/v1/jobs", nil)
		r.URL = &url.URL{Path: "/v1/jobs", RawQuery: raw}
		q, err := parseQuery(r, []string{"state", "after", "limit"})
		if err != nil {
			malformed(t, err)
			return
		}
		c := &call{query: q, r: r}
		if state, err := c.state(); err != nil {
			malformed(t, err)
		} else if !q.Has("state") && state != "" {
			t.Fatal("a state from nowhere")
		}
		if n, err := c.limit(pageMax); err != nil {
			malformed(t, err)
		} else if n < 1 || n > pageMax {
			t.Fatalf("limit %d", n)
		}
		if n, err := c.after(); err != nil {
			malformed(t, err)
		} else if n < 0 {
			t.Fatalf("after %d", n)
		}
	})
}

// FuzzHeaders covers Idempotency-Key and If-Match.
func FuzzHeaders(f *testing.F) {
	f.Add("key-1", `"tag"`)
	f.Add("", `W/"tag"`)
	f.Add("\x00", `*`)
	f.Fuzz(func(t *testing.T, key, match string) {
		h := http.Header{"Idempotency-Key": {key}, "If-Match": {match}}
		if got, err := idempotencyKey(h); err != nil {
			malformed(t, err)
		} else if got != key || got == "" || len(got) > maxKey {
			t.Fatalf("%q became %q", key, got)
		}
		if got, err := ifMatch(h); err != nil {
			malformed(t, err)
		} else if got == "" || got != "*" && match != `"`+got+`"` || strings.Contains(got, `"`) {
			t.Fatalf("%q became %q", match, got)
		}
	})
}

// FuzzEnvelopeBody: an envelope is opened or refused at the stage decode.
func FuzzEnvelopeBody(f *testing.F) {
	f.Add([]byte(goodEnvelope))
	f.Add([]byte(`{"payload":"","signatures":[""]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := openEnvelope(body)
		if err == nil {
			if len(e.Payload) == 0 || len(e.Payload) > op.MaxPayload || len(e.Signatures) == 0 {
				t.Fatalf("%d bytes, %d signatures", len(e.Payload), len(e.Signatures))
			}
			return
		}
		if c := op.CodeOf(err); c != op.Malformed && c != op.Oversized || op.AsRefusal(err).Stage != op.StageDecode {
			t.Fatal(err)
		}
	})
}

func malformed(t *testing.T, err error) {
	t.Helper()
	if op.CodeOf(err) != op.Malformed {
		t.Fatal(err)
	}
}
