package question

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// A gate that shows one request and has another signed is refused, whatever of
// the two differs; while nothing can be signed any more, what was done may show.
func TestRequestAndBytesAreOne(t *testing.T) {
	b := payload(t, func(p *op.Payload) { p.Reason = "end of the project"; p.Params = op.Params{"snapshot": "a"} })
	q := must.Get(fetch(t, b, requestOf(t, b)))(t)
	require.Equal(t, b, q.Bytes)
	require.Contains(t, q.Text(View{Now: time.Now()}), "guest/web-1")
	for name, change := range map[string]func(*api.Request){
		"id": func(r *api.Request) { r.ID = "j2.1" }, "op": func(r *api.Request) { r.Op = "guest.snapshot" },
		"target": func(r *api.Request) { r.Target = "guest/web-2" }, "params": func(r *api.Request) { r.Params = op.Params{} },
		"host": func(r *api.Request) { r.Host = "pve2" }, "gate": func(r *api.Request) { r.Gate = "ffffffffffffffffffffffffffffffff" },
		"reason": func(r *api.Request) { r.Reason = "harmless" }, "incarnation": func(r *api.Request) { r.Incarnation = "b" },
		"state":  func(r *api.Request) { r.StateFingerprint = op.FingerprintOf([]byte("b")) },
		"digest": func(r *api.Request) { r.PayloadSHA256 = op.SHA256(nil) },
	} {
		r := requestOf(t, b)
		change(&r)
		_, err := fetch(t, b, r)
		require.ErrorIs(t, err, refusal.BindingMismatch, name)
		require.ErrorContains(t, err, "differ in "+name)
		r.State = op.StateSucceeded
		if _, err := fetch(t, b, r); name == "incarnation" || name == "state" {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, refusal.BindingMismatch, name)
		}
	}
}

func TestBytesForAnotherGateAreNotSigned(t *testing.T) {
	for name, change := range map[string]func(*op.Payload){
		"gate": func(p *op.Payload) { p.Gate = "ffffffffffffffffffffffffffffffff" },
		"host": func(p *op.Payload) { p.Host = "pve2" },
	} {
		b := payload(t, change)
		_, err := fetch(t, b, requestOf(t, b)) // the facts beside the bytes agree with them
		require.ErrorIs(t, err, refusal.TargetMismatch, name)
	}
}

func TestBytesThatDoNotDecodeAreNotShown(t *testing.T) {
	good := payload(t, func(*op.Payload) {})
	for _, b := range [][]byte{append(bytes.Clone(good), '\n'), []byte("{}"), nil,
		bytes.Replace(good, []byte(`"guest.destroy"`), []byte(`"guest.destroy\u202e"`), 1)} {
		_, err := fetch(t, b, api.Request{ID: "j1.1", State: op.StatePending})
		require.ErrorIs(t, err, refusal.Malformed, "%q", b)
	}
}

func TestFactsCannotPlayWithTheTerminal(t *testing.T) {
	b := payload(t, func(*op.Payload) {})
	r := requestOf(t, b)
	r.Facts, r.Why = []op.Fact{{Name: "bytes", Text: "0\x1b[2K\rnothing"}, {Name: "a\nb", Text: "c"}}, "x\u202ey"
	r.Signatures, r.Owed = []api.Signature{{Principal: "a\x1b[1m", Role: "r\r"}}, []string{"\x1b x"}
	r.Demands = []api.Demand{{Rule: "\x1b]0;", Roles: []op.Role{"\x1b"}, Threshold: 1, Could: []string{"b\u202e"}}}
	q := must.Get(fetch(t, b, r))(t)
	text := q.Text(View{Now: time.Now()})
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\r")
	require.NotContains(t, text, "\u202e")
	require.Contains(t, text, `"0\x1b[2K\rnothing"`)
	require.Contains(t, text, `"a\nb"`)
}

func TestLongFieldsAreShownWhole(t *testing.T) {
	reason := strings.Repeat("r", op.MaxReason)
	b := payload(t, func(p *op.Payload) { p.Reason = reason })
	q := must.Get(fetch(t, b, requestOf(t, b)))(t)
	require.Contains(t, q.Text(View{Now: time.Now()}), reason)
}

func TestAnsweredRequestsHaveTheGatesCodes(t *testing.T) {
	for state, code := range map[op.State]refusal.Code{op.StateRejected: refusal.Rejected, op.StateCancelled: refusal.Cancelled,
		op.StateSuperseded: refusal.Superseded, op.StateExpired: refusal.Expired, op.StateSucceeded: refusal.Replayed, op.StateFailed: refusal.Replayed,
		op.StateAuthorized: refusal.Replayed, op.StateDispatched: refusal.Replayed, op.StateInterrupted: refusal.Replayed} {
		require.ErrorIs(t, Answered(api.Request{ID: "j1.1", State: state}), code, state)
	}
	require.NoError(t, Answered(api.Request{State: op.StatePending}))
}
