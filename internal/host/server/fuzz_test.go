package server

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/convert"
)

const tokenLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// FuzzQuery: a query is understood or Malformed, and what is understood is
// within its bounds.
func FuzzQuery(f *testing.F) {
	f.Add("state=failed&after=j3&limit=7")
	f.Add("after=-1&limit=99999999999999999999")
	f.Add("state=%zz")
	f.Add("wait_seconds=45&until=decided")
	f.Fuzz(func(t *testing.T, raw string) {
		r := httptest.NewRequest(http.MethodGet, "/v1/jobs", nil)
		r.URL = &url.URL{Path: "/v1/jobs", RawQuery: raw}
		q, err := parseQuery(r, []string{"state", "after", "limit", "wait_seconds", "until"})
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
		if wait, until, err := c.waitQuery(); err != nil {
			malformed(t, err)
		} else if wait < 0 || wait > api.MaxWait*time.Second || (wait > 0) != q.Has("wait_seconds") || until.Check() != nil {
			t.Fatalf("%q became %s until %q", raw, wait, until)
		}
	})
}

// FuzzReservationQuery: a holder, a scope and a page are what was written, or
// Malformed.
func FuzzReservationQuery(f *testing.F) {
	f.Add("scope=/src&agent=builder&after=r12&limit=7")
	f.Add("agent=uid:1000&limit=201")
	f.Add("agent=uid:-1&scope=src")
	f.Fuzz(func(t *testing.T, raw string) {
		r := httptest.NewRequest(http.MethodGet, "/v1/reservations", nil)
		r.URL = &url.URL{Path: "/v1/reservations", RawQuery: raw}
		known, err := parseQuery(r, []string{"scope", "agent", "after", "limit"})
		if err != nil {
			malformed(t, err)
			return
		}
		q, err := (&call{query: known, r: r}).reservationQuery()
		if err != nil {
			malformed(t, err)
			return
		}
		if q.Path != known.Get("scope") || q.Holder != known.Get("agent") || known.Has("after") && q.After.String() != known.Get("after") ||
			q.After < 0 || q.Limit < 1 || q.Limit > reservationsMax || strings.ContainsAny(q.Holder, "#/ ") {
			t.Fatalf("%q became %+v", raw, q)
		}
	})
}

// FuzzToken: a token is one word or Malformed, and no refusal repeats it.
func FuzzToken(f *testing.F) {
	f.Add("c2VjcmV0LXRva2Vu_-", "")
	f.Add("", "x")
	f.Add("a b", "")
	f.Fuzz(func(t *testing.T, one, two string) {
		h := http.Header{api.TokenHeader: {one}}
		if two != "" {
			h.Add(api.TokenHeader, two)
		}
		got, err := agentToken(h)
		switch {
		case err != nil:
			malformed(t, err)
			if refusal.As(err).Detail != refusal.As(errToken()).Detail {
				t.Fatal(err)
			}
		case two != "" || got != one || got == "" || len(got) > maxToken || strings.Trim(got, tokenLetters) != "":
			t.Fatalf("%q and %q became %q", one, two, got)
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
	f.Add([]byte(`{"payload":"e30=","signatures":["x"],"batch":{"payload":"e30=","index":1,"path":["` + strings.Repeat("0f", 32) + `"]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := openEnvelope(body, convert.Envelope)
		if alone, alike := openEnvelope(body, plain); (alike == nil) != (err == nil && e.Batch == nil) || alone.Batch != nil {
			t.Fatalf("an envelope without a batch: %v, and with one: %v", alike, err)
		}
		if err == nil && e.Batch != nil {
			if n := len(e.Batch.Batch); n == 0 || n > op.MaxBatchPayload+3 || len(e.Batch.Path) > op.MaxBatchPath {
				t.Fatalf("a batch of %d bytes with %d hashes", n, len(e.Batch.Path))
			}
		}
		if err == nil {
			if len(e.Payload) == 0 || len(e.Payload) > op.MaxPayload || len(e.Signatures) == 0 {
				t.Fatalf("%d bytes, %d signatures", len(e.Payload), len(e.Signatures))
			}
			return
		}
		if c := refusal.CodeOf(err); c != refusal.Malformed && c != refusal.Oversized || refusal.As(err).Stage != refusal.StageDecode {
			t.Fatal(err)
		}
	})
}

func malformed(t *testing.T, err error) {
	t.Helper()
	if refusal.CodeOf(err) != refusal.Malformed {
		t.Fatal(err)
	}
}
