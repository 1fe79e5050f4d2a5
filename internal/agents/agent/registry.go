package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/proc"
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
