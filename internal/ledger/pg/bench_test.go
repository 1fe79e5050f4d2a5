package pg_test

import (
	"testing"
	"time"

	"gated/internal/ledger"
	"gated/internal/test/postgres"
)

// BenchmarkAppend appends groups of one decision's size to a pair on this machine, also with the delay of a network.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name  string
		delay time.Duration // of each way between gate and primary
	}{{"local", 0}, {"1.2 ms each way", 1200 * time.Microsecond}} {
		b.Run(c.name, func(b *testing.B) {
			pair := postgres.NewPair(b)
			w := newWriter(b, newGate(b, pair.DSN()))
			body := make([]byte, 700)
			pair.ToFirst.Delay(c.delay)
			n, before := uint64(0), pair.First.CPU(b)+pair.Second.CPU(b)
			for b.Loop() {
				n++
				if err := w.engine.Append(ledger.Group{Number: n, Era: w.era, Body: body, Signature: make([]byte, 64)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((pair.First.CPU(b)+pair.Second.CPU(b)-before).Microseconds())/float64(n), "server-µs/group")
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "groups/s")
		})
	}
}
