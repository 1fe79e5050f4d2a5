package op_test

import (
	"encoding/base64"
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

var (
	issued = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	gateID = op.GateID("6f1d0c9b8a7e4d3c2b1a09f8e7d6c5b4")
)

// examplePayload is the one of docs/formats/payload.md.
func examplePayload() op.Payload {
	return op.Payload{
		Gate:        gateID,
		Host:        "pve1",
		Op:          "guest.set-config",
		Target:      web1,
		Incarnation: "7c9e6679-7425-40de-944b-e07fc1f90ae7:131077:1772366400000000000",
		State:       op.FingerprintOf([]byte("example")),
		Params:      op.Params{"labels": map[string]any{"tier": "prod"}, "memory": int64(512), "protected": false},
		Nonce:       "AAECAwQFBgcICQoLDA0ODw",
		IssuedAt:    issued,
		ExpiresAt:   issued.Add(24 * time.Hour),
		Reason:      "quarterly clean-up",
	}
}

func exampleRejection() op.Rejection {
	return op.Rejection{
		Gate:          gateID,
		Host:          "pve1",
		Request:       op.RequestID{Job: 12, Index: 1},
		PayloadSHA256: op.SHA256([]byte("example")),
		Nonce:         "EBESExQVFhcYGRobHB0eHw",
		IssuedAt:      issued,
		ExpiresAt:     issued.Add(15 * time.Minute),
		Reason:        "web-1 is still in use",
	}
}

const examplePayloadBytes = `{"expires_at":"2026-03-02T12:00:00Z","gate":"6f1d0c9b8a7e4d3c2b1a09f8e7d6c5b4","host":"pve1",` +
	`"incarnation":"7c9e6679-7425-40de-944b-e07fc1f90ae7:131077:1772366400000000000","issued_at":"2026-03-01T12:00:00Z",` +
	`"nonce":"AAECAwQFBgcICQoLDA0ODw","op":"guest.set-config","params":{"labels":{"tier":"prod"},"memory":512,"protected":false},` +
	`"reason":"quarterly clean-up","state":"sha256:50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c",` +
	`"target":"guest/web-1","type":"gated/signed-op/v1"}`

const exampleRejectionBytes = `{"expires_at":"2026-03-01T12:15:00Z","gate":"6f1d0c9b8a7e4d3c2b1a09f8e7d6c5b4","host":"pve1",` +
	`"issued_at":"2026-03-01T12:00:00Z","nonce":"EBESExQVFhcYGRobHB0eHw",` +
	`"payload_sha256":"50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c","reason":"web-1 is still in use",` +
	`"request":"j12.1","type":"gated/rejection/v1"}`

func TestExampleBytes(t *testing.T) {
	b := must.Get(examplePayload().Encode())(t)
	require.Equal(t, examplePayloadBytes, string(b))
	p := must.Get(op.DecodePayload(b))(t)
	require.Equal(t, examplePayload(), p)

	b = must.Get(exampleRejection().Encode())(t)
	require.Equal(t, exampleRejectionBytes, string(b))
	r := must.Get(op.DecodeRejection(b))(t)
	require.Equal(t, exampleRejection(), r)
}

// TestDocumentShowsTheExamples: docs/formats/payload.md has exactly these examples.
func TestDocumentShowsTheExamples(t *testing.T) {
	doc := must.Get(os.ReadFile("../../../docs/formats/payload.md"))(t)
	for _, example := range []string{examplePayloadBytes, exampleRejectionBytes} {
		require.Contains(t, string(doc), "```json\n"+example+"\n```\n")
	}
}

var (
	anyNonce = rapid.Custom(func(t *rapid.T) string {
		return encodeNonce(rapid.SliceOfN(rapid.Byte(), 16, 32).Draw(t, "nonce"))
	})
	anySpan = rapid.Custom(func(t *rapid.T) [2]time.Time {
		from := time.Unix(rapid.Int64Range(0, 250_000_000_000).Draw(t, "issued"), 0).UTC()
		return [2]time.Time{from, from.Add(time.Duration(rapid.Int64Range(1, 86400).Draw(t, "validity")) * time.Second)}
	})
	anyPayload = rapid.Custom(func(t *rapid.T) op.Payload {
		span := anySpan.Draw(t, "span")
		return op.Payload{
			Gate:        op.GateID(rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, "gate")),
			Host:        rapid.StringMatching(`[a-z0-9][a-z0-9.-]{0,62}`).Draw(t, "host"),
			Op:          rapid.SampledFrom(op.Catalogue()).Draw(t, "op").Name,
			Target:      op.Target{Kind: "guest", Name: rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,127}`).Draw(t, "name")},
			Incarnation: op.Incarnation(visible.Draw(t, "incarnation")),
			State:       op.FingerprintOf(rapid.SliceOf(rapid.Byte()).Draw(t, "state")),
			Params:      anyParams.Draw(t, "params"),
			Nonce:       anyNonce.Draw(t, "nonce"),
			IssuedAt:    span[0],
			ExpiresAt:   span[1],
			Reason:      visible.Draw(t, "reason"),
		}
	})
)

func TestPayloadRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPayload.Draw(t, "payload")
		b := must.Get(p.Encode())(t)
		got := must.Get(op.DecodePayload(b))(t)
		require.Equal(t, p, got)
		require.Equal(t, b, must.Get(got.Encode())(t))
	})
}

func TestRejectionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := anySpan.Draw(t, "span")
		r := exampleRejection()
		r.Request = op.RequestID{Job: op.JobID(rapid.Int64Range(1, 1<<50).Draw(t, "job")), Index: rapid.IntRange(1, op.MaxSteps).Draw(t, "step")}
		r.Nonce = anyNonce.Draw(t, "nonce")
		r.IssuedAt, r.ExpiresAt = span[0], span[1]
		r.Reason = visible.Draw(t, "reason")
		b := must.Get(r.Encode())(t)
		require.Equal(t, r, must.Get(op.DecodeRejection(b))(t))
	})
}

// TestTwoPayloadsNeverShareBytes: all values come from the bytes, so different
// values must give different bytes.
func TestTwoPayloadsNeverShareBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := anyPayload.Draw(t, "p"), anyPayload.Draw(t, "q")
		a := must.Get(p.Encode())(t)
		b := must.Get(q.Encode())(t)
		same := p.Params.Equal(q.Params)
		p.Params, q.Params = nil, nil
		require.Equal(t, same && equalButParams(p, q), string(a) == string(b))
	})
}

func equalButParams(p, q op.Payload) bool {
	times := p.IssuedAt.Equal(q.IssuedAt) && p.ExpiresAt.Equal(q.ExpiresAt)
	return times && p.Gate == q.Gate && p.Host == q.Host && p.Op == q.Op && p.Target == q.Target &&
		p.Incarnation == q.Incarnation && p.State == q.State && p.Nonce == q.Nonce && p.Reason == q.Reason
}

func TestReasonLimit(t *testing.T) {
	p, r := examplePayload(), exampleRejection()
	for _, c := range []struct {
		reason string
		fits   bool
	}{
		{"", true},
		{strings.Repeat("x", op.MaxReason-1), true},
		{strings.Repeat("x", op.MaxReason), true},
		{strings.Repeat("x", op.MaxReason+1), false},
		{strings.Repeat("é", op.MaxReason/2), true}, // bytes count, not characters
		{strings.Repeat("é", op.MaxReason/2) + "x", false},
		{strings.Repeat(`"`, op.MaxReason), true}, // the text counts, not its spelling
	} {
		p.Reason, r.Reason = c.reason, c.reason
		_, errP := p.Encode()
		_, errR := r.Encode()
		if c.fits {
			require.NoError(t, errP)
			require.NoError(t, errR)
			continue
		}
		requireRefusal(t, errP, refusal.Malformed)
		requireRefusal(t, errR, refusal.Malformed)
	}
}

func TestPayloadSizeLimit(t *testing.T) {
	p := examplePayload()
	p.Params = op.Params{"a": ""}
	b := must.Get(p.Encode())(t)
	room := op.MaxPayload - len(b)

	for _, size := range []int{room - 1, room} {
		p.Params = op.Params{"a": strings.Repeat("x", size)}
		b = must.Get(p.Encode())(t)
		require.Len(t, b, op.MaxPayload-room+size)
		must.Get(op.DecodePayload(b))(t)
	}
	p.Params = op.Params{"a": strings.Repeat("x", room+1)}
	_, err := p.Encode()
	requireRefusal(t, err, refusal.Oversized)

	// The size is checked first, so a text that is too large is not parsed.
	for _, big := range []string{strings.Repeat("[", op.MaxPayload+1), examplePayloadBytes + strings.Repeat(" ", op.MaxPayload)} {
		_, err = op.DecodePayload([]byte(big))
		requireRefusal(t, err, refusal.Oversized)
		_, err = op.DecodeRejection([]byte(big))
		requireRefusal(t, err, refusal.Oversized)
	}
}

// TestEncodeRefusesWhatDecodeWould: an operator never signs bytes that could not be
// submitted.
func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	for name, spoil := range map[string]func(*op.Payload){
		"no gate":               func(p *op.Payload) { p.Gate = "" },
		"no host":               func(p *op.Payload) { p.Host = "" },
		"a host too long":       func(p *op.Payload) { p.Host = strings.Repeat("h", 254) },
		"no op":                 func(p *op.Payload) { p.Op = "" },
		"no target":             func(p *op.Payload) { p.Target = op.Target{} },
		"a path for a target":   func(p *op.Payload) { p.Target.Name = "../web-2" },
		"no fingerprint":        func(p *op.Payload) { p.State = "" },
		"no nonce":              func(p *op.Payload) { p.Nonce = "" },
		"an escape sequence":    func(p *op.Payload) { p.Reason = "\x1b[2Jall is well" },
		"invalid UTF-8":         func(p *op.Payload) { p.Reason = "\xff" },
		"deep params":           func(p *op.Payload) { p.Params = op.Params{"a": []any{[]any{[]any{[]any{}}}}} },
		"a hidden char, params": func(p *op.Payload) { p.Params = op.Params{"a": "b\u202e"} },
		"no validity":           func(p *op.Payload) { p.ExpiresAt = p.IssuedAt },
		"negative validity":     func(p *op.Payload) { p.ExpiresAt = p.IssuedAt.Add(-time.Second) },
		"a year of five digits": func(p *op.Payload) { p.ExpiresAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		p := examplePayload()
		spoil(&p)
		_, err := p.Encode()
		r := requireRefusal(t, err, refusal.Malformed, name)
		if name != "invalid UTF-8" { // found while writing, before there are bytes to decode
			require.Equal(t, refusal.StageDecode, r.Stage, name)
		}
	}
}

func TestTimesAreWrittenInUTC(t *testing.T) {
	p := examplePayload()
	cet := time.FixedZone("CET", 3600)
	p.IssuedAt, p.ExpiresAt = p.IssuedAt.In(cet), p.ExpiresAt.In(cet)
	require.Equal(t, examplePayloadBytes, string(must.Get(p.Encode())(t)))
}

func TestOriginOf(t *testing.T) {
	gate, host, err := op.OriginOf([]byte(`{"expires_at":"x","gate":"g1","host":"h\u0031","params":{"gate":"no"}}`))
	require.NoError(t, err)
	require.Equal(t, op.GateID("g1"), gate)
	require.Equal(t, "h1", host)
	for _, bad := range []string{``, `{}`, `[]`, `null`, `{"gate":"g"}`, `{"host":"h","gate":1}`, `{"params":{"gate":"g","host":"h"}}`, `{"gate"`} {
		_, _, err := op.OriginOf([]byte(bad))
		require.ErrorIs(t, err, refusal.Malformed, bad)
	}
}

// TestNoncesOfOneTimeAreNeighbours: the time is at the beginning, and everything else is random.
func TestNoncesOfOneTimeAreNeighbours(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	seen := map[string]bool{}
	var varies [24]bool
	first, err := base64.RawURLEncoding.DecodeString(op.NewNonce(at))
	require.NoError(t, err)
	for range 1000 {
		n := op.NewNonce(at)
		require.NoError(t, op.CheckNonce(n))
		require.False(t, seen[n])
		seen[n] = true
		b, err := base64.RawURLEncoding.DecodeString(n)
		require.NoError(t, err)
		require.Len(t, b, 24)
		for i := range b {
			varies[i] = varies[i] || b[i] != first[i]
		}
	}
	for i := range varies {
		require.Equal(t, i >= 6, varies[i], "byte %d", i)
	}
	require.Equal(t, at.UnixMilli(), int64(binary.BigEndian.Uint64(append([]byte{0, 0}, first[:6]...))))
	require.NotEqual(t, op.NewNonce(at)[:8], op.NewNonce(at.Add(time.Millisecond))[:8])
}
