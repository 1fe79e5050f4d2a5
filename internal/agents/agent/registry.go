package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// Limits on how many agents are registered at a time. A registered process costs the daemon one descriptor. The end of
// a token's agent cannot be seen, so forgotten tokens must leave room for processes.
const (
	MaxAgents      = 1024
	MaxAgentsOfUID = 128
	MaxTokensOfUID = 32 // of these
)

// Registration binds a name to a process or to a token. A gate gives each registration another ID, so that the next
// holder of a name does not get what the last one had.
type Registration struct {
	ID      int64
	Name    string
	UID     uint32
	Member  string  // on whose host; empty on a gate without callers of other members
	Process proc.ID // zero for a token
	Token   string  // hex SHA-256 of the token; empty for a process
	At      time.Time
}

// Who returns "builder#7", the registration as op.Requester.Agent has it.
func (r Registration) Who() string { return r.Name + "#" + strconv.FormatInt(r.ID, 10) }

// Binding digests what the holder of the name is recognised by: pid, start time and boot id of a process, or the hash
// of a token.
func (r Registration) Binding() string {
	return op.SHA256(fmt.Appendf(nil, "%d %d %q %q", r.Process.PID, r.Process.Start, r.Process.Boot, r.Token))
}

// Commit stores a registration that has no ID yet, and returns its ID.
type Commit func(context.Context, Registration) (id int64, err error)

// Config is what a Registry needs.
type Config struct {
	Now func() time.Time

	// Ended is called once for each registered process that ended, from a goroutine of its own. The name stays taken
	// until Ended returns, so that the old registration's reservations can end before a new one begins.
	Ended func(Registration)

	Member string // of whose host the registry is; empty on a gate without callers of other members

	Table Table  // nil means the kernel's
	Boot  string // empty means the kernel's
}

// Registry is the registered agents of a host. Several goroutines may call its methods.
type Registry struct {
	cfg   Config
	blind string // why no process can be recognised, or ""

	stop context.CancelFunc
	ctx  context.Context
	wg   sync.WaitGroup

	admission sync.Mutex // held while a registration is checked and entered
	mu        sync.RWMutex
	epoch     uint64 // changes with every change that can change an answer
	byName    map[string]*entry
	byPID     map[int]*entry
	byToken   map[string]*entry
}

