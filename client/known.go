package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
)

// knownHeader begins a new file.
const knownHeader = "# The gates that opsign knows, one a line: ADDRESS HOST GATEID. See opsign known and opsign forget.\n"

// maxHostText is the longest name of a gate's host, in bytes; the same as in a payload.
const maxHostText = 253

// KnownGate is what a gate said of itself at the first meeting.
type KnownGate struct {
	Address Address    `json:"address"`
	Host    string     `json:"host"` // that it guards, in its own words
	Gate    api.GateID `json:"gate"`
	Line    int        `json:"-"` // of its file, from 1
}

// String writes the line of known_gates, without its end.
func (k KnownGate) String() string {
	return string(k.Address) + " " + escape(k.Host) + " " + string(k.Gate)
}

// ParseKnown reads known_gates: one gate a line, three fields with one space between them. It skips empty lines and
// lines that begin with #. Any other form, or a repeated address, is Malformed, with the name and the line.
func ParseKnown(name string, text []byte) ([]KnownGate, error) {
	var out []KnownGate
	seen := map[Address]int{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		k, why := parseKnownLine(line)
		if first := seen[k.Address]; why == "" && first > 0 {
			why = fmt.Sprintf("%s is on line %d already", k.Address, first)
		}
		if why != "" {
			return nil, refusal.New(refusal.Malformed, "%s:%d: %s", name, n, why).
				WithHint("each line is ADDRESS HOST GATEID; correct the line, or remove it to meet that gate anew")
		}
		k.Line = n
		seen[k.Address] = n
		out = append(out, k)
	}
	return out, nil
}

func parseKnownLine(line string) (k KnownGate, why string) {
	f := strings.Split(line, " ")
	if len(f) != 3 {
		return k, "not three fields with one space between them"
	}
	address, err := ParseAddress(f[0])
	if err != nil || string(address) != f[0] {
		return k, fmt.Sprintf("%q is not the address of a gate", f[0])
	}
	host, ok := unescape(f[1])
	if !ok || !isHostText(host) {
		return k, fmt.Sprintf("%q is not the name of a gate's host", f[1])
	}
	k = KnownGate{Address: address, Host: host, Gate: op.GateID(f[2])}
	if !k.Gate.Valid() {
		return k, fmt.Sprintf("%q is not a gate's id, which has 32 lower-case hex digits", f[2])
	}
	return k, ""
}

func isHostText(s string) bool {
	return s != "" && len(s) <= maxHostText && op.CheckText("host", s) == nil
}

// maxKnown is the largest known_gates that is read, in bytes.
const maxKnown = 1 << 20

// errNoHome says why there is no place for known_gates.
var errNoHome = errors.New("neither XDG_CONFIG_HOME nor HOME is set")

// KnownGates is the file with a user's pinned gates. Several goroutines, and several programs, may use it.
type KnownGates struct {
	Path string // empty: no place for it
}

