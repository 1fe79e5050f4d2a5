package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"gated/internal/ledger"
	"gated/internal/ledger/pg"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
)

// writer is one daemon under load: it appends, and settles what is in doubt, as a gate does.
type writer struct {
	settings pg.Settings
	engine   *pg.Engine
	era      uint64
	last     uint64            // newest number that was acknowledged or settled as kept
	told     map[uint64]string // acknowledged, or settled as kept: the group's body
	never    map[uint64]int    // how often a number was settled as not kept
	err      error             // what must not happen
	turn     chan struct{}     // a fenced writer with a rival waits for its turn, and takes over
	takes    int               // how often it took over
	size     int               // of a body, in bytes, at least
}

func newWriter(t testing.TB, s pg.Settings) *writer {
	t.Helper()
	patient := s // the limit is for what the test is about
	patient.Limit = max(s.Limit, time.Minute)
	p := must.Get(open(t, patient).Take(context.Background(), 0))(t)
	return &writer{settings: s, engine: open(t, s), era: p.Era, told: map[uint64]string{}, never: map[uint64]int{}}
}

// attempt names one try of a number, so that a group that was settled as not kept is told from its successor.
func (w *writer) attempt(n uint64) ledger.Group {
	body := fmt.Appendf(nil, "%d of era %d, attempt %d", n, w.era, w.never[n])
	body = append(body, strings.Repeat(".", w.size)...)
	return ledger.Group{Number: n, Era: w.era, Body: body, Signature: []byte{1}}
}

// newRival is a second daemon of a writer's gate. Both wait when they are fenced.
func newRival(t testing.TB, of *writer) *writer {
	t.Helper()
	of.turn = make(chan struct{}, 1)
	return &writer{settings: of.settings, engine: open(t, of.settings), told: map[uint64]string{}, never: map[uint64]int{}, turn: make(chan struct{}, 1)}
}

// takesOver waits for the writer's turn, and takes the next era. It is false at the end.
func (w *writer) takesOver(stop <-chan struct{}) bool {
	select {
	case <-w.turn:
	case <-stop:
		return false
	}
	for !ended(stop) {
		p, err := w.engine.Position(context.Background())
		if err == nil {
			p, err = w.engine.Take(context.Background(), p.Era)
		}
		if err == nil {
			w.era, w.last = p.Era, p.Last
			w.takes++
			return true
		}
	}
	return false
}

// write appends until stop is closed. It settles for as long as it takes, until stop.
func (w *writer) write(stop <-chan struct{}, wrote func()) {
	for {
		if w.era == 0 && !w.takesOver(stop) {
			return
		}
		n := w.last + 1
		g := w.attempt(n)
		err := w.engine.Append(g)
		for errors.Is(err, ledger.ErrInDoubt) {
			kept, settled := w.engine.Settle(w.era, n)
			if w.turn != nil && errors.Is(settled, ledger.ErrFenced) {
				err = settled
				break
			}
			if settled == nil {
				if err = nil; !kept {
					w.never[n]++
					err = ledger.ErrUnavailable
				}
			}
			if ended(stop) {
				break
			}
		}
		if err == nil {
			w.last, w.told[n] = n, string(g.Body)
			wrote()
		} else if w.turn != nil && errors.Is(err, ledger.ErrFenced) {
			w.era = 0
		} else if !errors.Is(err, ledger.ErrUnavailable) && !errors.Is(err, ledger.ErrInDoubt) {
			w.err = err
			return
		}
		if ended(stop) {
			return
		}
	}
}

func ended(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// load runs writers until the end of during, which is given a wait for so many further groups.
func load(t testing.TB, writers []*writer, during func(more func(n int))) {
	t.Helper()
	stop := make(chan struct{})
	wrote := make(chan struct{})
	var all sync.WaitGroup
	for _, w := range writers {
		all.Go(func() {
			w.write(stop, func() {
				select {
				case wrote <- struct{}{}:
				case <-stop:
				}
			})
		})
	}
	var draining sync.WaitGroup
	count := make(chan int)
	draining.Go(func() { // counts, so that no writer waits for the test
		total, wanted := 0, 0
		var reply chan int
		for {
			if reply != nil && total >= wanted {
				reply <- total
				reply = nil
			}
			select {
			case <-wrote:
				total++
			case n := <-count:
				wanted, reply = total+n, count
			case <-stop:
				return
			}
		}
	})
	during(func(n int) { count <- n; <-count })
	close(stop)
	all.Wait()
	draining.Wait()
	for _, w := range writers {
		if w.err != nil {
			t.Fatal(w.err)
		}
	}
}

// lost counts groups that a writer was told of, and that a cluster lacks or has with another body.
func lost(t testing.TB, c *postgres.Cluster, writers []*writer) (told, lost int) {
	t.Helper()
	for _, w := range writers {
		have := map[string]string{}
		for _, row := range c.Exec(t, fmt.Sprintf(`SELECT n, convert_from(body, 'UTF8') FROM gated.groups WHERE gate = convert_to('%s', 'UTF8')`, w.settings.Gate)) {
			have[row[0]] = row[1]
		}
		for n, body := range w.told {
			told++
			if have[fmt.Sprint(n)] != body {
				lost++
				t.Errorf("%s lost group %d: it has %q", w.settings.Gate, n, have[fmt.Sprint(n)])
			}
		}
	}
	return told, lost
}
