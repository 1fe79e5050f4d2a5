package api

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"gated/internal/base/refusal"
)

// FuzzEnvelope: an accepted envelope has one spelling of its payload.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"payload":"e30=","signatures":["-----BEGIN SSH SIGNATURE-----"]}`))
	f.Add([]byte(`{"payload":"e30","signatures":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var e Envelope
		if err := DecodeBody(body, &e); err != nil {
			refused(t, err)
			return
		}
		payload, err := e.Open()
		if err != nil {
			refused(t, err)
			return
		}
		if EnvelopeOf(payload).Payload != e.Payload {
			t.Fatalf("%q is a second spelling", e.Payload)
		}
	})
}

// FuzzReserve covers the bodies about reservations: what is accepted has times
// that add up, and is on the wire again what it was.
func FuzzReserve(f *testing.F) {
	f.Add([]byte(`{"scope":{"path":"/src","device":1,"inode":18446744073709551615,"fold":true},"patterns":["a/**"],
		"mode":"shared","reason":"x","ttl_seconds":60,"keep":true,"wait_seconds":86400}`))
	f.Add([]byte(`{"scope":{"path":"/src"},"patterns":[],"ttl_seconds":9223372036854775807}`))
	f.Add([]byte(`{"scope":{"path":"/src"},"patterns":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r Reserve
		if err := DecodeBody(body, &r); err != nil {
			refused(t, err)
			return
		}
		ttl, wait, err := r.Times()
		if err != nil {
			if refusal.CodeOf(err) != refusal.BadParams {
				t.Fatal(err)
			}
			return
		}
		if ttl != time.Duration(r.TTLSeconds)*time.Second || wait != time.Duration(r.WaitSeconds)*time.Second ||
			ttl < 0 || wait < 0 || max(ttl, wait) > 24*time.Hour {
			t.Fatalf("%v, %v", ttl, wait)
		}
		b, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		var again Reserve
		if err := DecodeBody(b, &again); err != nil || !slices.Equal(r.Patterns, again.Patterns) || r.Scope != again.Scope ||
			r.Mode != again.Mode || r.Reason != again.Reason || r.Keep != again.Keep {
			t.Fatalf("%s: %v", b, err)
		}
	})
}

// FuzzAgentBodies covers the other bodies of agents and reservations.
func FuzzAgentBodies(f *testing.F) {
	f.Add([]byte(`{"name":"builder","pid":7,"reaper":1,"token":false}`))
	f.Add([]byte(`{"scope":{"path":"/src"},"patterns":["a"]}`))
	f.Add([]byte(`{"ttl_seconds":60}`))
	f.Add([]byte(`{"to":"tester"}`))
	f.Add([]byte(`{"path":"/src","device":1,"inode":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		understood := 0
		for _, v := range []any{&RegisterAgent{}, &Check{}, &Renew{}, &Transfer{}, &Place{}} {
			if err := DecodeBody(body, v); err != nil {
				refused(t, err)
				continue
			}
			understood++
		}
		if understood > 1 && !bytes.Equal(bytes.Join(bytes.Fields(body), nil), []byte("{}")) {
			t.Fatalf("%q is understood in %d ways", body, understood)
		}
	})
}

// FuzzParseEntry covers what a client reads of an event stream.
func FuzzParseEntry(f *testing.F) {
	f.Add([]byte(`{"seq":1,"time":"2026-01-01T00:00:00Z","kind":"approved","prev":""}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := ParseEntry(raw)
		if err != nil {
			refused(t, err)
			return
		}
		if !bytes.Equal(e.Raw, raw) {
			t.Fatal("the stored text is not kept")
		}
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	switch refusal.CodeOf(err) {
	case refusal.Malformed, refusal.Oversized, refusal.TooComplex:
	default:
		t.Fatalf("%v", err)
	}
}
