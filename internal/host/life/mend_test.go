package life

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/config"
	"gated/internal/ledger"
	"gated/internal/ledger/memory"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// cut is a member's way to a ledger that breaks after some calls, as for a command that is killed there.
type cut struct {
	ledger.Engine
	left   int
	kept   bool // the last call arrives, and its answer is lost
	before func(call string)
	of     *memory.Ledger
}

// pass makes a call, if the way is not broken.
func (c *cut) pass(call string, do func() error) error {
	if c.before != nil {
		c.before(call)
	}
	c.left--
	switch {
	case c.left > 0:
		return do()
	case c.left == 0 && c.kept:
		if err := do(); err != nil {
			return err
		}
		return ledger.ErrInDoubt
	}
	return ledger.ErrUnavailable
}

func (c *cut) Position(ctx context.Context) (p ledger.Position, err error) {
	err = c.pass("position", func() (err error) { p, err = c.Engine.Position(ctx); return err })
	return p, err
}

func (c *cut) Base(ctx context.Context) (b ledger.Base, err error) {
	err = c.pass("base", func() (err error) { b, err = c.Engine.Base(ctx); return err })
	return b, err
}

func (c *cut) BaseBody(ctx context.Context, b ledger.Base) (body []byte, err error) {
	err = c.pass("body", func() (err error) { body, err = c.Engine.BaseBody(ctx, b); return err })
	return body, err
}

func (c *cut) Read(ctx context.Context, after uint64, most int) (g []ledger.Group, err error) {
	err = c.pass("read", func() (err error) { g, err = c.Engine.Read(ctx, after, most); return err })
	return g, err
}

func (c *cut) PutBase(b ledger.Base, body []byte, in uint64) error {
	return c.pass("put", func() error { return c.Engine.PutBase(b, body, in) })
}

// Mend has two steps in PostgreSQL: the era, and the base.
func (c *cut) Mend(ctx context.Context, from ledger.Position, era uint64, b ledger.Base, body []byte) error {
	if err := c.pass("era", func() error {
		c.of.Change(func(g []ledger.Group, now uint64) ([]ledger.Group, uint64) { return g, era - 1 })
		return nil
	}); err != nil {
		return err
	}
	return c.pass("mend", func() error { return c.Engine.Mend(ctx, ledger.Position{Era: era - 1, Last: from.Last}, era, b, body) })
}

// mended is a gate in a ledger, with its options and how many entries its callers heard of.
type mended struct {
	t      *testing.T
	ledger *memory.Ledger
	o      LedgerOptions
}

// inALedger makes a gate that decided three times.
func inALedger(t *testing.T) mended {
	l := memory.New()
	dir := memberOf(t, l)
	for range 3 {
		decide(t, dir, l)
	}
	return mended{t, l, LedgerOptions{StateDir: dir, Engines: enginesOf(l.Member())}}
}

func enginesOf(e ledger.Engine) Engines {
	return func(context.Context, config.Store, op.GateID) (ledger.Engine, error) { return e, nil }
}

// through is the options for a way that breaks.
func (m mended) through(c *cut) LedgerOptions {
	c.Engine, c.of = m.ledger.Member(), m.ledger
	return LedgerOptions{StateDir: m.o.StateDir, Engines: enginesOf(c)}
}

// entries is how long the audit log of this member is.
func (m mended) entries() (n int64) {
	here := must.Get(look(m.t.Context(), m.o.StateDir))(m.t)
	require.NoError(m.t, here.Store.View(m.t.Context(), func(tx *store.Tx) error {
		head, err := audit.ReadHead(tx)
		n = head.Seq
		return err
	}))
	require.NoError(m.t, here.Close())
	return n
}

// sound replays the ledger into an empty database, which then has every table as this member has it.
func (m mended) sound() {
	m.t.Helper()
	r := FsckReport{Sound: true}
	require.NoError(m.t, FsckLedger(m.t.Context(), m.again(), &r))
	require.True(m.t, r.Sound, r.Problems)
}

// again is the options for a way that holds.
func (m mended) again() LedgerOptions {
	return LedgerOptions{StateDir: m.o.StateDir, Engines: enginesOf(m.ledger.Member())}
}

// lose takes all groups but the first ones away.
func (m mended) lose(but int) {
	m.ledger.Change(func(g []ledger.Group, era uint64) ([]ledger.Group, uint64) { return g[:but], era })
}

