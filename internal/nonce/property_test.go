package nonce_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/nonce"
)

// The gate's values: a nonce is deleted if it expired so long before the mark, and
// still counts if it expired so long ago.
const (
	pruneMargin = time.Hour
	skew        = time.Minute
)

// model checks what a clock shows against earlier answers, and against a time that
// never jumps.
type model struct {
	*host
	rt   *rapid.T
	true time.Duration // all the time that passed

	seen     []shown // by this process
	trusted  nonce.Reading
	durable  nonce.Reading // the mark on disk
	payloads map[string]time.Time
}

// shown is what the clock showed when so much time had passed.
type shown struct {
	now      time.Time
	true     time.Duration
	anchored bool
}

func (m *model) pass(d time.Duration) { m.host.pass(d); m.true += d }

// read reads the clock, and checks that it neither goes back nor follows a jump.
func (m *model) read() nonce.Moment {
	now := m.clock.Now()
	if now.Mark.After(now.Now) {
		m.rt.Fatalf("the mark %s is after the time %s", now.Mark, now.Now)
	}
	if now.Now.Before(m.durable.Wall) {
		m.rt.Fatalf("the time %s is before the durable mark %s", now.Now, m.durable.Wall)
	}
	for i, was := range m.seen {
		passed := m.true - was.true
		if now.Now.Before(was.now) {
			m.rt.Fatalf("the time went back from %s to %s", was.now, now.Now)
		}
		// An hour to either side of where the steps of that day are counted from, and
		// one more for each day that began since.
		most := passed + 3*nonce.MaxJump + passed/nonce.Span*nonce.MaxJump + 2*nonce.MaxBehind
		if last := i == len(m.seen)-1; last && !now.Trusted {
			most = passed // a guess adds no error of its own
		}
		if got := now.Now.Sub(was.now); was.anchored && got > most {
			m.rt.Fatalf("the time went on by %s in %s", got, passed)
		}
	}
	if now.Trusted {
		m.trusted = m.now
		m.nothingCountsAgain(now.Now)
	}
	m.seen = append(m.seen, shown{now.Now, m.true, m.anchored()})
	return now
}

// anchored reports whether this process has trusted a clock, or continues from the
// mark of a process that did.
func (m *model) anchored() bool { return m.trusted.Boot != "" }

// nothingCountsAgain checks that every nonce whose payload could be accepted now is
// stored.
func (m *model) nothingCountsAgain(now time.Time) {
	for n, expires := range m.payloads {
		if now.After(expires.Add(skew)) {
			continue
		}
		err := m.store.View(m.t.Context(), func(tx *store.Tx) error {
			_, known, err := nonce.Lookup(tx, n)
			if err == nil && !known {
				m.rt.Fatalf("at %s a payload that expires at %s would count again", now, expires)
			}
			return err
		})
		if err != nil {
			m.rt.Fatal(err)
		}
	}
}

// decide commits, which writes the mark to disk.
func (m *model) decide(fn func(*store.Tx, nonce.Moment) error) {
	now := m.read()
	err := m.store.Update(m.t.Context(), func(tx *store.Tx) error { return fn(tx, now) })
	if err == nil {
		err = m.store.View(m.t.Context(), func(tx *store.Tx) error {
			mark, _, err := nonce.ReadMark(tx)
			if mark.Wall.Before(m.durable.Wall) {
				m.rt.Fatalf("the mark went back from %s to %s", m.durable.Wall, mark.Wall)
			}
			m.durable = mark
			return err
		})
	}
	if err != nil {
		m.rt.Fatal(err)
	}
}

// restart drops what only the process knew.
func (m *model) restart() {
	m.boot()
	m.seen, m.trusted = nil, nonce.Reading{}
	if m.durable.Boot == m.now.Boot && m.now.Elapsed >= m.durable.Elapsed {
		m.trusted = m.durable
	}
}

// right is a wall clock that continues from its last trusted time; after a boot, any
// time a little after the mark.
func (m *model) right() time.Time {
	if m.anchored() {
		return m.trusted.Wall.Add(m.now.Elapsed - m.trusted.Elapsed)
	}
	return m.durable.Wall.Add(time.Minute)
}

// TestClockProperty drives both clocks, decisions, restarts and boots at random.
func TestClockProperty(t *testing.T) {
	s := newStore(t)
	h := newHost(t, s)
	rapid.Check(t, func(rt *rapid.T) {
		h.boot() // a mark that the earlier clock has not written is lost
		if err := s.Update(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Exec(`DELETE FROM time_mark`)
			if err == nil {
				_, err = tx.Exec(`DELETE FROM nonces`)
			}
			return err
		}); err != nil {
			rt.Fatal(err)
		}
		h.now = nonce.Reading{Wall: start, Elapsed: time.Minute, Boot: "first"}
		m := &model{host: h, rt: rt, payloads: map[string]time.Time{}}
		m.restart()
		m.decide(func(*store.Tx, nonce.Moment) error { return nil })
		rt.Repeat(m.actions())
	})
}

