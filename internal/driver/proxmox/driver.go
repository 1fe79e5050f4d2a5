package proxmox

import (
	"context"
	"strings"
	"sync"

	"gated/internal/driver"
	"gated/internal/op"
)

// Name is the name of the back end.
const Name = "proxmox"

// lookers is how many guests are looked at side by side, and so how many
// connections are open.
const lookers = 8

// Driver is safe for concurrent use.
type Driver struct {
	cfg   Config
	api   *client
	ops   []string
	seen  lookedAt
	known known

	mu     sync.Mutex
	taken  map[int64]bool   // vmids that are being used for new guests
	recent map[string]int64 // vmids of guests that were made here, by name
	next   int64            // from where to look for a free vmid
	making map[string]bool  // tasks of this process that make guests
	owing  map[string]owed  // by task: what is done when it has ended
	whole  bool             // no flag is off that a step of before took off

	working working // guests that a step is changing
}

var _ driver.Backend = (*Driver)(nil)

// New reads the token and what to trust. It connects to nothing: a cluster that is
// away is seen by the first look. Refusals are BadParams, Conflict and Malformed.
func New(cfg Config) (*Driver, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	api, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, api: api, seen: lookedAt{guests: map[int64]kept{}}, known: known{names: map[int64]string{}}, taken: map[int64]bool{}, recent: map[string]int64{}, next: cfg.First,
		making: map[string]bool{}, owing: map[string]owed{}}
	for _, spec := range op.Catalogue() {
		if p, ok := preparers[spec.Name]; ok && p != nil && (cfg.BackupStorage != "" || !strings.Contains(spec.Name, "backup")) {
			d.ops = append(d.ops, spec.Name)
		}
	}
	return d, nil
}

// Kind returns "guest".
func (d *Driver) Kind() string { return "guest" }

// Name returns "proxmox".
func (d *Driver) Name() string { return Name }

// Close lets go of connections. Tasks go on.
func (d *Driver) Close() error { return nil }

// Observe looks at one guest afresh: nothing that List keeps is used. Its refusals
// are Unavailable and, for a name that says nothing clear, Conflict.
func (d *Driver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	_, o, err := d.look(ctx, l)
	return o, err
}
