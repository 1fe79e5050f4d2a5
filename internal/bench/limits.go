package bench

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/store"
)

// clients is how many callers there are at a time, unless a row says one.
const clients = 32

// limits are what the machine itself can do.
type limits struct {
	verifies float64 // ed25519 verifications a second, on all CPUs
	// verifyCost is the CPU time of one, in microseconds. Above that of an idle
	// machine, others slow every figure of the run down.
	verifyCost float64
	commits    float64 // transactions a second of the bare store, one row each, by all clients
	syncs      float64 // fdatasyncs a second, one after the other, 4 KiB each
	calls      float64 // calls of the socket a second that decide nothing
	script     float64 // operations a second of the script
}

const (
	limitRuns = 3
	limitTime = 500 * time.Millisecond
)

func (b *bench) limits() (err error) {
	dir, err := b.dir("limits")
	if err != nil {
		return err
	}
	if b.limit.verifies, err = median(limitRuns, b.verifies); err != nil {
		return err
	}
	if b.limit.syncs, err = median(limitRuns, func() (float64, error) { return syncs(filepath.Join(dir, "file")) }); err != nil {
		return err
	}
	if b.limit.commits, err = b.commits(filepath.Join(dir, "bare.db")); err != nil {
		return err
	}
	b.table.add(row{what: "limit: ed25519 verifications, all CPUs", value: b.limit.verifies, unit: perSecond,
		beside: fmt.Sprintf("CPU %.0f µs for one; the reference is 38", b.limit.verifyCost)})
	b.table.add(row{what: "limit: fdatasync of 4 KiB, one at a time", value: b.limit.syncs, unit: perSecond})
	b.table.add(row{what: "limit: bare store, one row each, 32 callers", value: b.limit.commits, unit: perSecond})
	return nil
}

// during calls work on n goroutines until d has passed and returns how often
// that was a second. work returns how much it did.
func during(n int, d time.Duration, work func() error) (float64, error) {
	var count atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, n)
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			for time.Since(began) < d && errs[i] == nil {
				errs[i] = work()
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return rate(int(count.Load()), time.Since(began)), errors.Join(errs...)
}

var errNotVerified = errors.New("a signature of our own does not verify")

func (b *bench) verifies() (float64, error) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		return 0, err
	}
	message := []byte(strings.Repeat("m", 150)) // what SSHSIG signs is about as long
	sig := ed25519.Sign(priv, message)
	var count atomic.Int64
	before := cpuOf("self")
	n, err := during(runtime.NumCPU(), limitTime, func() error {
		if !ed25519.Verify(pub, message, sig) {
			return errNotVerified
		}
		count.Add(1)
		return nil
	})
	b.limit.verifyCost = float64(cpuOf("self")-before) / float64(time.Microsecond) / float64(count.Load())
	return n, err
}

func syncs(path string) (float64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	page := make([]byte, 4096)
	n, err := during(1, limitTime, func() error {
		if _, err := f.Write(page); err != nil {
			return err
		}
		return unix.Fdatasync(int(f.Fd()))
	})
	return n, errors.Join(err, f.Close())
}

// commits is the store alone: transactions that insert one row of a journal's
// size.
func (b *bench) commits(path string) (float64, error) {
	s, err := store.Open(b.ctx, path, store.Options{Migrations: []store.Migration{
		{Version: 1, Name: "rows", SQL: `CREATE TABLE rows(n INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;`}}})
	if err != nil {
		return 0, err
	}
	body := strings.Repeat("r", 200)
	n, err := median(limitRuns, func() (float64, error) {
		return during(clients, limitTime, func() error {
			return s.Update(context.Background(), func(tx *store.Tx) error {
				_, err := tx.Exec(`INSERT INTO rows(body) VALUES(?)`, body)
				return err
			})
		})
	})
	return n, errors.Join(err, s.Close())
}