// New returns an empty registry.
func New(c Config) (*Registry, error) {
	if c.Table == nil {
		c.Table = kernel{}
	}
	if c.Boot == "" {
		boot, err := proc.BootID()
		if err != nil {
			return nil, err
		}
		c.Boot = boot
	}
	r := &Registry{cfg: c, byName: map[string]*entry{}, byPID: map[int]*entry{}, byToken: map[string]*entry{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	// A /proc of another PID namespace would answer for other processes.
	own, err := c.Table.Read(os.Getpid())
	switch {
	case err != nil:
		r.blind = fmt.Sprintf("/proc cannot be read: %v", err)
	case own.Foreign || own.PID != os.Getpid():
		r.blind = "/proc is of another PID namespace"
	}
	return r, nil
}

// Blind returns why no process can be recognised, or "". Tokens work in both cases.
func (r *Registry) Blind() string { return r.blind }

// Close stops watching processes and waits for running calls of Ended. It does not change the registrations.
func (r *Registry) Close() {
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	r.wg.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.byName {
		if e.handle != nil {
			e.handle.Close()
		}
	}
	clear(r.byName)
	clear(r.byPID)
	clear(r.byToken)
	r.epoch++
}

// All returns the registrations, by name.
func (r *Registry) All() []Registration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []Registration
	for _, e := range r.byName {
		if e.committed {
			all = append(all, e.Registration)
		}
	}
	slices.SortFunc(all, func(a, b Registration) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Named returns the present registration of a name.
func (r *Registry) Named(name string) (Registration, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.byName[name]
	if e == nil || !e.committed {
		return Registration{}, false
	}
	return e.Registration, true
}

// Alive reports whether a name is registered and its process, if it has one, lives. A token counts as alive, because
// its holder cannot be seen.
func (r *Registry) Alive(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.byName[name]
	return e != nil && e.committed && e.alive()
}

// Schema is the tables of this package. An agent has either a process or a token. A number is given once, even if its
// row is deleted (SQLite's AUTOINCREMENT). Times are Unix nanoseconds.
const Schema = `
CREATE TABLE agents(
	id    INTEGER PRIMARY KEY AUTOINCREMENT,
	name  TEXT NOT NULL UNIQUE,
	uid   INTEGER NOT NULL,
	pid   INTEGER NOT NULL,            -- 0 with a token
	start INTEGER NOT NULL,            -- clock ticks since boot
	boot  TEXT NOT NULL,
	token TEXT NOT NULL,               -- hex SHA-256, empty with a process
	at    INTEGER NOT NULL,
	CHECK ((token = '') = (pid > 1))
) STRICT;
CREATE UNIQUE INDEX agents_process ON agents(pid, start, boot) WHERE pid <> 0;
CREATE UNIQUE INDEX agents_token ON agents(token) WHERE token <> '';
`

// Add stores a registration and returns its number. If the name, process or token is registered already, it is a
// Conflict.
func Add(tx *store.Tx, r Registration) (id int64, err error) {
	id, err = tx.Insert(`INSERT INTO agents(name, uid, member, pid, start, boot, token, at) VALUES(?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Name, int64(r.UID), r.Member, r.Process.PID, int64(r.Process.Start), r.Process.Boot, r.Token, r.At.UnixNano())
	if errors.Is(err, store.ErrConstraint) {
		return 0, refusal.New(refusal.Conflict, "the name %q, its process or its token is registered", r.Name)
	}
	if err != nil {
		return 0, fmt.Errorf("register agent: %w", err)
	}
	return id, nil
}

// Remove deletes a registration. It reports whether exactly this one was there: it keeps a later one of the same name.
func Remove(tx *store.Tx, r Registration) (bool, error) {
	n, err := tx.Exec(`DELETE FROM agents WHERE id = ?`, r.ID)
	if err != nil {
		return false, fmt.Errorf("forget agent: %w", err)
	}
	return n == 1, nil
}

// Clear deletes all registrations and returns how many there were. Their numbers are not given again.
func Clear(tx *store.Tx) (n int, err error) {
	gone, err := tx.Exec(`DELETE FROM agents`)
	if err != nil {
		return 0, fmt.Errorf("forget agents: %w", err)
	}
	return int(gone), nil
}

// Registered reports whether the registration of that number still stands.
func Registered(tx *store.Tx, name string, id int64) (ok bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS(SELECT 1 FROM agents WHERE id = ? AND name = ?)`, id, name).Scan(&ok)
	if err != nil {
		return false, fmt.Errorf("look an agent up: %w", err)
	}
	return ok, nil
}

// All returns the registrations, by name.
func All(tx *store.Tx) ([]Registration, error) {
	rows, err := tx.Query(sqlAgent + ` ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Registration
	for rows.Next() {
		r, err := scan(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

const sqlAgent = `SELECT id, name, uid, member, pid, start, boot, token, at FROM agents`

func scan(from func(...any) error) (r Registration, err error) {
	var start, at int64
	err = from(&r.ID, &r.Name, &r.UID, &r.Member, &r.Process.PID, &start, &r.Process.Boot, &r.Token, &at)
	r.Process.Start, r.At = uint64(start), time.Unix(0, at).UTC()
	return r, err
}

// SchemaMembers tells processes, tokens and equal uids of several members apart.
const SchemaMembers = `
ALTER TABLE agents ADD COLUMN member TEXT NOT NULL DEFAULT ''; -- on whose host; empty on a gate without callers of other members
DROP INDEX agents_process;
DROP INDEX agents_token;
CREATE UNIQUE INDEX agents_process ON agents(member, pid, start, boot) WHERE pid <> 0;
CREATE UNIQUE INDEX agents_token ON agents(member, token) WHERE token <> '';
`

// Account returns the uid and the member on whose host it is.
func (r Registration) Account() op.Account { return op.Account{UID: r.UID, Member: r.Member} }

// entry is one registration. Before it is committed, it takes its name and process, but names no caller.
type entry struct {
	Registration
	handle    Handle // nil with a token
	committed bool
}

func (e *entry) alive() bool { return e.handle == nil || !e.handle.Ended() }

// enter takes a name and a process or token. The caller holds admission.
func (r *Registry) enter(e *entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return refusal.New(refusal.Unavailable, "the daemon is stopping")
	}
	if e.committed {
		r.epoch++
	}
	r.byName[e.Name] = e
	if e.Token != "" {
		r.byToken[e.Token] = e
	} else {
		r.byPID[e.Process.PID] = e
	}
	if e.committed {
		r.watch(e)
	}
	return nil
}

// commit makes an entry name callers.
func (r *Registry) commit(e *entry, id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.ID = id
	if r.byName[e.Name] != e {
		return // the registry was closed; the next start finds the entry in the database
	}
	e.committed = true
	r.epoch++
	r.watch(e)
}

// leave gives up what enter took, if e still has it.
func (r *Registry) leave(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName[e.Name] != e {
		return
	}
	r.epoch++
	delete(r.byName, e.Name)
	if e.Token != "" {
		delete(r.byToken, e.Token)
		return
	}
	if r.byPID[e.Process.PID] == e { // otherwise another process has its pid already
		delete(r.byPID, e.Process.PID)
	}
	e.handle.Close()
}

// watch waits for the end of an entry's process. The caller holds mu.
func (r *Registry) watch(e *entry) {
	if e.handle == nil || r.ctx.Err() != nil {
		return
	}
	r.wg.Go(func() {
		if e.handle.Wait(r.ctx) != nil {
			return // the registry or the handle is closed
		}
		if r.cfg.Ended != nil {
			r.cfg.Ended(e.Registration)
		}
		r.leave(e)
	})
}

// Table reads processes: the kernel's, or a test's.
type Table interface {
	// Read returns the present state of a pid's process, or proc.ErrGone if no process has the pid.
	Read(pid int) (proc.Process, error)
	// ReadStat is Read without uids and namespaces.
	ReadStat(pid int) (proc.Process, error)
	// Open returns a handle on the process with this pid and start tick, or nil if there is none.
	Open(pid int, start uint64) (Handle, error)
}

// Handle is a pidfd, or a test's.
type Handle interface {
	// Ended reports whether the process has ended.
	Ended() bool
	// Wait returns nil when the process has ended, or the reason why it stopped waiting.
	Wait(ctx context.Context) error
	Close()
}

// kernel is the Table of the machine.
type kernel struct{}

func (kernel) Read(pid int) (proc.Process, error)     { return proc.Read(pid) }
func (kernel) ReadStat(pid int) (proc.Process, error) { return proc.ReadStat(pid) }

func (kernel) Open(pid int, start uint64) (Handle, error) {
	fd, err := proc.Open(pid, start)
	if fd == nil {
		return nil, err // a nil *proc.FD in a Handle would not be nil
	}
	return fd, nil
}