// KnownGatesOf returns $XDG_CONFIG_HOME/gated/known_gates, else the one below
// ~/.config.
func KnownGatesOf(getenv func(string) string) KnownGates {
	dir := getenv("XDG_CONFIG_HOME")
	if home := getenv("HOME"); !filepath.IsAbs(dir) && filepath.IsAbs(home) {
		dir = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(dir) {
		return KnownGates{}
	}
	return KnownGates{Path: filepath.Join(dir, "gated", "known_gates")}
}

// NotPinned says that a newly met gate could not be written to the file. The next meeting would be a first one again.
type NotPinned struct{ Err error }

func (n *NotPinned) Error() string { return "the gate cannot be pinned: " + n.Err.Error() }

// Unwrap returns why.
func (n *NotPinned) Unwrap() error { return n.Err }

// List returns all gates in the order of the file; none if there is no file. It refuses as NotAllowed a file, or a
// directory, that others may write or that belongs to neither root nor the user: it proves nothing. A link, or any
// other file that is not regular, is refused too. See also ParseKnown.
func (f KnownGates) List() ([]KnownGate, error) {
	text, err := f.read()
	if err != nil {
		return nil, err
	}
	return ParseKnown(f.Path, text)
}

// Known reports whether a gate is the pinned one at its address. Another gate is TargetMismatch. An answer that is not
// a gate's is Internal. It changes nothing.
func (f KnownGates) Known(at Address, s api.Status) (bool, error) {
	if !s.Gate.Valid() || !isHostText(s.Host) {
		return false, refusal.New(refusal.Internal, "at %s something answers as gate %q on %q, which is no gate", at,
			s.Gate, s.Host).
			WithHint("are both of the same version?")
	}
	gates, err := f.List()
	if err != nil {
		return false, err
	}
	return f.compare(gates, KnownGate{Address: at, Host: s.Host, Gate: s.Gate})
}

// Elsewhere returns the other addresses at which a gate of that id is pinned. One gate may have several addresses; so
// may a gate that another program relays.
func (f KnownGates) Elsewhere(at Address, id api.GateID) ([]KnownGate, error) {
	gates, err := f.List()
	return slices.DeleteFunc(gates, func(k KnownGate) bool { return k.Gate != id || k.Address == at }), err
}

// Check is Known, and pins a gate at its first meeting. It reports that. The error is *NotPinned if it could not pin.
func (f KnownGates) Check(at Address, s api.Status) (pinned bool, err error) {
	if known, err := f.Known(at, s); known || err != nil {
		return false, err
	}
	is := KnownGate{Address: at, Host: s.Host, Gate: s.Gate}
	err = f.change(func(gates []KnownGate, text []byte) ([]byte, error) {
		// Another program may have met the gate in the meantime.
		if known, err := f.compare(gates, is); known {
			return nil, err
		}
		pinned = true
		return append(text, is.String()+"\n"...), nil
	})
	var refused *api.Refusal
	if err != nil && !errors.As(err, &refused) {
		err = &NotPinned{err}
	}
	return pinned && err == nil, err
}

// compare looks a gate up, and refuses another gate at its address.
func (f KnownGates) compare(gates []KnownGate, is KnownGate) (known bool, err error) {
	for _, k := range gates {
		if k.Address != is.Address {
			continue
		}
		if k.Gate == is.Gate && k.Host == is.Host {
			return true, nil
		}
		return true, f.another(k, is)
	}
	return false, nil
}

// another refuses a gate that differs from the pinned one at its address.
func (f KnownGates) another(was, is KnownGate) error {
	return refusal.New(refusal.TargetMismatch,
		"another gate answers at %s:\nknown there: gate %s on %s (%s:%d)\nanswers now: gate %s on %s",
		was.Address, was.Gate, op.Shown(was.Host), f.Path, was.Line, is.Gate, op.Shown(is.Host)).
		WithHint("nothing was signed. A gate gets a new id when it was removed and made again with gated init, when its state is "+
			"restored from a backup, or when its clock is accepted anew; else another machine, or somebody who pretends to be the gate, "+
			"answers there.\nAsk whoever runs the gate, and compare the id with what gated status prints on that host. If it is right, "+
			"also where you made the gate again yourself:\nopsign forget %s", was.Address)
}

// Forget removes the pinned gate of an address, so that the next gate that answers there is pinned. An unknown address
// is UnknownTarget.
func (f KnownGates) Forget(at Address) (gone KnownGate, err error) {
	unknown := refusal.New(refusal.UnknownTarget, "no gate is known at %s", at).WithHint("opsign known lists them")
	if f.Path == "" {
		return gone, unknown
	}
	err = f.change(func(gates []KnownGate, text []byte) ([]byte, error) {
		for _, k := range gates {
			if k.Address == at {
				gone = k
				lines := bytes.SplitAfter(text, []byte("\n"))
				return bytes.Join(append(lines[:k.Line-1:k.Line-1], lines[k.Line:]...), nil), nil
			}
		}
		return nil, unknown
	})
	return gone, err
}

// change replaces the file with edit's result, unless that is nil. No other writer changes it meanwhile, and a reader
// sees the old or the new file.
func (f KnownGates) change(edit func([]KnownGate, []byte) ([]byte, error)) error {
	if f.Path == "" {
		return errNoHome
	}
	file := f.file()
	if err := file.MakeDir(); err != nil {
		return err
	}
	// The lock's holder only rewrites one small file, so the wait is short.
	unlock, err := file.Lock(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	text, err := f.read()
	if err != nil {
		return err
	}
	gates, err := ParseKnown(f.Path, text)
	if err != nil {
		return err
	}
	switch {
	case len(text) == 0:
		text = []byte(knownHeader)
	case text[len(text)-1] != '\n':
		text = append(text, '\n')
	}
	changed, err := edit(gates, text)
	if err != nil || changed == nil {
		return err
	}
	return file.Replace(changed)
}

// read returns the file's text; empty if there is no file, or no place for one.
func (f KnownGates) read() ([]byte, error) {
	if f.Path == "" {
		return nil, nil
	}
	return f.file().Read()
}

func (f KnownGates) file() ownfile.File {
	return ownfile.File{Path: f.Path, Max: maxKnown, What: "the gates that are known", Moved: "XDG_CONFIG_HOME"}
}
