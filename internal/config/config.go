// Package config reads gated.yaml, the operator's own file, and writes the one
// that gated init leaves behind. What the file says of policy can only tighten
// the built-in rules.
package config

import (
	"errors"
	"time"

	"gated/internal/driver/command/catalogue"
	"gated/internal/op"
	"gated/internal/policy"
	"gated/internal/strictyaml"
)

// Defaults of what the file does not say.
const (
	DefaultTrashKeep = 24 * time.Hour
	DefaultStopGrace = 10 * time.Second
	DefaultInterval  = 30 * time.Second
	DefaultWorkers   = 4

	DefaultJournalQuota = 128 // MiB
	DefaultSnapshots    = 32

	DefaultCanaryDecisions = 200
	DefaultCanaryDays      = 7
	DefaultCanaryMinimum   = 30
	DefaultCanaryFloor     = 20
)

// Config is a parsed gated.yaml with every default filled in, but for paths and
// uids that depend on where and as whom the daemon runs.
type Config struct {
	Host       string
	SingleUser bool // agents run under the daemon's own uid: isolation is none

	Socket      string // an absolute path; empty means the default
	SocketGroup string // empty means the default

	AnySubmitter bool     // any who may connect may submit jobs
	Submitters   []uint32 // who may, where not any
	Operators    []uint32 // who may put desired state, beside root

	Local     Local
	Libvirt   *Libvirt // nil means none
	Proxmox   *Proxmox // nil means none
	HasLocal  bool     // the file has the section; see GuestBackends
	NewGuests string   // one of GuestBackends: in which guests are made

	Desired Desired
	Hub     *Hub          // nil means none
	Policy  policy.Policy // its Commands are the names of Local.Commands, its Benign those of Commands
	Limits  Limits
	Workers int // targets that are worked on side by side
	Canary  Canary
	Unseen  bool // paths may be reserved in directories that the daemon cannot see

	// Commands is the operator's catalogue of commands; nil means no command driver.
	Commands map[string]catalogue.Entry

	// RevocationFile lists keys that count no more, an absolute path. If it is
	// named here, it must be there; empty means DIR/revoked, which need not.
	RevocationFile string
}

// Local configures the local driver.
type Local struct {
	Root      string // an absolute path; empty means DIR/guests
	TrashKeep time.Duration
	StopGrace time.Duration
	Cgroup    string // an absolute path; empty means no limits by cgroup
	Commands  map[string]Command
	GuestUIDs UIDs
}

// UIDs is a range of uids, both ends included. The zero value is none.
type UIDs struct{ First, Last uint32 }

// Command is what a guest may run, by name.
type Command struct {
	Argv []string // the first is an absolute path; nothing is expanded
	User string   // a name or a number; empty means the daemon's own
	Env  map[string]string
	// Guests are patterns over the names of the guests that may run it, in which *
	// stands for any text and ? for one letter; none: all may.
	Guests []string
}

// Desired says where desired state comes from.
type Desired struct {
	Dir      string // an absolute path; empty means the API
	Interval time.Duration
}

// Limits bound what one requester may have the gate keep, and keep disk space for
// signed work.
type Limits struct {
	JournalQuota int64 // bytes that are written for one uid, or one desired set, in an hour
	Snapshots    int   // of one guest, taken for one uid or one desired set
	KeepFree     int64 // bytes of free disk below which only signed work goes on; -1: a part of the disk
	Reserve      int64 // bytes of the file that is given back to signed work; -1: a part of the disk
}

// Canary says how the gate watches its own decisions after a change.
type Canary struct {
	Decisions int // that a window has at most: 20 to 1000, and twice Minimum at least
	Days      int // that a window lasts at most: 1 to 30
	Minimum   int // decisions without which nothing is compared: 10 to 500
	Floor     int // percentage points below which a difference is noise: 5 to 50
}

