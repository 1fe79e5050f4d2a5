package bench

import (
	"errors"
	"fmt"
	"time"

	"gated/client/api"
)

// holders is how many clients reserve and release.
const holders = 8

// reservations measures pairs, each a reservation and its release: beside a plain
// peer, and beside the same gate with reservations of others in the same scope.
func (b *bench) reservations() error {
	at, err := b.scope("checkout")
	if err != nil {
		return err
	}
	empty, err := b.state("reservations-none")
	if err != nil {
		return err
	}
	none, err := b.holders(empty)
	if err != nil {
		return err
	}
	err = errors.Join(b.besidePeer(none, at), b.amongOthers(none, at), none.stop())
	if err != nil {
		return err
	}
	inside, err := b.pairsInside(empty, at)
	if err != nil {
		return err
	}
	b.addf("reserve and release, without the socket", inside, perSecond, 0, "calls of the book in one process")
	return b.consistent(empty)
}

// besidePeer adds the rows without others. The plain peer takes turns.
func (b *bench) besidePeer(none *serving, at api.Place) error {
	dir, err := b.dir("peer")
	if err != nil {
		return err
	}
	p, _, err := startProcess(b.ctx, socketIn(dir), b.Self, "peer", dir)
	if err != nil {
		return err
	}
	peer, err := joined(p)
	if err != nil {
		return err
	}
	ours, theirs, err := b.byTurns(none, peer, at)
	if err = errors.Join(err, peer.stop()); err != nil {
		return err
	}
	b.ratioRow("reserve and release, 8 clients, no others", ours.middle(), 5.0)
	b.addf("  against a plain peer", middle(quotients(ours, theirs)), times, 0.8, "the peer: %.0f/s, CPU %.0f µs for a pair",
		theirs.middle().rate, theirs.middle().daemon)
	return nil
}

// amongOthers adds the rows with many reservations of others in the scope.
func (b *bench) amongOthers(none *serving, at api.Place) error {
	crowded, err := b.state("reservations")
	if err != nil {
		return err
	}
	began, n := now(), b.size.others
	if err := (&others{place: at}).upTo(b.ctx, crowded, n); err != nil {
		return err
	}
	fmt.Fprintf(b.Progress, "  %d others in %.0f s\n", n, now().Sub(began).Seconds())
	crowd, err := b.holders(crowded)
	if err != nil {
		return err
	}
	without, with, err := b.byTurns(none, crowd, at)
	if err = errors.Join(err, crowd.stop()); err != nil {
		return err
	}
	b.ratioRow(fmt.Sprintf("  %d others in the scope", n), with.middle(), 0)
	b.addf("    slower than without others", middle(quotients(without, with)), plain, 1.3,
		"by turns in this run, %.0f/s; CPU of the daemon %s", without.of(result.perSecond),
		compared(with.of(result.verifications), without.of(result.verifications)))
	return b.consistent(crowded)
}

// quotients are the rates of each turn, divided by those of the others.
func quotients(these, others results) []float64 {
	var out []float64
	for i := range these {
		out = append(out, these[i].rate/others[i].rate)
	}
	return out
}

// compared says how many times as much a is as b. The kernel counts CPU time in
// steps of 10 ms, so a short run may have none.
func compared(a, b float64) string {
	if b == 0 {
		return "was too little to count"
	}
	return fmt.Sprintf("%.2f × as much", a/b)
}

// byTurns loads two servers one after the other, several times.
func (b *bench) byTurns(first, second *serving, at api.Place) (of1, of2 results, err error) {
	for range b.size.runs {
		one, err := b.pairs(first, at)
		if err != nil {
			return nil, nil, err
		}
		two, err := b.pairs(second, at)
		if err != nil {
			return nil, nil, err
		}
		of1, of2 = append(of1, one), append(of2, two)
	}
	return of1, of2, nil
}

// serving is a server of reservations with clients that reserve.
type serving struct {
	*process
	clients []*holding
}

// holders starts the real daemon, and has the clients join.
func (b *bench) holders(dir string) (*serving, error) {
	p, _, err := b.daemon(dir, socketIn(dir))
	if err != nil {
		return nil, err
	}
	return joined(p)
}

// joined has the clients join a server. If that fails, it stops the server.
func joined(p *process) (*serving, error) {
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
