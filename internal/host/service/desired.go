package service

import (
	"context"
	"sync"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/wire/desired"
)

// Desired keeps the named sets for the server.
type Desired struct {
	gate   *gate.Gate
	driver driver.Driver
	reread func() // called after a set was put or deleted

	elsewhere Elsewhere // if set, sets cannot be put

	putting sync.Mutex // held from the parse, whose tree is large, to the commit
}

// Elsewhere is the other origin of desired state, if callers do not put it: a directory or a hub. At most one is set.
type Elsewhere struct{ Dir, Hub string }

// NewDesired keeps the sets of a gate with that driver for guests. reread is called after a set was put or deleted.
func NewDesired(g *gate.Gate, d driver.Driver, from Elsewhere, reread func()) *Desired {
	return &Desired{gate: g, driver: d, elsewhere: from, reread: reread}
}

// PutSet checks a document as reconcile will read it, then stores it. A guest that is in another set already is a
// Conflict. With a non-empty ifMatch (an ETag, or "*"), so is a set that is not that one now. It returns the new ETag.
func (d *Desired) PutSet(ctx context.Context, by op.Requester, name, ifMatch string, body []byte) (string, error) {
	if err := d.putHere(); err != nil {
		return "", err
	}
	d.putting.Lock()
	defer d.putting.Unlock()
	doc, err := d.parse(name, body)
	if err != nil {
		return "", err
	}
	if err := d.disjoint(ctx, name, doc); err != nil {
		return "", err
	}
	etag, err := d.gate.PutSet(ctx, by, name, ifMatch, body)
	if err == nil {
		crashpoint.Here(crashpoint.SetKept)
		d.reread()
	}
	return etag, err
}

func (d *Desired) putHere() error {
	if d.elsewhere.Hub != "" {
		return refusal.New(refusal.Conflict, "desired state of this gate comes from the hub %s", d.elsewhere.Hub).
			WithHint("change it there")
	}
	if d.elsewhere.Dir == "" {
		return nil
	}
	return refusal.New(refusal.Conflict, "desired state of this gate is files in %s", d.elsewhere.Dir).
		WithHint("write the file there; a half-written one is never read")
}

func (d *Desired) parse(name string, body []byte) (desired.Document, error) {
	doc, err := desired.Parse(name, body)
	if err == nil && doc.Host != d.gate.Host() {
		err = refusal.New(refusal.TargetMismatch, "%s is for the host %q, this is %q", name, doc.Host, d.gate.Host()).
			WithHint("send it to the gate of %q, or, if it is meant for this host, write host: %s into it", doc.Host, d.gate.Host())
	}
	return doc, err
}

func (d *Desired) disjoint(ctx context.Context, name string, doc desired.Document) error {
	sets, err := d.gate.Sets(ctx)
	if err != nil {
		return err
	}
	mine := map[string]bool{}
	for _, g := range doc.Guests {
		mine[g.Name] = true
	}
	for _, s := range sets {
		if s.Name == name {
			continue
		}
		other, err := desired.Parse(s.Name, s.Body)
		if err != nil {
			continue // it plans nothing, so it cannot conflict
		}
		for _, g := range other.Guests {
			if mine[g.Name] {
				return refusal.New(refusal.Conflict, "guest %s is in the set %s already", g.Name, s.Name).
					WithHint("a guest belongs to one set")
			}
		}
	}
	return nil
}

// DeleteSet removes a set; its guests stay as they are.
func (d *Desired) DeleteSet(ctx context.Context, by op.Requester, name string) error {
	if err := d.putHere(); err != nil {
		return err
	}
	if err := d.gate.DeleteSet(ctx, by, name); err != nil {
		return err
	}
	d.reread()
	return nil
}
