package proxmox

import (
	"fmt"
	"net/url"
	"time"

	"gated/internal/op"
)

// Defaults of what a Config does not say.
const (
	DefaultTimeout   = 30 * time.Second
	DefaultStopGrace = time.Minute
	DefaultFirst     = 100
	DefaultLast      = 999999999
)

// Config says where the cluster is and what the gate may make there.
type Config struct {
	URL         string // https://pve1.example.com:8006
	TokenFile   string // user@realm!name=secret, of mode 0600
	Fingerprint string // SHA-256 of the server's certificate; or
	CAFile      string // PEM of the CA that signed it

	Node          string // where new guests are made
	Pool          string // that new guests are put into; may be empty
	Storage       string // where new disks are made; empty: a template's own says, and disks are not added
	BackupStorage string // empty: no backups
	First, Last   int64  // the vmids of new guests, both inclusive
	StopGrace     time.Duration
	Timeout       time.Duration // of one request

	Templates map[string]Template
}

// Template is what a new guest is made of. Clone, OSTemplate and Disk exclude each
// other.
type Template struct {
	Kind         string // "qemu" or "lxc"
	Clone        int64  // the vmid of a guest or a template that is copied whole
	OSTemplate   string // of a container: "local:vztmpl/debian-12-standard_12.7-1_amd64.tar.zst"
	Disk         int64  // in GiB: of a container's root, or of a machine's one new and empty disk
	Storage      string // empty: Config's
	Network      string // net0 as the API has it: "virtio,bridge=vmbr0"; empty: none
	OSType       string // of a machine: "l26"; empty: Proxmox VE's own default
	Unprivileged bool   // of a container
}

// Default is the name of the template that guest.create takes where it names none.
const Default = "default"

func (c *Config) setDefaults() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return op.Refuse(op.BadParams, "proxmox.url %q is not https://host:port", op.Shown(c.URL))
	}
	if (c.Fingerprint == "") == (c.CAFile == "") {
		return op.Refuse(op.BadParams, "proxmox needs one of fingerprint and ca_file")
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.StopGrace <= 0 {
		c.StopGrace = DefaultStopGrace
	}
	if c.First == 0 {
		c.First = DefaultFirst
	}
	if c.Last == 0 {
		c.Last = DefaultLast
	}
	if c.First < DefaultFirst || c.Last > DefaultLast || c.First > c.Last {
		return op.Refuse(op.BadParams, "proxmox.vmids %d to %d is no range within %d to %d", c.First, c.Last, DefaultFirst, DefaultLast)
	}
	for name, t := range c.Templates {
		if err := t.check(c.Storage); err != nil {
			return op.Refuse(op.BadParams, "proxmox.templates.%s: %v", name, err)
		}
	}
	return nil
}

// check refuses a template that no guest could be made of.
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