// Parse reads b strictly; file names it in errors. Refusals are Malformed and
// begin with "file:line:column: ".
func Parse(file string, b []byte) (Config, error) {
	m, err := strictyaml.Parse(file, b)
	if err != nil {
		return Config{}, refusal(err)
	}
	c := Config{
		Host:        host(m.Need("host")),
		SingleUser:  m.Bool("single_user"),
		Socket:      path(m.Get("socket")),
		SocketGroup: account(m.Get("socket_group")),
		Operators:   uids(m.Get("operators")),
		Local:       local(m.Map("local")),
		Libvirt:     libvirt(m),
		Proxmox:     proxmox(m),
		HasLocal:    m.Has("local"),
		Desired:     desired(m.Map("desired")),
		Policy:      tightened(file, m.Map("policy")),
		Workers:     DefaultWorkers,
		Canary:      canary(m.Map("canary")),
		Commands:    entries(m.Map("commands")),

		RevocationFile: path(m.Get("revocation_file")),
	}
	c.AnySubmitter, c.Submitters = submitters(m.Get("submitters"))
	c.Hub = hub(m, c.Desired)
	c.Unseen = unseen(m.Map("reservations").Get("unseen"))
	limits := m.Map("limits")
	if limits.Has("workers") {
		c.Workers = int(limits.Int("workers", 1, 256))
	}
	c.Limits = bounds(limits)
	c.Policy.Commands, c.Policy.Benign = names(c.Local.Commands), harmless(c.Commands)
	c.Policy.CommandGuests = forGuests(c.Local.Commands)
	newGuests(m, &c) // every section was read
	if err := m.Done(); err != nil {
		return Config{}, refusal(err)
	}
	return c, nil
}

func refusal(err error) error {
	var e *strictyaml.Error
	if errors.As(err, &e) && e.TooLarge {
		return op.Refuse(op.Oversized, "%s", e.Error())
	}
	return op.Refuse(op.Malformed, "%v", err).WithHint("docs/formats/configuration.md explains every key")
}

func host(v strictyaml.Value) string {
	s := v.String()
	if s == "" || len(s) > 253 {
		v.Fail("host has %d bytes, not 1 to 253", len(s))
	}
	return s
}

func local(m *strictyaml.Map) Local {
	return Local{
		Root:      path(m.Get("root")),
		TrashKeep: duration(m.Get("trash_keep"), DefaultTrashKeep, time.Second, 366*24*time.Hour),
		StopGrace: duration(m.Get("stop_grace"), DefaultStopGrace, time.Second, time.Hour),
		Cgroup:    path(m.Get("cgroup")),
		Commands:  commands(m.Map("commands")),
		GuestUIDs: uidRange(m.Get("guest_uids")),
	}
}

func desired(m *strictyaml.Map) Desired {
	return Desired{
		Dir:      path(m.Get("dir")),
		Interval: duration(m.Get("interval"), DefaultInterval, time.Second, 24*time.Hour),
	}
}

// bounds reads what one requester may have the gate keep, and what of the disk is
// kept for signed work. Sizes are in MiB in the file.
func bounds(m *strictyaml.Map) Limits {
	mebibytes := func(key string, otherwise, least, most int64) int64 {
		if !m.Has(key) {
			return otherwise
		}
		return m.Int(key, least, most) << 20
	}
	l := Limits{JournalQuota: mebibytes("journal_quota", DefaultJournalQuota<<20, 1, 1<<20), Snapshots: DefaultSnapshots,
		KeepFree: mebibytes("keep_free", -1, 0, 1<<20), Reserve: mebibytes("reserve", -1, 0, 1<<16)}
	if m.Has("snapshots_per_guest") {
		l.Snapshots = int(m.Int("snapshots_per_guest", 1, 10_000))
	}
	return l
}

func canary(m *strictyaml.Map) Canary {
	number := func(key string, otherwise, least, most int64) int {
		if !m.Has(key) {
			return int(otherwise)
		}
		return int(m.Int(key, least, most))
	}
	c := Canary{
		Decisions: number("decisions", DefaultCanaryDecisions, 20, 1000),
		Days:      number("days", DefaultCanaryDays, 1, 30),
		Minimum:   number("minimum", DefaultCanaryMinimum, 10, 500),
		Floor:     number("floor", DefaultCanaryFloor, 5, 50),
	}
	if m.Sound() && c.Decisions < 2*c.Minimum {
		m.Fail("decisions is %d, less than twice the minimum, %d", c.Decisions, c.Minimum)
	}
	return c
}
