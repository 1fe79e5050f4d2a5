// Package gates keeps what many gates say: their state, the requests that wait at them, and who may sign. It follows each
// gate's events, and says when something changed. It holds no key and sends nothing that changes a gate.
package gates

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// The bounds of what is kept of one gate.
const (
	MaxRequests = 5000     // open requests
	maxWeight   = 32 << 20 // about so many bytes of them
	maxBeside   = 8 << 20  // about so many bytes of its status and its list of signers
	maxAnswer   = 16 << 20 // the largest answer that is read, in bytes
	maxValues   = 1 << 17  // the most names and values of an answer; 100 requests with many facts have a third of them
	maxGates    = 500
)

// Known is a gate before it is asked.
type Known struct {
	Name    string // unique in its Set, fit for a URL's path: made of the host
	Address client.Address
	Host    string    // that it guards; empty of one that was never met
	ID      op.GateID // empty of one that was never met
}

// Gate is a snapshot of what one gate said. Its receiver may keep it, and changes nothing in it: snapshots share their
// slices.
type Gate struct {
	Known
	// Err is why the rest is not up to date; nil if it is. After TargetMismatch or BindingMismatch there is no rest.
	Err      error
	Seen     time.Time // when it last answered; zero if it never did
	Status   api.Status
	Requests []api.Request // the open ones, oldest first
	More     bool          // it has more open requests than are kept
	Trust    api.Trust     // the signers in force
	Version  uint64        // differs after each change, also from that of every other gate
}

// Request returns an open request.
func (g *Gate) Request(id string) (api.Request, bool) {
	for i := range g.Requests {
		if g.Requests[i].ID == id {
			return g.Requests[i], true
		}
	}
	return api.Request{}, false
}

// Config says which gates a Set keeps.
type Config struct {
	Known   []client.KnownGate // in their order; Host and Gate are empty of a gate that was never met
	Options client.Options     // for all of them; the address is that of each gate

	// Identify asks who the gate is, and refuses another one than is pinned. It is called before anything that the gate
	// says is kept. With nil, the gate's own word is taken. The gate has to be the one of Known in any case. One of this host without an id
	// there is taken as it answers first, because the kernel says who listens on its socket; one of another host is refused.
	Identify func(context.Context, *client.Client) (api.Status, error)

	Now    func() time.Time
	Logger *slog.Logger
}

// Set is many gates. Several goroutines may use it.
type Set struct {
	config   Config
	watchers []*watcher
	byName   map[string]*watcher
	looks    chan struct{} // has a place for each look that runs
	pace     pace

	mu      sync.Mutex
	version uint64
	asking  map[chan struct{}]struct{}
}

// pace has the pauses of watchers.
type pace struct {
	look    time.Duration // a look takes no longer
	settle  time.Duration // between an event and the look at what it changed
	every   time.Duration // between looks at all of a gate where nothing happens
	first   time.Duration // the pause after an error
	longest time.Duration // that pause after many errors
	steady  time.Duration // a gate that answered for so long begins with the first pause again
}

var usualPace = pace{look: 20 * time.Second, settle: 200 * time.Millisecond, every: time.Minute, first: time.Second,
	longest: time.Minute, steady: 30 * time.Second}

// looksAtOnce bounds how many gates are read at the same time, because each answer is decoded in memory.
const looksAtOnce = 8

// New returns a Set that asks nothing before Run. It refuses what client.New refuses of an address.
func New(c Config) (*Set, error) {
	if len(c.Known) > maxGates {
		return nil, refusal.New(refusal.OverLimit, "%d gates are known, and %d are the most that are shown together",
			len(c.Known), maxGates).WithHint("name those to show by their addresses")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Set{config: c, byName: map[string]*watcher{}, looks: make(chan struct{}, looksAtOnce), pace: usualPace,
		asking: map[chan struct{}]struct{}{}}
	for i, name := range names(c.Known) {
		k := c.Known[i]
		w, err := s.watcher(Known{Name: name, Address: k.Address, Host: k.Host, ID: k.Gate})
		if err != nil {
			s.close()
			return nil, err
		}
		s.watchers = append(s.watchers, w)
		s.byName[name] = w
	}
	return s, nil
}

// Run watches every gate until ctx ends, and returns nil then. It is called once.
func (s *Set) Run(ctx context.Context) error {
	defer s.close()
	var running sync.WaitGroup
	for _, w := range s.watchers {
		running.Go(func() { w.run(ctx) })
	}
	running.Wait()
	return nil
}

func (s *Set) close() {
	for _, w := range s.watchers {
		w.client.Close()
	}
}

// All returns a snapshot of every gate, in the order of Config.Known.
func (s *Set) All() []Gate {
	out := make([]Gate, len(s.watchers))
	for i, w := range s.watchers {
		out[i] = *w.shown.Load()
	}
	return out
}

// Get returns a snapshot of one gate.
func (s *Set) Get(name string) (Gate, bool) {
	w := s.byName[name]
	if w == nil {
		return Gate{}, false
	}
	return *w.shown.Load(), true
}

// Client returns the client of one gate, which the Set closes. Whoever shows or signs what it says calls Identify first,
// and compares what it says with that gate: another one may have come to its address since.
func (s *Set) Client(name string) (*client.Client, bool) {
	w := s.byName[name]
	if w == nil {
		return nil, false
	}
	return w.client, true
}

// Identify asks one gate now who it is. It refuses another gate than the pinned one (TargetMismatch), and a name that no
// gate has (UnknownTarget).
func (s *Set) Identify(ctx context.Context, name string) (api.Status, error) {
	w := s.byName[name]
	if w == nil {
		return api.Status{}, Unknown(name)
	}
	return w.identify(ctx)
}

// Unknown refuses a name that no gate has.
func Unknown(name string) error {
	return refusal.New(refusal.UnknownTarget, "no gate is known here by the name %q", name).
		WithHint("the page /gates has all that you may read")
}

// Changes returns a channel that gets a value after one or more changes of any gate. It is closed when ctx ends.
func (s *Set) Changes(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	s.asking[c] = struct{}{}
	s.mu.Unlock()
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asking, c)
		close(c)
	})
	return c
}

// show replaces the snapshot of a gate and tells everybody who asked for changes.
func (s *Set) show(w *watcher, g Gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	g.Version = s.version
	w.shown.Store(&g)
	for c := range s.asking {
		select {
		case c <- struct{}{}:
		default: // it has not taken the last one yet
		}
	}
}

// anotherGate reports whether an error says that the pinned gate is not the one that answers.
func anotherGate(err error) bool {
	return errors.Is(err, refusal.TargetMismatch) || errors.Is(err, refusal.BindingMismatch)
}
