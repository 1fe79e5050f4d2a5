package matrix_test

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/host/state"
	"gated/internal/ledger"
	"gated/internal/ledger/memory"
	"gated/internal/test/must"
)

// edit is what the owner of the ledger's database makes of it. It may not change the groups that it is given.
type edit func(g *ledgerGate, groups []ledger.Group) []ledger.Group

// way is by whom an edit has to be noticed.
type way func(g *ledgerGate, e edit) error

// ownerRows are attacks by the owner of the ledger's database, who has all its rights and not the gate's key.
func ownerRows() (rows []ledgerRow) {
	for _, r := range []struct {
		id, what string
		edit     edit
		ways     []way
	}{
		{"L01", "adds a group that approves, signed with a key of its own", forges, []way{followed, restarted, joined}},
		{"L02", "drops a group from the middle", dropsOne, []way{followed, restarted, joined}},
		{"L03", "reorders two groups", reorders, []way{restarted, joined, renumbered}},
		{"L04", "truncates the end", truncates, []way{followed, restarted, joinedKnowing}},
		{"L06", "puts a group of another gate's ledger behind the last one", addsAnothers, []way{followed, restarted, joined}},
	} {
		for i, w := range r.ways {
			rows = append(rows, ledgerRow{id: r.id + string(rune('a'+i)), what: "the database's owner " + r.what, want: refusal.Conflict,
				run: func(g *ledgerGate) error { return w(g, r.edit) }})
		}
	}
	return append(rows, rolledBackRows...)
}

// edits has the owner of the database change it, when the standby has each group, if there is a standby. The repair is as
// before, in the newest era.
func (g *ledgerGate) edits(e edit) {
	g.t.Helper()
	var was []ledger.Group
	require.Eventually(g.t, func() (done bool) {
		was = g.ledger.Groups()
		now := e(g, slices.Clone(was))
		if g.second.stop != nil && must.Get(g.second.client.Status(g.t.Context()))(g.t).Member.Group != uint64(len(was)) {
			return false
		}
		g.ledger.Change(func(groups []ledger.Group, era uint64) ([]ledger.Group, uint64) {
			if done = len(groups) == len(was); done { // else a member decided meanwhile
				return now, era
			}
			return groups, era
		})
		return done
	}, time.Minute, 20*time.Millisecond)
	g.repair = func() {
		g.ledger.Change(func(_ []ledger.Group, era uint64) ([]ledger.Group, uint64) { return was, era })
		if g.first.stop == nil {
			g.first.begin()
		}
	}
}

// followed is the standby that is there.
func followed(g *ledgerGate, e edit) error {
	g.arm()
	g.edits(e)
	return g.second.fails()
}

// restarted is the member that decided, at its next start. No other one is there.
func restarted(g *ledgerGate, e edit) error {
	g.second.end()
	g.first.end()
	g.arm()
	g.edits(e)
	return g.first.refuses()
}

// joined is a new member.
func joined(g *ledgerGate, e edit) error { return joins(g, e, 0) }

// joinedKnowing is a new member, whose operator knows how long the log is.
func joinedKnowing(g *ledgerGate, e edit) error {
	return joins(g, e, must.Get(g.first.client.AuditHead(g.t.Context()))(g.t).Seq)
}

func joins(g *ledgerGate, e edit, entries int64) error {
	g.second.end()
	g.first.end()
	g.arm()
	g.edits(e)
	third := g.member("node3")
	err := g.tryJoin(third, entries)
	require.NoFileExists(g.t, filepath.Join(third.state, state.DatabaseName), "a join that was refused leaves nothing")
	return err
}

// renumbered is joined, with the numbers that the places ask for.
func renumbered(g *ledgerGate, e edit) error {
	return joined(g, func(g *ledgerGate, groups []ledger.Group) []ledger.Group {
		groups = e(g, groups)
		for i := range groups {
			groups[i].Number = uint64(i + 1)
		}
		return groups
	})
}

// joined reports whether the member has a state directory.
func (m *memberDaemon) joined() bool {
	_, err := os.Stat(filepath.Join(m.state, state.DatabaseName))
	return err == nil
}

func dropsOne(_ *ledgerGate, groups []ledger.Group) []ledger.Group {
	return slices.Delete(groups, len(groups)/2, len(groups)/2+1)
}

func reorders(_ *ledgerGate, groups []ledger.Group) []ledger.Group {
	last := len(groups) - 1
	groups[last-1], groups[last] = groups[last], groups[last-1]
	return groups
}

// truncates drops the request that waits, and all after it.
func truncates(g *ledgerGate, groups []ledger.Group) []ledger.Group { return groups[:g.early] }

// addsAnothers takes a group of another gate, whose operators are the same, and gives it the next number and link.
func addsAnothers(g *ledgerGate, groups []ledger.Group) []ledger.Group {
	other := anotherGate(g).Groups()
	more, last := other[len(other)-1], groups[len(groups)-1]
	more.Number, more.Era, more.Previous = last.Number+1, last.Era, ledger.DigestOf(string(g.id), last)
	return append(groups, more)
}

