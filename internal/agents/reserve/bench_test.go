package reserve

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// clients is how many callers there are at a time.
const clients = 8

// What others have in the same scope must not matter.
func BenchmarkReserveAndRelease(b *testing.B) {
	for _, n := range []int{0, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("others=%d", n), func(b *testing.B) {
			w := newWorld(b)
			w.others(repo, n, func(i int) string { return fmt.Sprintf("src/d%d/f%d.go", i/100, i) })
			b.SetParallelism((clients + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0))
			var started atomic.Int64
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				k := started.Add(1)
				by := w.register(fmt.Sprintf("mine%d", k), 1)
				for i := 0; pb.Next(); i++ {
					g, _, err := w.Reserve(b.Context(), claim(by, fmt.Sprintf("src/mine%d/d%d/*.go", k, i%1000)))
					require.NoError(b, err)
					_, err = w.Release(b.Context(), by, g.ID)
					require.NoError(b, err)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}

// A check of one path, as a hook asks before an edit.
func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("others=%d", n), func(b *testing.B) {
			w := newWorld(b)
			a := w.register("a", 1)
			w.others(repo, n, func(i int) string { return fmt.Sprintf("src/d%d/f%d.go", i/100, i) })
			for b.Loop() {
				_, _, err := w.Check(b.Context(), a, repo, []string{"src/d7/new.go"}, Exclusive)
				require.NoError(b, err)
			}
		})
	}
}
