package config

import (
	"slices"
	"strings"
	"time"

	"gated/internal/op"
	"gated/internal/strictyaml"
)

// Defaults of the section libvirt.
const (
	DefaultLibvirtSocket    = "/run/libvirt/libvirt-sock"
	DefaultLibvirtPool      = "default"
	DefaultLibvirtStopGrace = 30 * time.Second
	DefaultLibvirtTimeout   = 30 * time.Second
	DefaultLibvirtMemory    = 1024  // MiB
	DefaultLibvirtDisk      = 10240 // MiB
)

// Libvirt says which libvirtd has guests, and what new ones are made of.
type Libvirt struct {
	Socket    string // an absolute path
	Pool      string
	StopGrace time.Duration // 1 s to 1 h
	Timeout   time.Duration // of one call, 1 s to 10 min
	Templates map[string]LibvirtTemplate
}

// LibvirtTemplate is what a guest is made of. Sizes are in MiB.
type LibvirtTemplate struct {
	Memory  int64
	CPUs    int64
	Disk    int64
	Format  string // qcow2 or raw
	Pool    string
	Network string // empty means none
	Type    string // kvm or qemu
	Machine string // empty means the emulator's default
	Image   string // a volume of the pool; empty means an empty disk
}

// libvirt reads the section; nil where there is none.
func libvirt(m *strictyaml.Map) *Libvirt {
	if !m.Has("libvirt") {
		return nil
	}
	s := m.Map("libvirt")
	l := &Libvirt{
		Socket:    otherwise(path(s.Get("socket")), DefaultLibvirtSocket),
		Pool:      otherwise(libvirtName(s.Get("pool")), DefaultLibvirtPool),
		StopGrace: duration(s.Get("stop_grace"), DefaultLibvirtStopGrace, time.Second, time.Hour),
		Timeout:   duration(s.Get("timeout"), DefaultLibvirtTimeout, time.Second, 10*time.Minute),
		Templates: map[string]LibvirtTemplate{},
	}
	templates := s.Map("templates")
	for _, name := range templates.Keys() {
		v := templates.Get(name).Named("template " + name)
		if op.CheckName(name) != nil {
			v.Fail("%q is not a template's name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", name)
		}
		l.Templates[name] = libvirtTemplate(v.Map(), l.Pool)
	}
	return l
}

func libvirtTemplate(m *strictyaml.Map, pool string) LibvirtTemplate {
	number := func(key string, otherwise, most int64) int64 {
		if !m.Has(key) {
			return otherwise
		}
		return m.Int(key, 1, most)
	}
	return LibvirtTemplate{
		Memory:  number("memory", DefaultLibvirtMemory, 64<<20),
		CPUs:    number("cpus", 1, 4096),
		Disk:    number("disk", DefaultLibvirtDisk, 1<<30),
		Format:  oneOf(m.Get("format"), "qcow2", "raw"),
		Pool:    otherwise(libvirtName(m.Get("pool")), pool),
		Network: libvirtName(m.Get("network")),
		Type:    oneOf(m.Get("type"), "kvm", "qemu"),
		Machine: libvirtName(m.Get("machine")),
		Image:   libvirtName(m.Get("image")),
	}
}

// libvirtName reads what libvirt calls something.
func libvirtName(v strictyaml.Value) string {
	s := v.String()
	if v.Present() && op.CheckName(s) != nil {
		v.Fail("%q is not a name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", s)
	}
	return s
}

// oneOf reads one of the given words; omitted, it is the first.
func oneOf(v strictyaml.Value, words ...string) string {
	s := v.String()
	switch {
	case !v.Present():
		return words[0]
	case !slices.Contains(words, s):
		v.Fail("%q is none of %s", s, strings.Join(words, ", "))
	}
	return s
}

func otherwise(s, whenEmpty string) string {
	if s == "" {
		return whenEmpty
	}
	return s
}
