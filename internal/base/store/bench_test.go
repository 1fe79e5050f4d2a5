package store

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkUpdate is one durable row per call. Its limit is the fdatasync of
// the machine (BenchmarkFdatasync) divided among the calls of a group.
func BenchmarkUpdate(b *testing.B) {
	for _, callers := range []int{1, 8, 32, 128} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			s := benchStore(b)
			var groups atomic.Int64
			s.OnCommit(func() { groups.Add(1) })
			var next atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						err := s.Update(context.Background(), func(tx *Tx) error {
							_, err := tx.Exec(`INSERT INTO rows (id, v) VALUES (?, ?)`, n, "0123456789abcdef")
							return err
						})
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
			b.ReportMetric(float64(b.N)/float64(groups.Load()), "calls/group")
		})
	}
}

// BenchmarkView is one row read by its key.
func BenchmarkView(b *testing.B) {
	s := benchStore(b)
	if err := s.Update(context.Background(), func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO rows (id, v) VALUES (1, 'x')`)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			err := s.View(context.Background(), func(tx *Tx) error {
				var v string
				return tx.QueryRow(`SELECT v FROM rows WHERE id = ?`, 1).Scan(&v)
			})
			if err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkFdatasync is the physical limit: one page appended and synced.
func BenchmarkFdatasync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	for b.Loop() {
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "syncs/s")
}

func benchStore(b *testing.B) *Store {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "gated.db"), Options{Migrations: []Migration{
		{Version: 1, Name: "rows", SQL: `CREATE TABLE rows (id INTEGER PRIMARY KEY, v TEXT NOT NULL) STRICT`}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}
