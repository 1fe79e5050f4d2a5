package api

import (
	"bytes"
	"testing"

	"gated/internal/op"
)

// FuzzSubmit: what is accepted names one target a step and survives a round
// trip; what is not accepted is a refusal.
func FuzzSubmit(f *testing.F) {
	f.Add([]byte(`{"op":"guest.start","target":"guest/a","params":{"a":[1,"b",true]},"reason":"x"}`))
	f.Add([]byte(`{"steps":[{"op":"guest.start","target":"guest/a"}]}`))
	f.Add([]byte(`{"op":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var s Submit
		if err := DecodeBody(body, &s); err != nil {
			refused(t, err)
			return
		}
		asks, err := s.Asks()
		if err != nil {
			refused(t, err)
			return
		}
		b, err := Encode(SubmitOf(s.Reason, asks...))
		if err != nil {
			t.Fatal(err)
		}
		var again Submit
		if err := DecodeBody(b, &again); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		second, err := again.Asks()
		if err != nil || len(second) != len(asks) {
			t.Fatalf("%s: %v", b, err)
		}
		for i := range asks {
			if asks[i].Op != second[i].Op || asks[i].Target != second[i].Target || !asks[i].Params.Equal(second[i].Params) {
				t.Fatalf("%v became %v", asks[i], second[i])
			}
		}
	})
}

// FuzzAsk covers the body of POST /v1/classify.
func FuzzAsk(f *testing.F) {
	f.Add([]byte(`{"op":"guest.destroy","target":"guest/a","params":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var a Ask
		err := DecodeBody(body, &a)
		if err == nil {
			_, err = a.Ask()
		}
		if err != nil {
			refused(t, err)
		}
	})
}

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
	switch op.CodeOf(err) {
	case op.Malformed, op.Oversized, op.TooComplex:
	default:
		t.Fatalf("%v", err)
	}
}
