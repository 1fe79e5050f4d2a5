package reserve

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/log/audit"
)

// registrations stands for the table of agents, so that an end and what it ends
// are one transaction, as in the daemon.
const registrations = `CREATE TABLE registrations(id INTEGER PRIMARY KEY, name TEXT NOT NULL, uid INTEGER NOT NULL) STRICT;`

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a book with a clock that tests move and agents that tests make.
type world struct {
	*Book
	t    testing.TB
	path string

	mu      sync.Mutex
	now     time.Time
	dead    map[string]bool
	changed []op.Target
	mayAct  error
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, path: filepath.Join(t.TempDir(), "gated.db"), now: noon, dead: map[string]bool{}}
	w.open(w.clock)
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open(now func() time.Time) {
	s := storetest.Open(w.t, w.path, store.Options{
		Migrations: []store.Migration{{Version: 1, Name: "all", SQL: audit.Schema + audit.SchemaTree + Schema + SchemaMembers + registrations}}}, w.look)
	s.OnGroup(audit.Seal)
	w.Book = New(Config{Store: s, Now: now, Agent: w.agent, Registered: registered, Changed: w.note,
		MayAct: func() error { return w.mayAct },
		Append: func(tx *store.Tx, entries ...audit.Entry) error {
			for i := range entries {
				entries[i].Time = now()
			}
			_, err := audit.Append(tx, entries...)
			return err
		},
		Alive: func(h Holder) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return !w.dead[h.Name]
		}})
}

// look is what fsck looks at that is this package's and the log's: it cannot be
// asked itself from within what it is made of.
func (w *world) look(tx *store.Tx, _ []store.Object) (out []storetest.Problem, err error) {
	if _, err := audit.Verify(tx, nil); err != nil {
		out = append(out, storetest.Problem{Rule: "audit-log", Says: err.Error()})
	}
	wrong, err := Verify(tx, w.clock())
	for _, says := range wrong {
		out = append(out, storetest.Problem{Rule: "apart", Says: says})
	}
	return out, err
}

func (w *world) close() { require.NoError(w.t, w.cfg.Store.Close()) }

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) note(t op.Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = append(w.changed, t)
}

// register binds a name, and returns who calls as it.
func (w *world) register(name string, uid uint32) op.Requester {
	var id int64
	require.NoError(w.t, w.cfg.Store.Update(w.t.Context(), func(tx *store.Tx) (err error) {
		id, err = tx.Insert(`INSERT INTO registrations(name, uid) VALUES(?, ?)`, name, int64(uid))
		return err
	}))
	return op.Requester{Source: op.SourceAPI, UID: uid, PID: 7, Agent: name + "#" + scopeID(id)[1:]}
}

func (w *world) agent(name string) (h Holder, ok bool) {
	_ = w.cfg.Store.View(w.t.Context(), func(tx *store.Tx) error {
		err := tx.QueryRow(`SELECT name, uid, id FROM registrations WHERE name = ? ORDER BY id DESC LIMIT 1`, name).Scan(&h.Name, &h.UID, &h.Registration)
		ok = err == nil
		return err
	})
	return h, ok
}

// heir is the holder that a transfer to an agent's name would have.
func (w *world) heir(name string) Holder {
	h, _ := w.agent(name)
	return h
}

func registered(tx *store.Tx, h Holder) (ok bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM registrations WHERE id = ? AND name = ? AND uid = ?)`, h.Registration, h.Name, int64(h.UID)).Scan(&ok)
	return ok, err
}

// ends is the end of an agent's process, as the daemon deals with it.
func (w *world) ends(by op.Requester) {
	h, err := holderOf(by)
	require.NoError(w.t, err)
	var after func()
	require.NoError(w.t, w.cfg.Store.Update(w.t.Context(), func(tx *store.Tx) (err error) {
		if _, err = tx.Exec(`DELETE FROM registrations WHERE id = ?`, h.Registration); err != nil {
			return err
		}
		after, err = w.EndOf(tx, h)
		return err
	}))
	after()
}

var repo = Place{Path: "/srv/repo", Device: 1, Inode: 2}

func claim(by op.Requester, patterns ...string) Claim {
	return Claim{By: by, Place: repo, Patterns: patterns}
}

func (w *world) reserve(c Claim) Granted {
	g, _, err := w.Reserve(w.t.Context(), c)
	require.NoError(w.t, err)
	return g
}

// refused asserts that a claim is refused with a code.
func (w *world) refused(c Claim, code refusal.Code) []Conflict {
	g, conflicts, err := w.Reserve(w.t.Context(), c)
	require.ErrorIs(w.t, err, code)
	require.Zero(w.t, g)
	return conflicts
}

// entries returns what the log has of one kind, or all for none.
func (w *world) entries(kind audit.Kind) (out []audit.Entry) {
	require.NoError(w.t, w.cfg.Store.View(w.t.Context(), func(tx *store.Tx) error {
		all, err := audit.After(tx, 0, 100_000)
		for _, e := range all {
			if kind == "" || e.Kind == kind {
				out = append(out, e)
			}
		}
		return err
	}))
	return out
}

// all returns what is in force.
func (w *world) all() []Reservation {
	all, err := w.List(w.t.Context(), Query{Limit: MaxList})
	require.NoError(w.t, err)
	return all
}

// sound asserts that the database is as it must be.
func (w *world) sound() {
	w.t.Helper()
	require.NoError(w.t, w.cfg.Store.View(w.t.Context(), func(tx *store.Tx) error {
		problems, err := Verify(tx, w.cfg.Now())
		require.Empty(w.t, problems)
		return err
	}))
}