// TestACompactionThatIsKilled between each two calls: the gate goes on, a replay has every table, and it can be called again.
func TestACompactionThatIsKilled(t *testing.T) {
	for _, kept := range []bool{false, true} {
		for calls, done := 1, false; !done; calls++ {
			t.Run(fmt.Sprintf("after %d calls, the last one kept: %v", calls, kept), func(t *testing.T) {
				m := inALedger(t)
				was := m.entries()
				_, err := Compact(t.Context(), m.through(&cut{left: calls, kept: kept}))
				done = err == nil
				m.sound()
				decide(t, m.o.StateDir, m.ledger)
				require.Greater(t, m.entries(), was)
				m.sound()
				c := must.Get(Compact(t.Context(), m.again()))(t)
				require.Equal(t, c.Here.Number, c.Base)
				require.Empty(t, m.ledger.Groups())
				m.sound()
			})
		}
	}
}

// TestARepairThatIsKilled between each two calls: the member decides nothing or has all its groups, and it can be called
// again.
func TestARepairThatIsKilled(t *testing.T) {
	for _, kept := range []bool{false, true} {
		for calls, done := 1, false; !done; calls++ {
			t.Run(fmt.Sprintf("after %d calls, the last one kept: %v", calls, kept), func(t *testing.T) {
				m := inALedger(t)
				was := m.entries()
				m.lose(2)
				_, err := RepairLedger(t.Context(), RepairOptions{LedgerOptions: m.through(&cut{left: calls, kept: kept})})
				done = err == nil
				o, err := OpenActive(t.Context(), m.o.StateDir, slog.New(slog.DiscardHandler), m.ledger.Member())
				if err == nil {
					require.NoError(t, o.Close())
				} else {
					require.ErrorIs(t, err, refusal.Conflict)
					require.ErrorContains(t, err, "groups")
					must.Get(RepairLedger(t.Context(), RepairOptions{LedgerOptions: m.again()}))(t)
				}
				require.Equal(t, was, m.entries())
				m.sound()
				decide(t, m.o.StateDir, m.ledger)
				m.sound()
			})
		}
	}
}

// TestACompactionBesideOthers: the active member appends between its calls, and another member takes over.
func TestACompactionBesideOthers(t *testing.T) {
	m := inALedger(t)
	once := func(at string, do func()) func(string) {
		return func(call string) {
			if call == at && do != nil {
				do()
				do = nil
			}
		}
	}
	_, err := Compact(t.Context(), m.through(&cut{left: 1000, before: once("put", func() { decide(t, m.o.StateDir, m.ledger) })}))
	require.ErrorIs(t, err, refusal.Unavailable, "the daemon that appended began an era")
	require.ErrorContains(t, err, "the ledger is as it was")
	require.NotEmpty(t, m.ledger.Groups())
	m.sound()

	active := must.Get(OpenActive(t.Context(), m.o.StateDir, slog.New(slog.DiscardHandler), m.ledger.Member()))(t)
	active.Store.OnGroup(audit.Seal)
	c, err := Compact(t.Context(), m.through(&cut{left: 1000, before: once("put", func() { write(t, active) })}))
	require.NoError(t, err)
	require.Len(t, m.ledger.Groups(), 1)
	require.Equal(t, c.Base+1, c.Here.Number)
	write(t, active)
	require.NoError(t, active.Close())
	m.sound()
}

