package convert

import (
	"testing"

	"gated/client/api"
	"gated/internal/base/refusal"
)

// FuzzSubmit: what is accepted names one target a step and survives a round
// trip; what is not accepted is a refusal.
func FuzzSubmit(f *testing.F) {
	f.Add([]byte(`{"op":"guest.start","target":"guest/a","params":{"a":[1,"b",true]},"reason":"x"}`))
	f.Add([]byte(`{"steps":[{"op":"guest.start","target":"guest/a"}]}`))
	f.Add([]byte(`{"op":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var s api.Submit
		if err := api.DecodeBody(body, &s); err != nil {
			refused(t, err)
			return
		}
		asks, err := Asks(s)
		if err != nil {
			refused(t, err)
			return
		}
		b, err := api.Encode(SubmitOf(s.Reason, asks...))
		if err != nil {
			t.Fatal(err)
		}
		var again api.Submit
		if err := api.DecodeBody(b, &again); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		second, err := Asks(again)
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
		var a api.Ask
		err := api.DecodeBody(body, &a)
		if err == nil {
			_, err = Ask(a)
		}
		if err != nil {
			refused(t, err)
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
