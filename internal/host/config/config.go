// Package config reads gated.yaml, the operator's own file, and writes the file that gated init makes. The file's
// policy can only tighten the built-in rules.
package config

import (
	"bytes"
	_ "embed"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/strictyaml"
	"gated/internal/driver/command/catalogue"
	"gated/internal/people/policy"
)

// Config is a parsed gated.yaml with all defaults, except paths and uids that depend on the daemon's place and user.
// The tags say how fill reads each field.
type Config struct {
	Host       string `yaml:"host,needed" is:"host"`
	SingleUser bool   `yaml:"single_user"` // agents run under the daemon's own uid: isolation is none

	Socket      string `yaml:"socket" is:"path"`       // an absolute path; empty means the default
	SocketGroup string `yaml:"socket_group" is:"name"` // empty means the default

	AnySubmitter bool     // every caller that may connect may submit jobs
	Submitters   []uint32 // those who may, if not any
	Admins       []uint32 `yaml:"admins" is:"uids"` // those who may administer the gate, with root
	Elsewhere    Elsewhere

	OldWords []string // of earlier versions that the file has, each with what to write instead

	Local     Local    `yaml:"local"`
	Libvirt   *Libvirt `yaml:"libvirt"` // nil means none
	Proxmox   *Proxmox `yaml:"proxmox"` // nil means none
	HasLocal  bool     // the file has the section local; see GuestBackends
	NewGuests string   `yaml:"new_guests"` // one of GuestBackends, for new guests

	Desired Desired       `yaml:"desired"`
	Hub     *Hub          `yaml:"hub"`   // nil means none
	Store   *Store        `yaml:"store"` // nil means that the gate lives on this host alone
	Policy  policy.Policy // its Commands are the names of Local.Commands, its Benign those of Commands
	Limits  Limits        `yaml:"limits"`
	Workers int           `yaml:"limits.workers" is:"int 1 256" or:"4"` // targets that are worked on at the same time
	Canary  Canary        `yaml:"canary"`
	Log     Log           `yaml:"log"`
	Monitor Monitor       `yaml:"monitor"`
	Unseen  bool          `yaml:"reservations.unseen" is:"unseen"` // paths may be reserved that the daemon cannot see

	// Commands is the operator's catalogue of commands; nil means no command driver.
	Commands map[string]catalogue.Entry

	// RevocationFile lists keys that no longer count, an absolute path. A named file must exist. Empty means
	// DIR/revoked, which need not exist.
	RevocationFile string `yaml:"revocation_file" is:"path"`
}

// Local configures the local driver.
type Local struct {
	Root      string             `yaml:"root" is:"path"` // an absolute path; empty means DIR/guests
	TrashKeep time.Duration      `yaml:"trash_keep" is:"time 1s 8784h" or:"24h"`
	StopGrace time.Duration      `yaml:"stop_grace" is:"time 1s 1h" or:"10s"`
	Cgroup    string             `yaml:"cgroup" is:"path"` // an absolute path; empty means no limits by cgroup
	Commands  map[string]Command `yaml:"commands"`
	GuestUIDs UIDs               `yaml:"guest_uids" is:"range"`
}

// UIDs is a range of uids, both ends included. The zero value is none.
type UIDs struct{ First, Last uint32 }

// Command is a program that guests may run, by name.
type Command struct {
	Argv []string          `yaml:"argv,needed" is:"program"` // the first is an absolute path; nothing is expanded
	User string            `yaml:"user" is:"user"`           // a name or a number; empty means the daemon's own
	Env  map[string]string `yaml:"env" is:"variables"`
	// Guests are patterns over the names of the guests that may run it; * matches any text and ? one letter. Empty: all
	// may.
	Guests []string `yaml:"guests" is:"patterns"`
}

// Desired says where desired state comes from.
type Desired struct {
	Dir      string        `yaml:"dir" is:"path"` // an absolute path; empty means the API
	Interval time.Duration `yaml:"interval" is:"time 1s 24h" or:"30s"`
}

// Limits bound what the gate stores for one requester, and keep disk space for signed work. The file has the sizes in
// MiB.
type Limits struct {
	// Bytes that are written for one uid, or one desired set, in an hour.
	JournalQuota int64 `yaml:"journal_quota" is:"MiB 1 1048576" or:"128"`
	// Snapshots of one guest, taken for one uid or one desired set.
	Snapshots int `yaml:"snapshots_per_guest" is:"int 1 10000" or:"32"`
	// Bytes of free disk below which only signed work goes on; -1: a part of the disk.
	KeepFree int64 `yaml:"keep_free" is:"MiB 0 1048576"`
	// Bytes of the file that is given back to signed work; -1: a part of the disk.
	Reserve int64 `yaml:"reserve" is:"MiB 0 65536"`
}