// TestWhatFsckFindsInALedger names the table, or the group.
func TestWhatFsckFindsInALedger(t *testing.T) {
	for _, c := range []struct {
		name, problem, refused string
		plant                  func(m mended)
	}{
		{name: "a row here", problem: "the table audit", plant: func(m mended) {
			db := must.Get(sql.Open("sqlite", "file:"+filepath.Join(m.o.StateDir, "gated.db")))(m.t)
			must.Get(db.Exec(`UPDATE audit SET body = CAST(body || ' ' AS BLOB) WHERE seq = 1`))(m.t)
			require.NoError(m.t, db.Close())
		}},
		{name: "a group that is missing there", refused: "it has 3 groups, and 4 are here", plant: func(m mended) {
			m.ledger.Change(func(g []ledger.Group, era uint64) ([]ledger.Group, uint64) { return append(g[:1], g[2:]...), era })
		}},
		{name: "another body", refused: "group 2", plant: func(m mended) {
			m.ledger.Change(func(g []ledger.Group, era uint64) ([]ledger.Group, uint64) { g[1].Body = g[0].Body; return g, era })
		}},
		{name: "the newest groups are missing there", refused: "group", plant: func(m mended) { m.lose(2) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := inALedger(t)
			m.sound()
			c.plant(m)
			r := FsckReport{Sound: true}
			err := FsckLedger(t.Context(), m.again(), &r)
			_, compacting := Compact(t.Context(), m.again())
			require.ErrorIs(t, compacting, refusal.Conflict)
			require.Zero(t, must.Get(m.ledger.Member().Base(t.Context()))(t).Number, "what differs is no base")
			if c.refused != "" {
				require.ErrorIs(t, err, refusal.Conflict)
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			require.Len(t, r.Problems, 1)
			require.Contains(t, r.Problems[0].Detail, c.problem)
			require.ErrorContains(t, compacting, c.problem)
		})
	}
}

// TestARepairBesideOthers: while the operator is asked, another member changes the ledger, and all that it did stays.
func TestARepairBesideOthers(t *testing.T) {
	for name, meanwhile := range map[string]func(m mended){
		"begins an era": func(m mended) {
			e := m.ledger.Member()
			must.Get(e.Take(m.t.Context(), must.Get(e.Position(m.t.Context()))(m.t).Era))(m.t)
		},
		"appends a group": func(m mended) {
			m.ledger.Change(func(g []ledger.Group, era uint64) ([]ledger.Group, uint64) {
				return append(g, ledger.Group{Number: uint64(len(g) + 1), Era: era}), era
			})
		},
		"repairs": func(m mended) {
			e := m.ledger.Member()
			at := must.Get(e.Position(m.t.Context()))(m.t)
			require.NoError(m.t, e.Mend(m.t.Context(), at, at.Era+1, ledger.Base{Number: 100, Era: at.Era}, []byte("more rows")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := inALedger(t)
			m.lose(2)
			var groups []ledger.Group
			var base ledger.Base
			_, err := RepairLedger(t.Context(), RepairOptions{LedgerOptions: m.again(), Agree: func(Repair) error {
				meanwhile(m)
				groups, base = m.ledger.Groups(), must.Get(m.ledger.Member().Base(t.Context()))(t)
				return nil
			}})
			require.ErrorIs(t, err, refusal.Conflict)
			require.ErrorContains(t, err, "another member changed the ledger meanwhile")
			require.Equal(t, groups, m.ledger.Groups())
			require.Equal(t, base, must.Get(m.ledger.Member().Base(t.Context()))(t))
		})
	}
}

// TestARepairTellsOfAnEraOfAnotherMember whose groups the ledger lost, and this member never saw.
func TestARepairTellsOfAnEraOfAnotherMember(t *testing.T) {
	m := inALedger(t)
	m.lose(2)
	e := m.ledger.Member()
	at := must.Get(e.Take(t.Context(), must.Get(e.Position(t.Context()))(t).Era))(t)
	var asked Repair
	must.Get(RepairLedger(t.Context(), RepairOptions{LedgerOptions: m.again(), Agree: func(r Repair) error { asked = r; return nil }}))(t)
	require.Equal(t, at.Era, asked.There.Era)
	require.Equal(t, at.Era-1, asked.Began)
	m.sound()
}

// TestRepairRefuses wherever a member cannot know that it has every decision, and changes nothing.
func TestRepairRefuses(t *testing.T) {
	for _, c := range []struct {
		name, says string
		lost       func(m mended)
	}{
		{"nothing is lost", "nothing to repair", func(mended) {}},
		{"another member made the newest group", "another member decided last", func(m mended) {
			m.lose(2)
			require.NoError(m.t, RememberEra(m.o.StateDir, 1))
		}},
		{"what is left is of another key", "did not sign the group: group 1", func(m mended) {
			m.ledger.Change(func(g []ledger.Group, era uint64) ([]ledger.Group, uint64) { g[0].Signature[0] ^= 1; return g[:2], era })
		}},
		{"the gate left the ledger", "left", func(m mended) {
			e := m.ledger.Member()
			require.NoError(m.t, e.End(m.t.Context(), must.Get(e.Position(m.t.Context()))(m.t).Era))
			m.lose(2)
		}},
		{"the operator says no", "nothing was changed", func(m mended) { m.lose(2) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := inALedger(t)
			c.lost(m)
			groups, at := m.ledger.Groups(), must.Get(m.ledger.Member().Position(t.Context()))(t)
			asked := Repair{}
			_, err := RepairLedger(t.Context(), RepairOptions{LedgerOptions: m.again(), Agree: func(r Repair) error {
				asked = r
				return refusal.New(refusal.Cancelled, "nothing was changed")
			}})
			require.ErrorContains(t, err, c.says)
			require.Equal(t, groups, m.ledger.Groups())
			require.Equal(t, at, must.Get(m.ledger.Member().Position(t.Context()))(t))
			if asked.EntriesHere != 0 {
				require.Equal(t, at.Era, asked.Began)
				require.Greater(t, asked.EntriesHere, asked.EntriesThere, "the operator hears how much the ledger lost")
				require.Greater(t, asked.Here.Number, asked.There.Last)
			}
		})
	}
}
