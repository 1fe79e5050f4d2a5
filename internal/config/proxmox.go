package config

import (
	"net/url"
	"regexp"
	"time"

	"gated/internal/op"
	"gated/internal/strictyaml"
)

// Defaults of the section proxmox.
const (
	DefaultProxmoxStopGrace = time.Minute
	DefaultProxmoxTimeout   = 30 * time.Second
	DefaultProxmoxFirst     = 100
	DefaultProxmoxLast      = 999999999
)

// Proxmox says which Proxmox VE cluster has guests, whom to trust as it, and what
// new ones are made of.
type Proxmox struct {
	URL         string // https://host:port
	TokenFile   string // an absolute path
	Fingerprint string // SHA-256 of the server's certificate, or
	CAFile      string // an absolute path; one of the two is empty

	Node          string        // empty means that new guests are clones alone
	Pool          string        // empty means none
	Storage       string        // of new disks; empty means none
	BackupStorage string        // empty means no backups
	First, Last   int64         // the vmids of new guests
	StopGrace     time.Duration // 1 s to 1 h
	Timeout       time.Duration // of one request, 1 s to 10 min
	Templates     map[string]ProxmoxTemplate
}

// ProxmoxTemplate is what a guest is made of.
type ProxmoxTemplate struct {
	Kind         string // qemu or lxc
	Clone        int64  // a vmid; 0 means that it is no clone
	OSTemplate   string
	Disk         int64 // in GiB
	Storage      string
	Network      string
	OSType       string
	Unprivileged bool
}

// fingerprint is SHA-256 as Proxmox VE shows it.
var fingerprint = regexp.MustCompile(`^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){31}$`)

// proxmox reads the section; nil where there is none.
func proxmox(m *strictyaml.Map) *Proxmox {
	if !m.Has("proxmox") {
		return nil
	}
	s := m.Map("proxmox")
	p := &Proxmox{
		URL:           address(s.Need("url")),
		TokenFile:     path(s.Need("token_file")),
		Fingerprint:   s.String("fingerprint"),
		CAFile:        path(s.Get("ca_file")),
		Node:          proxmoxName(s.Get("node")),
		Pool:          proxmoxName(s.Get("pool")),
		Storage:       proxmoxName(s.Get("storage")),
		BackupStorage: proxmoxName(s.Get("backup_storage")),
		First:         DefaultProxmoxFirst,
		Last:          DefaultProxmoxLast,
		StopGrace:     duration(s.Get("stop_grace"), DefaultProxmoxStopGrace, time.Second, time.Hour),
		Timeout:       duration(s.Get("timeout"), DefaultProxmoxTimeout, time.Second, 10*time.Minute),
		Templates:     map[string]ProxmoxTemplate{},
	}
	if v := s.Get("fingerprint"); v.Present() && !fingerprint.MatchString(p.Fingerprint) {
		v.Fail("fingerprint is not 32 pairs of hex digits with colons between them")
	}
	if s.Sound() && (p.Fingerprint == "") == (p.CAFile == "") {
		s.Fail("proxmox needs one of fingerprint and ca_file, which say whom to trust")
	}
	if vmids := s.Map("vmids"); s.Has("vmids") {
		p.First = vmids.Need("first").Int(DefaultProxmoxFirst, DefaultProxmoxLast)
		p.Last = vmids.Need("last").Int(DefaultProxmoxFirst, DefaultProxmoxLast)
		if s.Sound() && p.First > p.Last {
			vmids.Fail("vmids begin at %d and end before that, at %d", p.First, p.Last)
		}
	}
	templates := s.Map("templates")
	for _, name := range templates.Keys() {
		v := templates.Get(name).Named("template " + name)
		if op.CheckName(name) != nil {
			v.Fail("%q is not a template's name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", name)
		}
		p.Templates[name] = proxmoxTemplate(v.Map(), p.Storage)
	}
	return p
}

func proxmoxTemplate(m *strictyaml.Map, storage string) ProxmoxTemplate {
	number := func(key string, least, most int64) int64 {
		if !m.Has(key) {
			return 0
		}
		return m.Int(key, least, most)
	}
	t := ProxmoxTemplate{
		Kind:         oneOf(m.Get("kind"), "qemu", "lxc"),
		Clone:        number("clone", DefaultProxmoxFirst, DefaultProxmoxLast),
		OSTemplate:   m.String("ostemplate"),
		Disk:         number("disk", 1, 1<<20),
		Storage:      proxmoxName(m.Get("storage")),
		Network:      m.String("network"),
		OSType:       proxmoxName(m.Get("ostype")),
		Unprivileged: !m.Has("unprivileged") || m.Bool("unprivileged"),
	}
	switch {
	case !m.Sound():
	case t.Clone != 0 && (t.OSTemplate != "" || t.Disk != 0 || t.Network != "" || t.OSType != ""):
		m.Fail("a clone has what its template has: only kind and storage go with it")
	case t.Clone != 0:
	case t.Disk == 0:
		m.Fail("a template needs clone or disk")
	case t.Storage == "" && storage == "":
		m.Fail("a new disk needs storage, here or for all")
	case (t.OSTemplate != "") != (t.Kind == "lxc"):
		m.Fail("a container is made of an ostemplate, and nothing else is")
	case t.Kind == "lxc" && t.OSType != "":
		m.Fail("ostype is for kind qemu")
	}
	return t
}

// address reads an https URL of a host and nothing below it.
func address(v strictyaml.Value) string {
	s := v.String()
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" {
		v.Fail("%q is not https://host:port", op.Shown(s))
	}
	return s
}

// proxmoxName reads what Proxmox VE calls a node, a pool or a storage.
func proxmoxName(v strictyaml.Value) string {
	s := v.String()
	if v.Present() && op.CheckName(s) != nil {
		v.Fail("%q is not a name ([A-Za-z0-9][A-Za-z0-9._-]{0,127})", s)
	}
	return s
}
