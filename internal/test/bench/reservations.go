package bench

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"gated/internal/base/store"
	"gated/internal/wire/api"
)

// holders is how many clients reserve and release.
const holders = 8

// reservations measures pairs, each a reservation and its release, with more and
// more reservations of others in the same scope. A gate without others takes turns.
func (b *bench) reservations() error {
	bare, err := b.barePairs()
	if err != nil {
		return err
	}
	b.addf("limit: bare store, as many rows as a pair, 8 callers", bare, perSecond, 0,
		"two transactions each; %s", b.limit.sync())
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
	for _, n := range b.size.crowds {
		began := now()
		if err := others.upTo(b.ctx, crowded, n); err != nil {
			return err
		}
		fmt.Fprintf(b.Progress, "  %d others in %.0f s\n", n, now().Sub(began).Seconds())
		if err := b.amongOthers(empty, crowded, n, at); err != nil {
			return err
		}
	}
	return b.consistent(crowded)
}

// amongOthers adds the rows for n others in the scope.
func (b *bench) amongOthers(empty, crowded string, n int, at api.Place) error {
	none, some, err := b.byTurns(empty, crowded, at)
	if err != nil {
		return err
	}
	if n == 0 {
		b.pairRow("reserve and release, 8 clients, no others", none)
		inside, err := b.pairsInside(empty, at)
		if err != nil {
			return err
		}
		b.addf("  the same without the socket", inside, perSecond, 0, "calls of the book in one process")
		return b.consistent(empty)
	}
	b.pairRow(fmt.Sprintf("  %d others in the scope", n), some)
	var slower []float64
	for i := range none {
		slower = append(slower, none[i].rate/some[i].rate)
	}
	b.addf("    slower than without others", middle(slower), plain, 1.3,
		"by turns in this run, %.0f/s; CPU of the daemon %s", none.of(result.perSecond),
		compared(some.of(result.verifications), none.of(result.verifications)))
	return nil
}

// compared says how many times as much a is as b. The kernel counts CPU time in
// steps of 10 ms, so a short run may have none.
func compared(a, b float64) string {
	if b == 0 {
		return "was too little to count"
	}
	return fmt.Sprintf("%.2f × as much", a/b)
}

func (b *bench) pairRow(what string, turns results) {
	r := turns.middle()
	b.ratioRow(what, r, 5.0)
}

// byTurns loads two gates one after the other, several times.
func (b *bench) byTurns(empty, crowded string, at api.Place) (none, some results, err error) {
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
	for range b.size.runs {
		first, err := b.pairs(e, at)
		if err != nil {
			return nil, nil, err
		}
		second, err := b.pairs(c, at)
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
	p, _, err := b.daemon(dir, socketIn(dir))
	if err != nil {
		return nil, err
	}
	s := &serving{process: p}
	for i := range holders {
		// A name is new in each run, because the gate still has those of the run before.
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

// pairs has the clients make pairs, each client in a directory of its own.
func (b *bench) pairs(s *serving, at api.Place) (result, error) {
	claims := make([][]byte, len(s.clients))
	for i, h := range s.clients {
		var err error
		wants := api.Reserve{Scope: at, Patterns: []string{fmt.Sprintf("work/c%d/**", i)}, Reason: "bench"}
		if claims[i], err = h.claim(wants); err != nil {
			return result{}, err
		}
	}
	return b.costing(s.process, func() (time.Duration, []float64, error) {
		return share(len(claims), b.size.pairs*len(claims), func(i, _ int) error { return s.clients[i].pair(claims[i]) })
	})
}

// barePairs is the store alone: the rows that a reservation, its pattern and two
// entries of the log are, written in one transaction and removed in the next.
func (b *bench) barePairs() (float64, error) {
	dir, err := b.dir("bare-pairs")
	if err != nil {
		return 0, err
	}
	row, entry := strings.Repeat("r", 150), strings.Repeat("e", 400)
	const tables = `CREATE TABLE kept(n INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
		CREATE TABLE log(n INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;`
	return b.bareStore(filepath.Join(dir, "bare.db"), holders, tables, func(s *store.Store) error {
		var first, second int64
		err := s.Update(b.ctx, func(tx *store.Tx) (err error) {
			if first, err = tx.Insert(`INSERT INTO kept(body) VALUES(?)`, row); err == nil {
				second, err = tx.Insert(`INSERT INTO kept(body) VALUES(?)`, row)
			}
			return errors.Join(err, insertEntry(tx, entry))
		})
		if err != nil {
			return err
		}
		return s.Update(b.ctx, func(tx *store.Tx) error {
			_, err := tx.Exec(`DELETE FROM kept WHERE n IN (?, ?)`, first, second)
			return errors.Join(err, insertEntry(tx, entry))
		})
	})
}

func insertEntry(tx *store.Tx, entry string) error {
	_, err := tx.Exec(`INSERT INTO log(body) VALUES(?)`, entry)
	return err
}
