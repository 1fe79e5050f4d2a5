package bench

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/store"
)

// clients is how many callers there are at a time, unless a row has another number.
const clients = 32

// limits are what the machine itself can do.
type limits struct {
	verifies float64 // ed25519 verifications a second, on all CPUs
	commits  float64 // transactions a second of the bare store, one row each, by all clients
	syncs    float64 // fdatasyncs a second, one after the other, 4 KiB each
	script   float64 // operations a second of the script
}

// share says what part of a limit a rate is.
func (limits) share(rate, limit float64, of string) string {
	if limit == 0 {
		return of + " were not measured"
	}
	return fmt.Sprintf("%.0f %% of %s", 100*rate/limit, of)
}

func (b *bench) limits() error {
	dir, err := b.dir("limits")
	if err != nil {
		return err
	}
	var cost float64
	b.limit.verifies, err = median(b.size.runs, func() (n float64, err error) {
		n, cost, err = verifications(b.size.limitTime)
		return n, err
	})
	if err != nil {
		return err
	}
	b.addf("limit: ed25519 verifications, all CPUs", b.limit.verifies, perSecond, 0,
		"CPU %.0f µs for one; the reference is 38", cost)
	file := filepath.Join(dir, "file")
	if b.limit.syncs, err = median(b.size.runs, func() (float64, error) { return b.syncs(file) }); err != nil {
		return err
	}
	b.addf("limit: fdatasync of 4 KiB, one at a time", b.limit.syncs, perSecond, 0, "")
	if b.limit.commits, err = b.commits(filepath.Join(dir, "bare.db")); err != nil {
		return err
	}
	b.addf("limit: bare store, one row each, 32 callers", b.limit.commits, perSecond, 0, "")
	return nil
}

var errNotVerified = errors.New("a signature of our own does not verify")

// verifications verifies on all CPUs for so long. It returns how many verifications
// a second has, and the microseconds of CPU for one.
func verifications(d time.Duration) (perSecond, cost float64, err error) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		return 0, 0, err
	}
	message := []byte(strings.Repeat("m", 150)) // about as long as what SSHSIG signs
	sig := ed25519.Sign(priv, message)
	var count atomic.Int64
	before, err := used()
	if err != nil {
		return 0, 0, err
	}
	perSecond, err = during(runtime.NumCPU(), d, func() error {
		if !ed25519.Verify(pub, message, sig) {
			return errNotVerified
		}
		count.Add(1)
		return nil
	})
	after, usedErr := used()
	return perSecond, inMicros(after-before) / float64(count.Load()), errors.Join(err, usedErr)
}

func (b *bench) syncs(path string) (float64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	page := make([]byte, 4096)
	n, err := during(1, b.size.limitTime, func() error {
		if _, err := f.Write(page); err != nil {
			return err
		}
		return unix.Fdatasync(int(f.Fd()))
	})
	return n, errors.Join(err, f.Close())
}

// commits is the store alone: transactions that insert one row as long as those
// of a journal.
func (b *bench) commits(path string) (float64, error) {
	const table = `CREATE TABLE rows(n INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;`
	s, err := store.Open(b.ctx, path, store.Options{Migrations: []store.Migration{{Version: 1, Name: "rows", SQL: table}}})
	if err != nil {
		return 0, err
	}
	body := strings.Repeat("r", 200)
	n, err := median(b.size.runs, func() (float64, error) {
		return during(clients, b.size.limitTime, func() error {
			return s.Update(b.ctx, func(tx *store.Tx) error {
				_, err := tx.Exec(`INSERT INTO rows(body) VALUES(?)`, body)
				return err
			})
		})
	})
	return n, errors.Join(err, s.Close())
}
