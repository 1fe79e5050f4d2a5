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

	"gated/internal/op"
	"gated/internal/proc"
)

// Limits on how many agents are registered at a time. A registered process
// costs the daemon one descriptor. A token's end nobody sees, so those that were
// forgotten must leave room for processes.
const (
	MaxAgents      = 1024
	MaxAgentsOfUID = 128
	MaxTokensOfUID = 32 // of these
)

// Registration binds a name to a process or to a token. ID is another one for
// each registration that a gate ever had, so that what one made is not the
// next one's of that name.
type Registration struct {
	ID      int64
	Name    string
	UID     uint32
	Process proc.ID // the zero one where there is a token
	Token   string  // hex SHA-256 of the token; empty where there is a process
	At      time.Time
}

// Who returns "builder#7", the registration as op.Requester.Agent has it.
func (r Registration) Who() string { return r.Name + "#" + strconv.FormatInt(r.ID, 10) }

// Binding digests all by which whoever has the name is known: pid, start time
// and boot id of a process, or the hash of a token.
func (r Registration) Binding() string {
	return op.SHA256(fmt.Appendf(nil, "%d %d %q %q", r.Process.PID, r.Process.Start, r.Process.Boot, r.Token))
}

// Commit writes a registration down, whose ID is not known yet, and returns it.
type Commit func(context.Context, Registration) (id int64, err error)

// Config is what a Registry needs.
type Config struct {
	Now func() time.Time

	// Ended is called once for each registered process that ended, from a
	// goroutine of its own. Until it returns the name stays taken, so that what
	// belonged to the old one can be let go before there is a new one.
	Ended func(Registration)

	Table Table  // the kernel's where it is nil
	Boot  string // the kernel's boot id where it is empty
}

// Registry is the registered agents of a host. Its methods may be called by
// several goroutines.
type Registry struct {
	cfg   Config
	blind string // why no process can be recognised, or ""

	stop context.CancelFunc
	ctx  context.Context
	wg   sync.WaitGroup

	admission sync.Mutex // held while a registration is checked and entered
	mu        sync.RWMutex
	epoch     uint64 // moves with every change that can change an answer
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

// Blind returns why no process can be recognised, or "". Tokens work all the
// same.
func (r *Registry) Blind() string { return r.blind }

// Close ends the watch over processes and waits for calls of Ended under way.
// The registrations stay as they are.
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

// All returns what is registered, by name.
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

// Named returns the registration that a name has now.
func (r *Registry) Named(name string) (Registration, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.byName[name]
	if e == nil || !e.committed {
		return Registration{}, false
	}
	return e.Registration, true
}

// Alive reports whether a name is registered and, where it has a process, that
// has not ended. Of who holds a token nothing is known; that counts as alive.
func (r *Registry) Alive(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e := r.byName[name]
	return e != nil && e.committed && e.alive()
}
