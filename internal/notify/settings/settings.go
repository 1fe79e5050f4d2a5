// Package settings reads notify.yaml and the secrets that it names.
package settings

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/base/strictyaml"
	"gated/internal/notify/message"
)

// Settings are a parsed notify.yaml with all defaults.
type Settings struct {
	Socket      string        // an absolute path; empty: as every client finds it
	State       string        // the directory of the outbox; empty: the caller's default
	Reach       string        // how operators reach this gate with opsign -H; empty: on its host
	Unreachable time.Duration // after this time without a daemon, alarm
	Backups     *Backups      // nil: the age of backups is not watched here
	Sinks       []Sink        // in the order of the file
}

// Backups says where backups are, and how old the newest may be.
type Backups struct {
	Dir   string
	Older time.Duration
}

// Sink is one receiver of messages. Exactly one of the four last fields is not nil.
type Sink struct {
	Name       string
	Roles      []op.Role // it gets requests that one of these roles can still sign
	Principals []string  // it gets requests that one of these people can still sign
	For        []string  // it gets what became of these requesters' requests: uid:1000, agent:builder
	Alarms     bool
	Details    message.Details
	Escalate   *Escalate
	Digest     Digest
	GiveUp     time.Duration // from a message's making on
	Timeout    time.Duration // of one try

	Webhook *Webhook
	Ntfy    *Ntfy
	SMTP    *SMTP
	Exec    *Exec
}

// Type names what the sink is.
func (s Sink) Type() string {
	switch {
	case s.Webhook != nil:
		return "webhook"
	case s.Ntfy != nil:
		return "ntfy"
	case s.SMTP != nil:
		return "smtp"
	}
	return "exec"
}

// Escalate says which sink is told after which time, if the request still waits.
type Escalate struct {
	After time.Duration
	To    string
}

// Digest says from how many messages within which time one message comes for all further ones.
type Digest struct {
	More   int
	Within time.Duration
}

// Webhook is a receiver of HTTP calls.
type Webhook struct {
	URL      string // a secret, if it comes from a file or has a password or a path
	Secret   []byte // of Standard Webhooks; nil: calls are not signed
	Token    string // a secret: of the header Authorization; empty: none
	Template string // empty: a CloudEvent
	Chat     string // of Telegram
	Room     string // of Matrix
	CA       []byte // PEM; nil: the system's authorities
}

// Ntfy is a topic of an ntfy server.
type Ntfy struct {
	URL   string
	Topic string // like a password, if the server lets everybody read
	Token string
	CA    []byte
}

// SMTP is a mail server and who gets mails.
type SMTP struct {
	Server   string // HOST:PORT
	TLS      string // starttls, implicit, none
	User     string
	Password string
	From     string
	To       []string
	CA       []byte
}

// Exec is a program that reads messages from its standard input.
type Exec struct{ Argv []string }

// Secrets returns every text of a sink that must not be printed.
func (s Sink) Secrets() []string {
	var out []string
	add := func(list ...string) {
		for _, t := range list {
			if t != "" {
				out = append(out, t)
			}
		}
	}
	if w := s.Webhook; w != nil {
		add(w.URL, w.Token, string(w.Secret))
		add(pathOf(w.URL)...)
	}
	if n := s.Ntfy; n != nil {
		add(n.Token, n.Topic)
	}
	if m := s.SMTP; m != nil {
		add(m.Password)
	}
	return out
}

// maxFile bounds notify.yaml, and a secret or certificate file, in bytes.
const maxFile = 1 << 20

// MaxSinks is the most sinks of a file.
const MaxSinks = 64

// Load reads notify.yaml. It refuses a file that others can write, and a secret that others can read, as NotAllowed. A
// missing file is UnknownTarget, a wrong one BadParams with file and line.
func Load(path string) (Settings, error) {
	b, err := ownfile.Own().Read(path, maxFile)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Settings{}, refusal.New(refusal.UnknownTarget, "there is no %s", op.Shown(path)).
			WithHint("gated docs guides/notify says how to write it, or name another file with --config")
	case err != nil:
		return Settings{}, err
	case len(b) > maxFile:
		return Settings{}, refusal.New(refusal.Oversized, "%s has more than %d bytes", op.Shown(path), maxFile)
	}
	return Parse(path, b, secretFiles{}.read)
}

// Parse reads the text of a notify.yaml. secret reads the files that it names.
func Parse(name string, b []byte, secret func(path string, private bool) ([]byte, error)) (Settings, error) {
	root, err := strictyaml.Parse(name, b)
	if err != nil {
		return Settings{}, wrong(err)
	}
	r := reader{files: secret}
	s := r.settings(root)
	if err := root.Done(); err != nil {
		return Settings{}, wrong(err)
	}
	if r.refused != nil {
		return Settings{}, r.refused
	}
	return s, nil
}

// wrong returns the refusal of a file's text. It leaves out a line with an address, because that may be a secret.
func wrong(err error) error {
	var e *strictyaml.Error
	if errors.As(err, &e) && strings.Contains(e.Text, "//") {
		e.Text = ""
	}
	return refusal.New(refusal.BadParams, "%v", err).WithHint("gated docs formats/notify has every key")
}

// DefaultPath returns /etc/gated/notify.yaml for root and for users without a home, else the one below the user's
// configuration, if it exists.
func DefaultPath(getenv func(string) string) string {
	const system = "/etc/gated/notify.yaml"
	dir := getenv("XDG_CONFIG_HOME")
	if dir == "" && getenv("HOME") != "" {
		dir = filepath.Join(getenv("HOME"), ".config")
	}
	own := filepath.Join(dir, "gated", "notify.yaml")
	if dir == "" || !filepath.IsAbs(own) {
		return system
	}
	if _, err := os.Lstat(own); err != nil {
		if _, err := os.Lstat(system); err == nil {
			return system
		}
	}
	return own
}

// DefaultState returns where the outbox is unless the settings say so: $STATE_DIRECTORY of a unit, else below the user's
// state. It is "" if nothing names one.
func DefaultState(getenv func(string) string) string {
	if dir := getenv("STATE_DIRECTORY"); filepath.IsAbs(dir) {
		return dir
	}
	return ownfile.StateDir(getenv, "gated-notify")
}

// Find returns a sink by its name, or nil.
func (s Settings) Find(name string) *Sink {
	i := slices.IndexFunc(s.Sinks, func(one Sink) bool { return one.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Sinks[i]
}

var requester = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(uid:(0|[1-9][0-9]{0,9})(@[A-Za-z0-9][A-Za-z0-9._-]{0,127})?|agent:[A-Za-z0-9][A-Za-z0-9._-]{0,127})$`)
})