// Canary says how the gate watches its own decisions after a change.
type Canary struct {
	Decisions int `yaml:"decisions" is:"int 20 1000" or:"200"` // most decisions of a window; at least twice Minimum
	Days      int `yaml:"days" is:"int 1 30" or:"7"`           // most days of a window
	Minimum   int `yaml:"minimum" is:"int 10 500" or:"30"`     // with fewer decisions nothing is compared
	Floor     int `yaml:"floor" is:"int 5 50" or:"20"`         // smaller differences, in percentage points, are noise
}

// Log says how the daemon writes its own log to standard error.
type Log struct {
	// auto is journal if standard error is connected to systemd's journal, else text.
	Format string `yaml:"format" is:"of auto text json journal" or:"auto"`
	Level  string `yaml:"level" is:"of debug info warn error" or:"info"` // messages from this level on
}

// Monitor says what status and health warn of.
type Monitor struct {
	// BackupOlder is how old the newest verified backup may be; 0 means that backups are not watched.
	BackupOlder time.Duration `yaml:"backup_older" is:"time 1m 8784h"`
}

// Store says where the gate's ledger is, so that a daemon on another host can go on with the gate.
type Store struct {
	// Postgres is a connection string or URL of libpq. It may name several servers, of which the one that takes writes is
	// used. A password is best in a file, passfile=.
	Postgres string `yaml:"postgres,needed" is:"postgres"`
	Member   string `yaml:"member,needed" is:"name"` // of this daemon among those of the gate
	// replicated is kept on a synchronous standby before anybody is told; single is lost with the server's disk.
	Durability string        `yaml:"durability" is:"of replicated single" or:"replicated"`
	Lease      time.Duration `yaml:"lease" is:"time 3s 10m" or:"15s"` // without a sign of life, before another member takes over

	// Members are those that forward their callers' calls to the active one, by name; nil means that none does. Each has
	// the other three then.
	Members     map[string]Member `yaml:"members"`
	Listen      string            `yaml:"listen" is:"address"`   // where the active member takes forwarded calls
	Certificate string            `yaml:"certificate" is:"path"` // of this member, PEM; an absolute path
	Key         string            `yaml:"key" is:"path"`         // of the certificate

	// Scopes are directories that several members share, by name: the path on each member. Elsewhere the same path on two
	// members is two directories.
	Scopes map[string]map[string]string `yaml:"scopes" is:"scopes"`
}

// Hub says which hub to poll for desired state. A hub's documents are wishes.
type Hub struct {
	URL       string        `yaml:"url,needed" is:"hub"`                // https, or http to this machine
	CA        string        `yaml:"ca" is:"path"`                       // an absolute path; empty: the system's CAs
	TokenFile string        `yaml:"token_file" is:"path"`               // an absolute path; empty means none
	Interval  time.Duration `yaml:"interval" is:"time 1s 24h" or:"30s"` // between two polls
	Timeout   time.Duration `yaml:"timeout" is:"time 1s 5m" or:"30s"`   // of one exchange as a whole
	Report    time.Duration `yaml:"report" is:"time 1s 24h" or:"10m"`   // between two reports of the same
}

// Libvirt names the libvirtd with guests, and the templates of new ones.
type Libvirt struct {
	Socket    string                     `yaml:"socket" is:"path" or:"/run/libvirt/libvirt-sock"`
	Pool      string                     `yaml:"pool" is:"name" or:"default"`
	StopGrace time.Duration              `yaml:"stop_grace" is:"time 1s 1h" or:"30s"`
	Timeout   time.Duration              `yaml:"timeout" is:"time 1s 10m" or:"30s"` // of one call
	Templates map[string]LibvirtTemplate `yaml:"templates"`
}

// LibvirtTemplate is what a guest is made of. Sizes are in MiB.
type LibvirtTemplate struct {
	Memory  int64  `yaml:"memory" is:"int 1 67108864" or:"1024"`
	CPUs    int64  `yaml:"cpus" is:"int 1 4096" or:"1"`
	Disk    int64  `yaml:"disk" is:"int 1 1073741824" or:"10240"`
	Format  string `yaml:"format" is:"of qcow2 raw" or:"qcow2"`
	Pool    string `yaml:"pool" is:"name"`
	Network string `yaml:"network" is:"name"` // empty means none
	Type    string `yaml:"type" is:"of kvm qemu" or:"kvm"`
	Machine string `yaml:"machine" is:"name"` // empty means the emulator's default
	Image   string `yaml:"image" is:"name"`   // a volume of the pool; empty means an empty disk
}

