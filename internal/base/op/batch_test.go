package op_test

import (
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

const exampleBatchBytes = `{"count":3,"expires_at":"2026-03-01T12:15:00Z","issued_at":"2026-03-01T12:00:00Z","role":"operational",` +
	`"root":"50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c","type":"gated/batch-approval/v1"}`

func exampleBatch() op.Batch {
	root, _ := op.ParseDigest("50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c")
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return op.Batch{Role: op.Operational, Count: 3, Root: root, IssuedAt: at, ExpiresAt: at.Add(15 * time.Minute)}
}

func TestExampleBatch(t *testing.T) {
	require.Equal(t, exampleBatchBytes, string(must.Get(exampleBatch().Encode())(t)))
	require.Equal(t, exampleBatch(), must.Get(op.DecodeBatch([]byte(exampleBatchBytes)))(t))
	doc := string(must.Get(os.ReadFile("../../../docs/formats/batch.md"))(t))
	require.Contains(t, doc, "```json\n"+exampleBatchBytes+"\n```\n")
}

func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := anySpan.Draw(t, "span")
		b := op.Batch{Role: op.Role(rapid.StringMatching(`[a-z][a-z0-9-]{0,31}`).Draw(t, "role")), Count: rapid.IntRange(1, op.MaxBatch).Draw(t, "count"),
			Root: op.Digest(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "root")), IssuedAt: span[0], ExpiresAt: span[1]}
		text := must.Get(b.Encode())(t)
		require.LessOrEqual(t, len(text), op.MaxBatchPayload)
		require.Equal(t, b, must.Get(op.DecodeBatch(text))(t))
		must.Err(op.DecodePayload(text))(t)
		must.Err(op.DecodeRejection(text))(t)
	})
}

// TestBatchForm: one form alone is a batch.
func TestBatchForm(t *testing.T) {
	change := func(old, with string) string { return strings.Replace(exampleBatchBytes, old, with, 1) }
	for name, text := range map[string]string{
		"none": change(`"count":3`, `"count":0`), "more than a batch has": change(`"count":3`, `"count":1001`), "a minus": change(`"count":3`, `"count":-3`),
		"a fraction": change(`"count":3`, `"count":3.0`), "an exponent": change(`"count":3`, `"count":3e0`), "text": change(`"count":3`, `"count":"3"`),
		"no number": change(`"count":3`, `"count":true`), "no count": change(`"count":3,`, ``), "a huge count": change(`"count":3`, `"count":18446744073709551619`),
		"recovery": change("operational", "recovery"), "no role": change(`"operational"`, `""`), "a role in capitals": change("operational", "Operational"),
		"a namespace for a role": change("operational", "operational@gated"),
		"a short root":           change("50d8", "50d"), "a root in capitals": change("50d8", "50D8"), "a long root": change("50d8", "50d80"),
		"another type": change("batch-approval/v1", "batch-approval/v2"), "a payload": change("batch-approval/v1", "signed-op/v1"),
		"no time": change("12:15:00Z", "12:00:00Z"), "a time zone": change("12:15:00Z", "12:15:00+00:00"),
		"one member more": change(`,"type"`, `,"salt":"x","type"`), "a space": change(`,"type"`, `, "type"`), "a line end": exampleBatchBytes + "\n",
		"another order": `{"expires_at":"2026-03-01T12:15:00Z","count":3` + strings.TrimPrefix(exampleBatchBytes, `{"count":3,"expires_at":"2026-03-01T12:15:00Z"`),
		"nothing":       "", "null": "null",
	} {
		require.NotEqual(t, exampleBatchBytes, text, name)
		_, err := op.DecodeBatch([]byte(text))
		require.ErrorIs(t, err, refusal.Malformed, name)
		require.Equal(t, refusal.StageDecode, refusal.As(err).Stage, name)
	}
	must.Fail(op.DecodeBatch([]byte(strings.Repeat(" ", op.MaxBatchPayload+1))))(t, refusal.Oversized)
	for _, n := range []int{1, op.MaxBatch} {
		b := exampleBatch()
		b.Count = n
		must.Get(b.Encode())(t)
	}
	for _, n := range []int{0, op.MaxBatch + 1} {
		b := exampleBatch()
		b.Count = n
		must.Err(b.Encode())(t)
	}
}

// TestNamespacesOfBatches: no namespace is both of a role and of its batches.
func TestNamespacesOfBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		role := op.Role(rapid.OneOf(rapid.StringMatching(`[a-z][a-z0-9-]{0,31}`), rapid.String(), rapid.Just("recovery")).Draw(t, "role"))
		_, single := op.RoleOfNamespace(role.BatchNamespace())
		require.False(t, single)
		_, batch := op.RoleOfBatchNamespace(role.Namespace())
		require.False(t, batch)
		got, ok := op.RoleOfBatchNamespace(role.BatchNamespace())
		require.Equal(t, role.Valid() && role != op.Recovery, ok)
		if ok {
			require.Equal(t, role, got)
		}
	})
}

// TestTakesBatch: a demand for a verification, and a requirement of single signatures, take none. What is stricter takes
// no more.
func TestTakesBatch(t *testing.T) {
	need := func(touch op.Touch, single bool) op.Requirement {
		return op.Requirement{Single: single, Ways: []op.Way{{Demands: []op.Demand{{Roles: []op.Role{op.Operational}, Threshold: 1, Touch: touch}}},
			{Name: op.WayRecovery, Demands: []op.Demand{{Roles: []op.Role{op.Recovery}, Threshold: 1}}}}}
	}
	require.Equal(t, []op.Role{op.Operational}, need(op.TouchNone, false).BatchRoles())
	require.Equal(t, []op.Role{op.Operational}, need(op.TouchPresent, false).BatchRoles())
	require.Empty(t, need(op.TouchVerified, false).BatchRoles())
	require.Empty(t, need(op.TouchNone, true).BatchRoles())
	require.False(t, need(op.TouchNone, false).TakesBatch(op.Coordination), "a role that does not count")
	for _, pair := range [][2]op.Requirement{{need("", false), need("", true)}, {need("", true), need("", false)}, {need("", false), need(op.TouchVerified, false)}} {
		require.Empty(t, pair[0].Stricter(pair[1]).BatchRoles())
	}
}

// FuzzBatch: what is accepted is written as the same bytes, and is no payload.
func FuzzBatch(f *testing.F) {
	f.Add([]byte(exampleBatchBytes))
	f.Add([]byte(strings.Replace(exampleBatchBytes, `"count":3`, `"count":1e3`, 1)))
	f.Add([]byte(strings.Replace(exampleBatchBytes, "operational", `\u006fperational`, 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := op.DecodeBatch(b)
		if err != nil {
			want := refusal.Malformed
			if len(b) > op.MaxBatchPayload {
				want = refusal.Oversized
			}
			require.Equal(t, refusal.StageDecode, requireRefusal(t, err, want).Stage)
			return
		}
		require.Equal(t, string(b), string(must.Get(batch.Encode())(t)))
		d, ok := op.ParseDigest(batch.Root.String())
		require.True(t, ok)
		require.Equal(t, batch.Root, d)
		require.True(t, batch.Role.SignsBatches() && batch.Count >= 1 && batch.Count <= op.MaxBatch)
		must.Err(op.DecodePayload(b))(t)
		must.Err(op.DecodeRejection(b))(t)
	})
}
