package proxmox

import (
	"context"
	"strings"
	"sync"

	"gated/internal/base/op"
	"gated/internal/driver"
)

// Name is the name of the back end.
const Name = "proxmox"

// lookers is how many guests the driver looks at at the same time. It bounds the open
// connections, too.
const lookers = 8

// Driver is the Proxmox VE driver. It is safe for concurrent use.
type Driver struct {
	cfg   Config
	api   *client
	ops   []string
	seen  lookedAt
	known known

	mu     sync.Mutex
	taken  map[int64]bool   // vmids that steps are using for new guests
	recent map[string]int64 // vmids of guests that this process made, by name
	next   int64            // where the search for a free vmid begins
	making map[string]bool  // tasks of this process that make guests
	owing  map[string]owed  // by task: what the driver does when the task has ended
	whole  bool             // no earlier step left a flag off

	working working // guests that a step is changing
}

var _ driver.Backend = (*Driver)(nil)

// New reads the token and the certificates to trust. It does not connect: the first look finds
// out if the cluster is away. Refusals are BadParams, Conflict and Malformed.
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

// Close has nothing to close. Tasks go on.
func (d *Driver) Close() error { return nil }

// Observe looks at one guest and uses nothing that List remembers. Its refusals are Unavailable
// and, for a name that is not clear, Conflict.
func (d *Driver) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	_, o, err := d.look(ctx, l)
	return o, err
}