// Proxmox names the Proxmox VE cluster with guests, how to recognise it, and the templates of new guests.
type Proxmox struct {
	URL         string `yaml:"url,needed" is:"https"`
	TokenFile   string `yaml:"token_file,needed" is:"path"`
	Fingerprint string `yaml:"fingerprint" is:"fingerprint"` // SHA-256 of the server's certificate, or
	CAFile      string `yaml:"ca_file" is:"path"`            // an absolute path; one of the two is empty

	Node          string                     `yaml:"node" is:"name"`                              // empty: new guests are only clones
	Pool          string                     `yaml:"pool" is:"name"`                              // empty: none
	Storage       string                     `yaml:"storage" is:"name"`                           // of new disks; empty: none
	BackupStorage string                     `yaml:"backup_storage" is:"name"`                    // empty: no backups
	First         int64                      `yaml:"vmids.first" is:"int 100 999999999" or:"100"` // vmids of new guests
	Last          int64                      `yaml:"vmids.last" is:"int 100 999999999" or:"999999999"`
	StopGrace     time.Duration              `yaml:"stop_grace" is:"time 1s 1h" or:"1m"`
	Timeout       time.Duration              `yaml:"timeout" is:"time 1s 10m" or:"30s"` // of one request
	Templates     map[string]ProxmoxTemplate `yaml:"templates"`
}

// ProxmoxTemplate is what a guest is made of.
type ProxmoxTemplate struct {
	Kind         string `yaml:"kind" is:"of qemu lxc" or:"qemu"`
	Clone        int64  `yaml:"clone" is:"int 100 999999999"` // a vmid; 0 means not a clone
	OSTemplate   string `yaml:"ostemplate"`
	Disk         int64  `yaml:"disk" is:"int 1 1048576"` // in GiB
	Storage      string `yaml:"storage" is:"name"`
	Network      string `yaml:"network"`
	OSType       string `yaml:"ostype" is:"name"`
	Unprivileged bool   `yaml:"unprivileged" or:"true"`
}

// Parse reads b strictly; file names it in errors. Refusals are Malformed and begin with "file:line:column: ".
func Parse(file string, b []byte) (Config, error) {
	m, err := strictyaml.Parse(file, b)
	if err != nil {
		return Config{}, refusalOf(err)
	}
	c := Config{HasLocal: m.Get("local").Present(), Limits: Limits{KeepFree: -1, Reserve: -1}}
	fill(m, reflect.ValueOf(&c).Elem())
	c.AnySubmitter, c.Submitters = submitters(m.Get("submitters"))
	if old := m.Get(oldAdmins); old.Present() {
		c.Admins, c.OldWords = uids(old), []string{"operators is called admins now: rename it, because a later version refuses it"}
		if m.Get("admins").Present() {
			old.Fail("operators is the old word for admins, and both are here: put all into admins")
		}
	}
	c.Policy = tightened(file, m.Get("policy"))
	c.Commands = entries(m.Get("commands"))
	c.Policy.Commands, c.Policy.CommandGuests, c.Policy.Benign = c.allowed()
	if m.Sound() {
		c.together(m)
	}
	if err := m.Done(); err != nil {
		return Config{}, refusalOf(err)
	}
	return c, nil
}

func refusalOf(err error) error {
	var e *strictyaml.Error
	if errors.As(err, &e) && e.TooLarge {
		return refusal.New(refusal.Oversized, "%s", e.Error())
	}
	return refusal.New(refusal.Malformed, "%v", err).WithHint("gated docs configuration explains every key")
}

// together refuses values that conflict, and sets the defaults that depend on other values.
func (c *Config) together(m strictyaml.Value) {
	if c.Canary.Decisions < 2*c.Canary.Minimum {
		m.Get("canary").Fail("decisions is %d, less than twice the minimum, %d", c.Canary.Decisions, c.Canary.Minimum)
	}
	if c.Hub != nil && c.Desired.Dir != "" {
		m.Get("hub").Fail("desired.dir and hub are both set, and desired state comes from one place")
	}
	if c.Hub != nil && c.Hub.CA != "" && strings.HasPrefix(c.Hub.URL, "http:") {
		m.Get("hub").Get("ca").Fail("ca is for https, and the url is %s", c.Hub.URL)
	}
	if c.Libvirt != nil {
		for name, t := range c.Libvirt.Templates {
			if t.Pool == "" {
				t.Pool = c.Libvirt.Pool
				c.Libvirt.Templates[name] = t
			}
		}
	}
	if c.Proxmox != nil {
		c.Proxmox.together(m.Get("proxmox"))
	}
	if c.Store != nil {
		c.movable(m.Get("store"))
		c.Store.together(m.Get("store"))
	}
	c.elsewhere(m)
	v, names := m.Get("new_guests"), c.GuestBackends()
	switch {
	case v.Present() && !slices.Contains(names, c.NewGuests):
		v.Fail("new_guests is %q, and the back ends are: %s", op.Shown(c.NewGuests), strings.Join(names, ", "))
	case !v.Present() && len(names) > 1:
		m.Fail("new_guests is missing: guests can be made in %s", strings.Join(names, ", "))
	case !v.Present():
		c.NewGuests = names[0]
	}
}

