package libvirt

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Defaults of Config and Template.
const (
	DefaultSocket    = "/run/libvirt/libvirt-sock"
	DefaultURI       = "qemu:///system"
	DefaultPool      = "default"
	DefaultStopGrace = 30 * time.Second
	DefaultTimeout   = 30 * time.Second
	DefaultMemory    = 1024  // MiB
	DefaultDisk      = 10240 // MiB
	DefaultTemplate  = "default"
)

// Config names the libvirtd and the templates for guests.
type Config struct {
	Socket string // libvirtd's read-write socket; empty means DefaultSocket
	Pool   string // the pool of new disks; empty means DefaultPool

	// Templates are the templates of guest.create, by name. If a request names none,
	// guest.create uses DefaultTemplate or the only template.
	Templates map[string]Template

	StopGrace time.Duration // from the ACPI shutdown to the power off; 0 means DefaultStopGrace
	Timeout   time.Duration // of a call to libvirtd that should be short; 0 means DefaultTimeout

	Logger *slog.Logger // nil discards
}

// Template has the properties of a new guest that its request does not name. Sizes are in MiB.
// A zero value means the default of this package.
type Template struct {
	Memory  int64
	CPUs    int64
	Disk    int64
	Format  string // qcow2 or raw; empty means qcow2
	Pool    string // empty means Config.Pool
	Network string // a libvirt network; empty means none
	Type    string // kvm or qemu, which emulates; empty means kvm
	Machine string // empty means the emulator's default
	Image   string // a volume of the pool that is copied to the new disk; empty means an empty disk
}

func (c *Config) setDefaults() error {
	c.Socket = orElse(c.Socket, DefaultSocket)
	c.Pool = orElse(c.Pool, DefaultPool)
	c.StopGrace = orElse(c.StopGrace, DefaultStopGrace)
	c.Timeout = orElse(c.Timeout, DefaultTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if len(c.Templates) == 0 {
		c.Templates = map[string]Template{DefaultTemplate: {}}
	}
	filled := make(map[string]Template, len(c.Templates))
	for name, t := range c.Templates {
		t.Memory = orElse(t.Memory, DefaultMemory)
		t.CPUs = orElse(t.CPUs, 1)
		t.Disk = orElse(t.Disk, DefaultDisk)
		t.Format = orElse(t.Format, formatQCOW2)
		t.Pool = orElse(t.Pool, c.Pool)
		t.Type = orElse(t.Type, "kvm")
		if op.CheckName(name) != nil || !slices.Contains([]string{formatQCOW2, formatRaw}, t.Format) ||
			!slices.Contains([]string{"kvm", "qemu"}, t.Type) {
			return refusal.New(refusal.BadParams, "libvirt.templates: %q has a name, a format or a type that does not exist",
				op.Shown(name))
		}
		filled[name] = t
	}
	c.Templates = filled
	return nil
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// template finds the template for a create step.
func (c *Config) template(name string) (Template, error) {
	if t, ok := c.Templates[orElse(name, DefaultTemplate)]; ok {
		return t, nil
	}
	if name == "" && len(c.Templates) == 1 {
		for _, only := range c.Templates {
			return only, nil
		}
	}
	return Template{}, refusal.New(refusal.BadParams, "libvirt.templates has no entry %q", orElse(name, DefaultTemplate)).
		WithHint("name one with template, or let an operator add one called " + DefaultTemplate + " to gated.yaml")
}

func (w *work) setConfig(context.Context) (action, error) {
	p := w.step.Params
	if err := w.defined(); err != nil {
		return nil, err
	}
	c := changes{memory: p.Int("memory") << 10, cpus: p.Int("cpus")}
	if p.Has("labels") || p.Has("protected") {
		m := w.guest.mark
		if p.Has("labels") {
			m.labels = p.Labels("labels")
		}
		if p.Has("protected") {
			m.protected = p.Bool("protected")
		}
		c.mark = &m
	}
	return func(ctx context.Context) error {
		if w.guest.active && (c.memory > 0 || c.cpus > 0) {
			w.detail = "memory and CPUs are as wished from the next start on"
		}
		return w.redefine(ctx, c, &w.guest.xml)
	}, nil
}

// defined refuses a domain without a persistent definition.
func (w *work) defined() error {
	if w.guest.persistent {
		return nil
	}
	return refusal.New(refusal.Conflict, "%s has no definition: it was undefined while it runs", w.step.Target).
		WithHint("stop it (it keeps its definition then), or define it again with virsh")
}

// redefine changes the persistent definition in one call, which libvirtd accepts whole or not
// at all. It reads the definition with its secrets, because they would be lost otherwise. It
// does not keep the secrets. If the definition is not the one of seen, which may be nil, a hand
// changed it since the look. Then the step runs again, on another look.
func (w *work) redefine(ctx context.Context, c changes, seen *domainXML) error {
	text, err := describe(ctx, w.session, w.guest.Domain, golibvirt.DomainXMLInactive|golibvirt.DomainXMLSecure)
	if err != nil {
		return err
	}
	now, err := parseXML[domainXML](text)
	if err == nil && seen != nil && !reflect.DeepEqual(now, *seen) {
		err = driver.Transient(stale("%s was changed meanwhile", w.step.Target))
	}
	if err != nil {
		return err
	}
	if text, err = edit(text, c); err != nil {
		return err
	}
	err = w.do(ctx, func(lv *golibvirt.Libvirt) error { _, err := lv.DomainDefineXMLFlags(text, 0); return err })
	if err != nil || c.mark == nil || !w.guest.active {
		return err
	}
	// It also changes the metadata of the running domain, because only that stays if a caller
	// undefines the domain.
	return w.do(ctx, func(lv *golibvirt.Libvirt) error {
		return lv.DomainSetMetadata(w.guest.Domain, int32(golibvirt.DomainMetadataElement), golibvirt.OptString{inner(c.mark.text())},
			golibvirt.OptString{"gated"}, golibvirt.OptString{namespace}, golibvirt.DomainAffectLive)
	})
}

// inner is the element without the namespace, because DomainSetMetadata declares the namespace
// itself.
func inner(text string) string {
	text = strings.Replace(text, ` xmlns:gated="`+namespace+`"`, "", 1)
	return strings.ReplaceAll(strings.ReplaceAll(text, "<gated:", "<"), "</gated:", "</")
}
