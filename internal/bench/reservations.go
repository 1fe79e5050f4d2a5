package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/api"
	"gated/internal/life"
	"gated/internal/store"
)

const (
	holders   = 8   // clients that reserve and release
	pairsEach = 500 // pairs that each of them makes in a run
	pairRuns  = 3
)

// crowds are how many others have something reserved in the same scope.
var crowds = []int{0, 1_000, 10_000, 100_000}

// reservations measures making and releasing one with more and more others in
// the same scope, by turns with a gate that has none.
func (b *bench) reservations() error {
	bare, err := b.barePairs()
	if err != nil {
		return err
	}
	b.table.add(row{what: "limit: bare store, as many rows as a pair, 8 callers", value: bare, unit: perSecond,
		beside: fmt.Sprintf("two transactions each; one fdatasync takes %.2f ms", 1000/b.limit.syncs)})
	at, err := b.scope("checkout")
	if err != nil {
		return err
	}
	others := &others{place: at}
	empty, err := b.state("reservations-none")
	if err != nil {
		return err
	}
	crowded, err := b.state("reservations")
	if err != nil {
		return err
	}
	for _, n := range crowds {
		began := now()
		if err := others.upTo(b.ctx, crowded, n); err != nil {
			return err
		}
		fmt.Fprintf(b.Progress, "  %d others in %.0f s\n", n, now().Sub(began).Seconds())
		none, some, err := b.byTurns(empty, crowded, at)
		if err != nil {
			return err
		}
		if n == 0 {
			b.pairRow("reserve and release, 8 clients, nobody else", none)
			inside, err := b.inside(empty, at)
			if err != nil {
				return err
			}
			b.table.add(row{"  the same without the socket", inside, perSecond, 0, "calls of the book in one process"})
			continue
		}
		b.pairRow(fmt.Sprintf("  %d others in the scope", n), some)
		var slower []float64
		for i := range none {
			slower = append(slower, none[i].rate/some[i].rate)
		}
		b.table.add(row{"    slower than with nobody else", middle(slower), plain, 1.3, "by turns in this run, " +
			fmt.Sprintf("%.0f/s; CPU of the daemon %.2f × as much", medianOf(none, pairing.perSecond), medianOf(some, pairing.micros)/medianOf(none, pairing.micros))})
	}
	return b.consistent(crowded)
}

// consistent has fsck look at a state directory.
func (b *bench) consistent(dir string) error {
	r, err := life.Fsck(b.ctx, dir)
	if err == nil && len(r.Problems) > 0 {
		err = fmt.Errorf("fsck finds %d problems, the first of them: %v", len(r.Problems), r.Problems[0])
	}
	return err
}

func (b *bench) pairRow(what string, turns []pairing) {
	var took []float64
	for _, t := range turns {
		took = append(took, t.took...)
	}
	b.table.add(row{what, medianOf(turns, pairing.perSecond), perSecond, 3000,
		fmt.Sprintf("CPU %.0f µs for a pair; p50 %.2f ms, p99 %.2f ms", medianOf(turns, pairing.micros), middle(took), quantile(took, 0.99))})
}

// pairing is what one load of pairs cost.
type pairing struct {
	rate, cpu float64 // pairs a second, µs of the daemon for one
	took      []float64
}

func (p pairing) perSecond() float64 { return p.rate }

func (p pairing) micros() float64 { return p.cpu }

func medianOf(turns []pairing, what func(pairing) float64) float64 {
	var values []float64
	for _, t := range turns {
		values = append(values, what(t))
	}
	return middle(values)
}

// byTurns loads two gates one after the other, several times.
func (b *bench) byTurns(empty, crowded string, at api.Place) (none, some []pairing, err error) {
	e, err := b.holders(empty)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	c, err := b.holders(crowded)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	for range pairRuns {
		first, err := e.load(at)
		if err != nil {
			return nil, nil, err
		}
		second, err := c.load(at)
		if err != nil {
			return nil, nil, err
		}
		none, some = append(none, first), append(some, second)
	}
	return none, some, nil
}

// serving is the real daemon with clients that reserve.
type serving struct {
	*process
	clients []*holding
}

func (b *bench) holders(dir string) (*serving, error) {
	p, _, err := startProcess(b.ctx, socketIn(dir), b.program("gated"), "serve", "--state", dir, "--socket", socketIn(dir))
	if err != nil {
		return nil, err
	}
	s := &serving{process: p}
	for i := range holders {
		// The names of the run before are still there.
		c, err := join(p.socket, fmt.Sprintf("bench%d-%d", now().UnixNano(), i))
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		s.clients = append(s.clients, c)
	}
	return s, nil
}

func (s *serving) stop() error {
	for _, c := range s.clients {
		_ = c.Close()
	}
	return s.process.stop()
}

func (s *serving) load(at api.Place) (p pairing, err error) {
	before := cpuOf(s.pid())
	d, took, err := pairsOf(s.clients, at)
	n := len(took)
	return pairing{rate(n, d), float64((cpuOf(s.pid())-before)/time.Microsecond) / float64(n), took}, err
}

// pairsOf has every client make its pairs, in a directory of its own, and
// returns the time for all and for each in milliseconds.
func pairsOf(all []*holding, at api.Place) (time.Duration, []float64, error) {
	took, errs := make([][]float64, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	began := now()
	for i, h := range all {
		wg.Go(func() {
			for range pairsEach {
				claim, err := h.claim(api.Reserve{Scope: at, Patterns: []string{fmt.Sprintf("work/c%d/**", i)}, Reason: "bench"})
				if err != nil {
					errs[i] = err
					return
				}
				d, err := h.pair(claim)
				if err != nil {
					errs[i] = err
					return
				}
				took[i] = append(took[i], inMillis(d))
			}
		})
	}
	wg.Wait()
	return now().Sub(began), slices.Concat(took...), errors.Join(errs...)
}

// barePairs is the store alone: the rows that a reservation, its pattern and two
// entries of the log are, written in one transaction and removed in the next.
func (b *bench) barePairs() (float64, error) {
	dir, err := b.dir("bare-pairs")
	if err != nil {
		return 0, err
	}
	s, err := store.Open(b.ctx, filepath.Join(dir, "bare.db"), store.Options{Migrations: []store.Migration{{Version: 1, Name: "rows",
		SQL: `CREATE TABLE kept(n INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
			CREATE TABLE log(n INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;`}}})
	if err != nil {
		return 0, err
	}
	row, entry := strings.Repeat("r", 150), strings.Repeat("e", 400)
	n, err := median(limitRuns, func() (float64, error) {
		return during(holders, limitTime, func() error {
			var first, second int64
			err := s.Update(context.Background(), func(tx *store.Tx) (err error) {
				if first, err = tx.Insert(`INSERT INTO kept(body) VALUES(?)`, row); err == nil {
					second, err = tx.Insert(`INSERT INTO kept(body) VALUES(?)`, row)
				}
				return errors.Join(err, insertEntry(tx, entry))
			})
			if err != nil {
				return err
			}
			return s.Update(context.Background(), func(tx *store.Tx) error {
				_, err := tx.Exec(`DELETE FROM kept WHERE n IN (?, ?)`, first, second)
				return errors.Join(err, insertEntry(tx, entry))
			})
		})
	})
	return n, errors.Join(err, s.Close())
}

func insertEntry(tx *store.Tx, entry string) error {
	_, err := tx.Exec(`INSERT INTO log(body) VALUES(?)`, entry)
	return err
}