// movable refuses what is of one host alone on a gate that may go on on another: guests would seem to vanish with the move.
// A program with crash points is for tests, in which one host has the ledger's only member, and local guests are ended with it.
func (c *Config) movable(store strictyaml.Value) {
	if crashpoint.Built {
		return
	}
	for _, name := range c.GuestBackends() {
		if name != "proxmox" {
			store.Fail("the gate may go on on another host, and the guests of %s are on one host alone: "+
				"such a gate has the section proxmox, and neither local nor libvirt", name)
		}
	}
	if len(c.Commands) > 0 {
		store.Fail("the gate may go on on another host, and commands change one host alone: take commands out, or store")
	}
}

func (p *Proxmox) together(s strictyaml.Value) {
	if (p.Fingerprint == "") == (p.CAFile == "") {
		s.Fail("proxmox needs one of fingerprint and ca_file, which say whom to trust")
	}
	if ids := s.Get("vmids"); ids.Present() {
		ids.Need("first")
		ids.Need("last")
		if ids.Sound() && p.First > p.Last {
			ids.Fail("vmids begin at %d and end before that, at %d", p.First, p.Last)
		}
	}
	for name, m := range s.Get("templates").Each() {
		switch t := p.Templates[name]; {
		case t.Clone != 0 && (t.OSTemplate != "" || t.Disk != 0 || t.Network != "" || t.OSType != ""):
			m.Fail("a clone has what its template has: only kind and storage go with it")
		case t.Clone != 0:
		case t.Disk == 0:
			m.Fail("a template needs clone or disk")
		case t.Storage == "" && p.Storage == "":
			m.Fail("a new disk needs storage, here or for all")
		case (t.OSTemplate != "") != (t.Kind == "lxc"):
			m.Fail("a container is made of an ostemplate, and nothing else is")
		case t.Kind == "lxc" && t.OSType != "":
			m.Fail("ostype is for kind qemu")
		}
	}
}

// GuestBackends returns the names of the gate's back ends for guests, at least one, sorted: those with a section in the
// file. local also counts if the file has none of the others.
func (c Config) GuestBackends() []string {
	var out []string
	if c.Libvirt != nil {
		out = append(out, "libvirt")
	}
	if c.HasLocal || c.Libvirt == nil && c.Proxmox == nil {
		out = append(out, "local")
	}
	if c.Proxmox != nil {
		out = append(out, "proxmox")
	}
	return out
}

// Initial has the facts of a new gate for gated init.
type Initial struct {
	Host       string
	SingleUser bool   // false if init runs for a separate uid of the daemon
	State      string // the state directory, an absolute path
	Group      string // socket_group; empty for a line that is commented out
	Libvirt    string // the socket of the libvirtd that has the guests, an absolute path; empty for a section that is commented out
	Store      *Store // the gate's ledger; nil for a section that is commented out
}

//go:embed gated.yaml.tmpl
var text string

var shown = template.FuncMap{"scalar": scalar, "short": strictyaml.Short}

// tmpl is parsed at its first use, because each start of the program would pay for it.
var tmpl = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("gated.yaml").Funcs(shown).Parse(text))
})

// Render returns the file that gated init writes: its facts, and every other key commented out, with its default and
// purpose.
func Render(in Initial) ([]byte, error) {
	c, err := Parse("", []byte("host: h\nhub: {url: https://h}\ncommands: {default: {argv: [/x]}}\n"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = tmpl().Execute(&b, struct {
		Initial
		Config
		Quota int64 // MiB
	}{in, c, c.Limits.JournalQuota >> 20})
	return b.Bytes(), err
}

// scalar returns s as YAML, in quotes if YAML would read it as another value.
func scalar(s string) string {
	if m, err := strictyaml.Parse("", []byte("k: "+s+"\n")); err == nil && m.Get("k").Text() == s && m.Done() == nil {
		return s
	}
	return strconv.Quote(s)
}
