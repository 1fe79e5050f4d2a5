package proxmox

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Defaults of Config.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultStopGrace = time.Minute
	DefaultFirst     = 100
	DefaultLast      = 999999999
)

// Config names the cluster, and what the gate may make in it.
type Config struct {
	URL         string // https://pve1.example.com:8006
	TokenFile   string // user@realm!name=secret, of mode 0600
	Fingerprint string // SHA-256 of the server's certificate; or
	CAFile      string // PEM of the CA that signed it

	Node          string // the node of new guests
	Pool          string // the pool of new guests; may be empty
	Storage       string // of new disks; if empty, a template's own storage counts, and steps add no disks
	BackupStorage string // empty: no backups
	First, Last   int64  // the vmids of new guests, both inclusive
	StopGrace     time.Duration
	Timeout       time.Duration // of one request

	Templates map[string]Template

	// Held is asked before each request that changes something: a step may take several, and this daemon may have lost its
	// part in between. Its error ends the request, which is not sent. Nil always sends.
	Held func() error

	// Recorded returns every incarnation with a prefix that the gate's journal knows. Their numbers are not given to new guests.
	// Nil: the journal knows none.
	Recorded func(ctx context.Context, prefix string) ([]op.Incarnation, error)

	Now func() time.Time // nil: time.Now
}

// Template has the properties of a new guest. Only one of Clone, OSTemplate and Disk may be
// set.
type Template struct {
	Kind         string // "qemu" or "lxc"
	Clone        int64  // the vmid of a guest or a template; the new guest is a full copy
	OSTemplate   string // of a container: "local:vztmpl/debian-12-standard_12.7-1_amd64.tar.zst"
	Disk         int64  // in GiB: a container's root, or a machine's one new and empty disk
	Storage      string // empty: Config's
	Network      string // net0 as the API has it: "virtio,bridge=vmbr0"; empty: none
	OSType       string // of a machine: "l26"; empty: Proxmox VE's own default
	Unprivileged bool   // of a container
}

// Default is the name of the template that guest.create uses if the request names none.
const Default = "default"

func (c *Config) setDefaults() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return refusal.New(refusal.BadParams, "proxmox.url %q is not https://host:port", op.Shown(c.URL))
	}
	if (c.Fingerprint == "") == (c.CAFile == "") {
		return refusal.New(refusal.BadParams, "proxmox needs one of fingerprint and ca_file")
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.StopGrace <= 0 {
		c.StopGrace = DefaultStopGrace
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.First == 0 {
		c.First = DefaultFirst
	}
	if c.Last == 0 {
		c.Last = DefaultLast
	}
	if c.First < DefaultFirst || c.Last > DefaultLast || c.First > c.Last {
		return refusal.New(refusal.BadParams, "proxmox.vmids %d to %d is no range within %d to %d", c.First, c.Last,
			DefaultFirst, DefaultLast)
	}
	for name, t := range c.Templates {
		if err := t.check(c.Storage); err != nil {
			return refusal.New(refusal.BadParams, "proxmox.templates.%s: %v", name, err)
		}
	}
	return nil
}

// check refuses a template that cannot make a guest.
func (t Template) check(storage string) error {
	switch {
	case t.Kind != qemu && t.Kind != lxc:
		return fmt.Errorf("kind is %q, neither qemu nor lxc", t.Kind)
	case t.Clone != 0 && (t.OSTemplate != "" || t.Disk != 0):
		return fmt.Errorf("clone goes with neither ostemplate nor disk")
	case t.Clone != 0:
		return nil
	case t.Kind == lxc && (t.OSTemplate == "" || t.Disk == 0):
		return fmt.Errorf("a container needs clone, or ostemplate and disk")
	case t.Kind == qemu && t.OSTemplate != "":
		return fmt.Errorf("ostemplate is for containers")
	case t.Kind == qemu && t.Disk == 0:
		return fmt.Errorf("a machine needs clone or disk")
	case t.Storage == "" && storage == "":
		return fmt.Errorf("a new disk needs storage")
	}
	return nil
}

// settings turns a step's parameters into the API's parameters. sockets is the number of the
// machine's sockets; a container has one.
func settings(kind string, p op.Params, sockets int64) (values, error) {
	v := values{}
	if p.Str("command") != "" {
		return nil, refusal.New(refusal.BadParams, "a guest of Proxmox VE has no command").WithHint("leave command out")
	}
	if p.Has("memory") {
		if p.Int("memory") < 16 {
			return nil, refusal.New(refusal.BadParams, "memory is %d MiB, less than Proxmox VE's 16", p.Int("memory"))
		}
		v["memory"] = fmt.Sprint(p.Int("memory"))
	}
	if p.Has("cpus") {
		if p.Int("cpus")%sockets != 0 {
			return nil, refusal.New(refusal.BadParams, "%d CPUs cannot be spread over the machine's %d sockets",
				p.Int("cpus"), sockets)
		}
		v["cores"] = fmt.Sprint(p.Int("cpus") / sockets)
	}
	return v, nil
}

func (d *Driver) prepareSetConfig(_ context.Context, step op.Step, g *guest) (action, error) {
	p := step.Params
	v, err := settings(g.kind, p, g.sockets)
	if err != nil {
		return action{}, err
	}
	m, found := g.marker, false
	if g.bare() {
		m, found = g.foundBare()
	}
	if p.Has("labels") || p.Has("protected") || found {
		m.there = true
		m.birth, m.vmid, m.protected = g.birth(), g.vmid, g.protected()
		if p.Has("labels") {
			m.labels = p.Labels("labels")
			g.untag(m.labels, v)
		}
		if p.Has("protected") {
			m.protected = p.Bool("protected")
		}
		if v["description"], err = m.in(g.text); err != nil {
			return action{}, err
		}
	}
	if m.there {
		v["protection"] = "1"
	}
	return does(func(ctx context.Context) (driver.Result, error) {
		if len(v) == 0 {
			return driver.Result{}, nil
		}
		if err := d.configure(ctx, g, v); err != nil {
			return driver.Result{}, worked("set the configuration", err)
		}
		if g.status == Running && (p.Has("memory") || p.Has("cpus")) {
			return driver.Result{Detail: "a machine that runs has it from its next start, where Proxmox VE cannot change it under way"}, nil
		}
		return driver.Result{}, nil
	}), nil
}

// untag adds to a change of the configuration that it removes each tag which is not among the
// given labels. Every tag shows as a label.
func (g *guest) untag(labels map[string]string, v values) {
	kept := slices.DeleteFunc(slices.Clone(g.tags), func(tag string) bool { _, wished := labels[tag]; return !wished })
	switch {
	case len(kept) == len(g.tags):
	case len(kept) == 0:
		v["delete"] = "tags"
	default:
		v["tags"] = strings.Join(kept, ";")
	}
}