func (m *model) ms(what string, lo, hi int64) time.Duration {
	return time.Duration(rapid.Int64Range(lo, hi).Draw(m.rt, what)) * time.Millisecond
}

const hourMS = 3_600_000

func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"time passes":   func(*rapid.T) { m.pass(m.ms("passes", 0, 2*hourMS)) },
		"suspend":       func(*rapid.T) { m.pass(m.ms("sleeps", 0, 40*24*hourMS)) },
		"ntp":           func(*rapid.T) { m.step(m.ms("step", -500, 500)) },
		"a larger step": func(*rapid.T) { m.step(m.ms("step", -hourMS, hourMS)) },
		"jump":          func(*rapid.T) { m.step(m.ms("jump", -1e12, 1e12)) },
		"decide":        func(*rapid.T) { m.decide(func(*store.Tx, nonce.Moment) error { return nil }) },
		"read":          func(*rapid.T) { m.read() },
		"spend": func(*rapid.T) {
			life := m.ms("life", 1000, 24*hourMS)
			n := op.NewNonce(time.Now())
			m.decide(func(tx *store.Tx, now nonce.Moment) error {
				if !now.Trusted {
					return nil
				}
				expires := now.Now.Add(life).Truncate(time.Second)
				m.payloads[n] = expires
				return nonce.Issue(tx, nonce.Record{Nonce: n, Request: op.RequestID{Job: 1, Index: 1}, ExpiresAt: expires, Fate: nonce.Used})
			})
		},
		"prune": func(*rapid.T) {
			m.decide(func(tx *store.Tx, now nonce.Moment) error {
				if !now.Trusted {
					return nil
				}
				_, err := nonce.Prune(tx, now.Mark.Add(-pruneMargin), 1000)
				return err
			})
		},
		"a jump is not trusted, and the clock that comes back is": func(*rapid.T) {
			m.now.Wall = m.right()
			if now := m.read(); !now.Trusted {
				m.rt.Fatalf("the clock is right: %s", now.Why)
			}
			by := nonce.MaxJump + time.Millisecond + m.ms("jump", 0, 1e12)
			m.step(by)
			if m.read().Trusted {
				m.rt.Fatalf("a jump by %s is trusted", by)
			}
			if rapid.Bool().Draw(m.rt, "restart") {
				m.decide(func(*store.Tx, nonce.Moment) error { return nil })
				m.restart()
				// Against the mark, which may be older than the last small steps. If the clock
				// has not passed it yet, the mark may be of an earlier boot.
				shows := m.anchored() && m.now.Jump(m.trusted) > nonce.MaxJump
				if m.read().Trusted && shows {
					m.rt.Fatalf("a jump by %s is trusted after a restart", by)
				}
			}
			m.now.Wall = m.right()
			if now := m.read(); !now.Trusted {
				m.rt.Fatalf("the clock is right again: %s", now.Why)
			}
		},
		"small steps one after the other": func(*rapid.T) {
			by := m.ms("step", hourMS/2, hourMS)
			for range rapid.IntRange(1, 10).Draw(m.rt, "steps") {
				m.step(by)
				m.read()
				m.pass(time.Minute)
			}
		},
		"a clock that comes back behind what was guessed": func(*rapid.T) {
			m.step(50 * 365 * 24 * time.Hour)
			m.pass(m.ms("passes", 0, 2*hourMS))
			m.read()
			m.now.Wall = m.right().Add(-m.ms("behind", 0, hourMS))
			m.read()
		},
		"restart": func(*rapid.T) { m.restart() },
		"boot": func(*rapid.T) {
			m.now.Elapsed, m.now.Boot = m.ms("up", 0, 60_000), rapid.StringMatching(`[a-z]{8}`).Draw(m.rt, "boot")
			m.restart()
		},
		"a snapshot with its memory": func(*rapid.T) {
			m.now.Elapsed = min(m.now.Elapsed, m.durable.Elapsed-1)
			m.restart()
		},
		"away too long": func(*rapid.T) {
			m.now.Elapsed, m.now.Boot = time.Second, rapid.StringMatching(`[a-z]{8}`).Draw(m.rt, "boot")
			m.restart()
			m.now.Wall = m.durable.Wall.Add(nonce.MaxAway + time.Second)
			if m.read().Trusted {
				m.rt.Fatal("more than 30 days away are trusted")
			}
			m.now.Wall = m.right()
			if now := m.read(); !now.Trusted {
				m.rt.Fatalf("the clock is right again: %s", now.Why)
			}
		},
		"": func(*rapid.T) { m.read() },
	}
}