// anotherGate makes a gate of the same operators, and returns its ledger.
func anotherGate(g *ledgerGate) *memory.Ledger {
	other := &ledgerGate{t: g.t, alice: g.alice, cluster: g.cluster, ledger: memory.New(), dsn: g.dsn}
	other.first = other.member("node1")
	other.init()
	return other.ledger
}

// stolen is a key of the database's owner. It believes each signature, because its programs can be made to.
type stolen struct{ ed25519.PrivateKey }

// Sign implements ledger.Signer.
func (k stolen) Sign(message []byte) ([]byte, error) { return ed25519.Sign(k.PrivateKey, message), nil }

// Verify implements ledger.Verifier.
func (stolen) Verify([]byte, []byte) bool { return true }

// forges makes the group by which a gate would know the victim's destroy as approved: the owner of the database replays the
// ledger, changes the row, and seals that with a key of its own.
func forges(g *ledgerGate, groups []ledger.Group) []ledger.Group {
	copied := memory.New()
	copied.Change(func([]ledger.Group, uint64) ([]ledger.Group, uint64) { return groups, groups[len(groups)-1].Era })
	_, key := must.Two(ed25519.GenerateKey(nil))(g.t)
	//fsck:none its rows are forged
	s := must.Get(store.Open(g.t.Context(), filepath.Join(g.t.TempDir(), "forged.db"), store.Options{Migrations: life.Migrations(),
		Keeper: ledger.New(ledger.Settings{Engine: copied.Member(), Gate: string(g.id), Signer: stolen{key}, Verifier: stolen{key}}), Local: ledger.LocalNames()}))(g.t)
	id := must.Get(op.ParseStepID(g.request))(g.t)
	require.NoError(g.t, s.Update(g.t.Context(), func(tx *store.Tx) error {
		n, err := tx.Exec(`UPDATE steps SET state = ? WHERE job = ? AND state = ?`, string(op.StateAuthorized), int64(id.Job), string(op.StatePending))
		if err == nil && n != 1 {
			err = errors.New("there is no step that waits")
		}
		return err
	}))
	require.NoError(g.t, s.Close())
	out := copied.Groups()
	require.Len(g.t, out, len(groups)+1)
	return out
}

// rolledBackRows have the database set back to a copy of an earlier moment, era and all.
var rolledBackRows = []ledgerRow{
	{id: "L05a", what: "the whole database is set back to before an approval, and the standby goes on from there", want: refusal.Conflict, run: func(g *ledgerGate) error {
		g.second.follows(g.first)
		back := g.copied()
		g.destroyed()
		g.second.follows(g.first)
		g.first.end()
		g.arm()
		back()
		return g.second.fails()
	}},
	{id: "L05b", what: "the same, and the member that decided starts again", want: refusal.Conflict, run: func(g *ledgerGate) error {
		back := g.copied()
		g.destroyed()
		g.second.end()
		g.first.end()
		g.arm()
		back()
		return g.first.refuses()
	}},
	{id: "L05c", what: "the same under the member that decides, which is given the approval again", want: refusal.Unavailable, run: func(g *ledgerGate) error {
		g.second.end()
		g.first.end()
		back := g.copied()
		g.first.start(api.RoleActive)
		g.arm()
		back()
		err := g.first.approve()
		require.ErrorIs(g.t, g.first.fails(), ledger.ErrFenced)
		return err
	}},
	{id: "L05d", what: "the same, and a new member joins that was told how long the log was", want: refusal.Conflict, run: func(g *ledgerGate) error {
		back := g.copied()
		g.destroyed()
		entries := must.Get(g.first.client.AuditHead(g.t.Context()))(g.t).Seq
		g.second.end()
		g.first.end()
		g.arm()
		back()
		return g.tryJoin(g.member("node3"), entries)
	}},
	{id: "L06d", what: "the ledger of another gate is put in the place of this one", want: refusal.Conflict, run: func(g *ledgerGate) error {
		return restarted(g, func(g *ledgerGate, _ []ledger.Group) []ledger.Group { return anotherGate(g).Groups() })
	}},
	{id: "L06e", what: "the same, and a new member joins", want: refusal.Conflict, run: func(g *ledgerGate) error {
		return joined(g, func(g *ledgerGate, _ []ledger.Group) []ledger.Group { return anotherGate(g).Groups() })
	}},
}

// copied copies the ledger, and returns what sets it back to the copy. The repair goes on from what it was before that.
func (g *ledgerGate) copied() (back func()) {
	copied, era := g.ledger.Groups(), g.era()
	return func() {
		was, newest := g.ledger.Groups(), g.era()
		g.ledger.Change(func([]ledger.Group, uint64) ([]ledger.Group, uint64) { return copied, era })
		g.repair = func() {
			g.ledger.Change(func(_ []ledger.Group, era uint64) ([]ledger.Group, uint64) { return was, max(newest, era) })
			if g.first.stop == nil {
				g.first.begin()
			}
		}
	}
}

// era is the newest one of the ledger.
func (g *ledgerGate) era() uint64 {
	return must.Get(g.ledger.Member().Position(g.t.Context()))(g.t).Era
}
