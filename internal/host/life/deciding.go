package life

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/host/config"
	"gated/internal/host/state"
	"gated/internal/host/unit"
)

// maxSettings bounds how much of gated.yaml is read, in bytes. config.Parse refuses
// a file that has more.
const maxSettings = 16 << 20

// CheckDeciding refuses, as NotAllowed, a configuration that names a file or
// directory which anybody but root and the daemon's own uid could change: what is
// in it decides what the gate runs, whom it believes or what it wishes. It says
// which setting names it. What is not there decides nothing, and whoever reads it
// says so; the directory in which it would be made has to be the daemon's own, too.
//
// Whatever is read later, while the daemon runs, is checked again as it is opened.
func CheckDeciding(c config.Config) error {
	for _, n := range namedBy(c) {
		err := n.check(n.path)
		if errors.Is(err, fs.ErrNotExist) {
			err = ownfile.Own().CheckAbove(n.path)
		}
		if err != nil {
			return notBelieved(n.key, err)
		}
	}
	return nil
}

// CheckUnit refuses, as NotAllowed, the unit that systemd runs this daemon by, if
// anybody but root and the daemon's own uid could change it: it says which program is
// the gate, as whom it runs and on which state. Where no unit runs it, none decides.
func CheckUnit(p unit.Place) error {
	s, err := p.Service()
	if err == nil {
		err = s.Check(ownfile.Own())
	}
	if err != nil {
		return notBelieved(cmp.Or(s.Name, "the daemon's unit"), err)
	}
	return nil
}

// notBelieved is the refusal of what a key names, with what mends it.
func notBelieved(key string, err error) error {
	var r *refusal.Refusal
	if errors.As(err, &r) {
		return refusal.New(r.Code, "%s: %s", key, r.Detail).WithHint("%s", r.Hint)
	}
	return refusal.New(refusal.NotAllowed, "%s cannot be looked at, so that it is not believed: %v", key, err).
		WithHint("let the daemon's user search the directories above it")
}

// CheckConfig reads the configuration of a state directory of this user's as its
// daemon does, and returns where it is and why that daemon refuses it. The path is
// empty if no gate is there, or another user's: root would follow that user's links.
func CheckConfig(dir string) (path string, refused error) {
	path = filepath.Join(dir, state.SettingsName)
	info, err := os.Stat(dir)
	if err != nil {
		return "", nil
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if _, err := os.Lstat(path); err != nil || !ok || st.Uid != uint32(os.Geteuid()) {
		return "", nil
	}
	c, err := settingsOf(ownfile.Own(), dir)
	if err == nil {
		err = CheckDeciding(c)
	}
	return path, err
}

// named is a path that gated.yaml names.
type named struct {
	key, path string
	check     func(path string) error
}

// namedBy returns everything by which a configuration decides, beside itself.
func namedBy(c config.Config) []named {
	own := ownfile.Own()
	all := []named{{"revocation_file", c.RevocationFile, own.Check}, {"desired.dir", c.Desired.Dir, own.Check}, {"local.root", c.Local.Root, own.Check}}
	if h := c.Hub; h != nil {
		all = append(all, named{"hub.ca", h.CA, own.Check}, named{"hub.token_file", h.TokenFile, own.Check})
	}
	if p := c.Proxmox; p != nil {
		all = append(all, named{"proxmox.ca_file", p.CAFile, own.Check}, named{"proxmox.token_file", p.TokenFile, own.Check})
	}
	if l := c.Libvirt; l != nil {
		all = append(all, named{"libvirt.socket", l.Socket, own.CheckAbove}) // who may connect is libvirt's to say
	}
	for _, name := range slices.Sorted(maps.Keys(c.Local.Commands)) {
		all = append(all, named{"local.commands." + name, program(c.Local.Commands[name].Argv), own.CheckProgram})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Commands)) {
		e := c.Commands[name]
		all = append(all, named{"commands." + name, program(e.Argv), own.CheckProgram}, named{"commands." + name + ".probe", program(e.Probe), own.CheckProgram})
	}
	return slices.DeleteFunc(all, func(n named) bool { return n.path == "" })
}

// program returns the program of a command line, "" if there is none.
func program(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return argv[0]
}
