package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkUpdate is one durable row per call. Its limit is the fdatasync of
// the machine (BenchmarkFdatasync) divided among the calls of a group.
func BenchmarkUpdate(b *testing.B) {
	benchCalls(b, func(n int64) func(*Tx) error {
		return func(tx *Tx) error {
			_, err := tx.Exec(`INSERT INTO rows (id, v) VALUES (?, ?)`, n, "0123456789abcdef")
			return err
		}
	})
}

// BenchmarkDecision is a call that reads, and then writes rows at ten places in a savepoint, as a decision does.
func BenchmarkDecision(b *testing.B) {
	benchCalls(b, func(n int64) func(*Tx) error {
		return func(tx *Tx) error {
			var v string
			if err := tx.QueryRow(`SELECT v FROM rows WHERE id = ?`, n).Scan(&v); !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			return tx.Savepoint(func() error {
				for place := range int64(10) {
					if _, err := tx.Exec(`INSERT INTO rows (id, v) VALUES (?, ?)`, place<<32+n, "0123456789abcdef"); err != nil {
						return err
					}
				}
				return nil
			})
		}
	})
}

// benchCalls runs calls of several callers.
func benchCalls(b *testing.B, one func(n int64) func(*Tx) error) {
	for _, callers := range []int{1, 8, 32, 128} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			s := benchStore(b)
			var groups atomic.Int64
			s.OnCommit(func() { groups.Add(1) })
			var next atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			begun := processorTime(b)
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if err := s.Update(context.Background(), one(n)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			reportProcessorTime(b, begun)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
			b.ReportMetric(float64(b.N)/float64(groups.Load()), "calls/group")
		})
	}
}

// BenchmarkStatements is one statement inside a transaction, without the commit.
func BenchmarkStatements(b *testing.B) {
	for name, one := range map[string]func(tx *Tx, n int64) error{
		"exec": func(tx *Tx, n int64) error {
			_, err := tx.Exec(`INSERT OR REPLACE INTO rows (id, v) VALUES (?, ?)`, n%100, "0123456789abcdef")
			return err
		},
		"row": func(tx *Tx, n int64) error {
			var id int64
			var v string
			return tx.QueryRow(`SELECT id, v FROM rows WHERE id = ?`, n%100).Scan(&id, &v)
		},
		"rows": func(tx *Tx, _ int64) error {
			rows, err := tx.Query(`SELECT id, v FROM rows WHERE id < 10`)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id int64
				var v string
				if err := rows.Scan(&id, &v); err != nil {
					return err
				}
			}
			return rows.Err()
		},
		"savepoint": func(tx *Tx, _ int64) error { return tx.Savepoint(func() error { return nil }) },
	} {
		b.Run(name, func(b *testing.B) { benchInside(b, one) })
	}
}

// benchInside runs one statement after the other in calls of a thousand each.
func benchInside(b *testing.B, one func(tx *Tx, n int64) error) {
	s := benchStore(b)
	update(b, s, func(tx *Tx) error {
		for id := range 100 {
			if _, err := tx.Exec(`INSERT INTO rows (id, v) VALUES (?, 'x')`, id); err != nil {
				return err
			}
		}
		return nil
	})
	b.ReportAllocs()
	b.ResetTimer()
	begun := processorTime(b)
	defer func() { reportProcessorTime(b, begun) }()
	for from := 0; from < b.N; from += 1000 {
		update(b, s, func(tx *Tx) error {
			for n := from; n < min(from+1000, b.N); n++ {
				if err := one(tx, int64(n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// processorTime is the time that all processors have spent on this process.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func reportProcessorTime(b *testing.B, begun time.Duration) {
	b.ReportMetric(float64((processorTime(b)-begun).Nanoseconds())/1e3/float64(b.N), "CPU-µs/op")
}

func update(b *testing.B, s *Store, fn func(*Tx) error) {
	if err := s.Update(context.Background(), fn); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkView is one row read by its key.
func BenchmarkView(b *testing.B) {
	s := benchStore(b)
	update(b, s, func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO rows (id, v) VALUES (1, 'x')`)
		return err
	})
	b.ReportAllocs()
	b.ResetTimer()
	begun := processorTime(b)
	defer func() { reportProcessorTime(b, begun) }()
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
