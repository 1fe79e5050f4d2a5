package gate_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
)

// anything is a back end in which every guest exists and never changes.
type anything struct{}

func (anything) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	return op.Observed{Target: t, Present: true, Incarnation: op.Incarnation(t.Name), Running: "stopped",
		Fingerprint: op.FingerprintOf([]byte(t.Name))}, nil
}

// signedOps makes n envelopes that were signed before the gate saw them.
func signedOps(b *testing.B, now time.Time, n int) []authz.Envelope {
	out := make([]authz.Envelope, n)
	for i := range out {
		var nonce [24]byte
		rand.Read(nonce[:])
		name := fmt.Sprintf("g%d", i)
		payload, err := op.Payload{Gate: testGate, Host: testHost, Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: name},
			Incarnation: op.Incarnation(name), State: op.FingerprintOf([]byte(name)), Params: op.Params{},
			Nonce: base64.RawURLEncoding.EncodeToString(nonce[:]), IssuedAt: now, ExpiresAt: now.Add(time.Hour)}.Encode()
		require.NoError(b, err)
		out[i] = alice.envelope(b, payload)
	}
	return out
}

// benchWorld is a gate whose back end costs nothing.
func benchWorld(b *testing.B) *world {
	w := newWorldOn(b, anything{})
	return w
}

func BenchmarkSignedDecided(b *testing.B) {
	for _, clients := range []int{1, 32} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			w := benchWorld(b)
			envelopes := signedOps(b, w.Now(), b.N)
			var next atomic.Int64
			b.SetParallelism((clients + 1) / 2)
			if clients == 1 {
				b.SetParallelism(1)
			}
			b.ResetTimer()
			work := func() bool {
				i := int(next.Add(1)) - 1
				if i >= len(envelopes) {
					return false
				}
				if _, err := w.gate.ApproveOffline(w.ctx, hub, envelopes[i]); err != nil {
					b.Error(err)
				}
				return true
			}
			if clients == 1 {
				for work() {
				}
			} else {
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						work()
					}
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

func BenchmarkBenignDecided(b *testing.B) {
	w := benchWorld(b)
	var next atomic.Int64
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			n := fmt.Sprintf("g%d", next.Add(1))
			if _, err := w.submit(ask("guest.start", n)); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
