// Package several makes one driver of the guests of several back ends. A guest is in one of
// them, and a name means one guest of the whole gate. If two back ends have a name, no step can
// use it. While a back end is away, no name is called free.
package several

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// guestKind is the kind of the targets of all back ends.
const guestKind = "guest"

// Config names the back ends.
type Config struct {
	// Backends is at least one back end of kind guest, each with its own name.
	Backends []driver.Backend
	// NewGuests names the back end for new guests. It may be empty if there is only one.
	NewGuests string

	Now    func() time.Time
	Logger *slog.Logger

	// limitOf replaces, in tests, the time limit of looks at a back end.
	limitOf func(name string) limit
}

// limit sets a time limit, as context.WithTimeout does.
type limit func(context.Context, time.Duration) (context.Context, context.CancelFunc)

// Driver is the driver of all back ends. It is safe for concurrent use.
type Driver struct {
	members []*member
	makes   int // index in members: the back end for new guests
	log     *slog.Logger
	stop    context.CancelFunc
}

var _ driver.Driver = (*Driver)(nil)

// New lists every back end once. A back end may be away: its guests are unknown until it is
// back. New refuses a name that two back ends have, with Conflict.
func New(ctx context.Context, c Config) (*Driver, error) {
	if c.limitOf == nil {
		c.limitOf = func(string) limit { return context.WithTimeout }
	}
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &Driver{log: c.Logger, stop: stop, makes: -1}
	for i, b := range c.Backends {
		if b.Kind() != guestKind {
			stop()
			return nil, refusal.New(refusal.BadParams, "the back end %s has no guests", b.Name())
		}
		if b.Name() == c.NewGuests || c.NewGuests == "" && len(c.Backends) == 1 {
			d.makes = i
		}
		d.members = append(d.members, newMember(base, b, c))
	}
	if d.makes < 0 {
		stop()
		return nil, refusal.New(refusal.BadParams, "new_guests names no back end that is configured: %q", c.NewGuests)
	}
	_, claims, err := d.look(ctx)
	if err == nil && len(claims) > 0 {
		err = refuseClaims(claims)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return d, nil
}

// refuseClaims refuses the names that two back ends have. It lists only a few of them.
func refuseClaims(claims []claim) error {
	const most = 5
	var said []string
	for _, c := range claims[:min(len(claims), most)] {
		said = append(said, fmt.Sprintf("guest/%s is in %s", c.name, strings.Join(c.by, " and in ")))
	}
	if more := len(claims) - most; more > 0 {
		said = append(said, fmt.Sprintf("and so are %d more", more))
	}
	return refusal.New(refusal.Conflict, "a name means one guest of the whole gate, and %s", strings.Join(said, "; ")).
		WithHint("rename or remove one of them with the back end's own tools, or give it a gate of its own")
}

// Kind returns "guest".
func (*Driver) Kind() string { return guestKind }

// closing is how long Close waits for running looks. A look that hangs longer meets a closed
// back end, and its answer is dropped.
const closing = 2 * time.Second

// Close ends the looks whose callers left. The caller that opened the back ends closes them.
func (d *Driver) Close() error {
	d.stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, m := range d.members {
			m.lists.running.Wait()
			m.looks.running.Wait()
		}
	}()
	waits, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	select {
	case <-ended:
	case <-waits.Done():
	}
	return nil
}

// Names returns the names of the back ends, in the order in which they were given.
func (d *Driver) Names() []string {
	out := make([]string, len(d.members))
	for i, m := range d.members {
		out[i] = m.name
	}
	return out
}

// named returns the index of the back end of that name, or -1.
func (d *Driver) named(name string) int {
	return slices.IndexFunc(d.members, func(m *member) bool { return m.name == name })
}
