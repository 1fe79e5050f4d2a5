// Package hostgate finds out what a host has of a gate for all of its users, without that gate: its state, and the units of systemd that
// start it. It turns that into the next command for a person whose call nobody answers.
package hostgate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gated/internal/base/op"
)

// StateDir is the state directory of the host's gate.
const StateDir = "/var/lib/gated"

// Units are the directories in which people and packages put units, the first wins (systemd.unit(5)).
var Units = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// Host is a host by its root directory. The zero value is this one.
type Host struct {
	Root string
	show func(context.Context) (string, error) // shows the gate's units; systemctl if nil
}

// at reports whether there is anything at a path.
func (h Host) at(path string) bool {
	_, err := os.Lstat(h.Root + path)
	return err == nil
}

// Booted reports whether systemd is the service manager (sd_booted(3)).
func (h Host) Booted() bool {
	info, err := os.Lstat(h.Root + "/run/systemd/system")
	return err == nil && info.IsDir()
}

// wasMade reports whether systemd starts the gate itself at boot, which gated setup has it do. A package has it listen alone.
func (h Host) wasMade() bool {
	return h.at("/etc/systemd/system/multi-user.target.wants/gated.service")
}

// atBoot reports whether systemd starts the gate or its socket at boot.
func (h Host) atBoot() bool {
	return h.wasMade() || h.at("/etc/systemd/system/sockets.target.wants/gated.socket")
}

// Prepared reports whether a package, or a person as contrib/systemd says, prepared the host for a gate, or made one.
func (h Host) Prepared() bool {
	return h.at("/etc/gated/client.yaml") || h.at(StateDir) ||
		slices.ContainsFunc(Units, func(dir string) bool { return h.at(filepath.Join(dir, "gated.socket")) })
}

// Start is the command that starts the host's gate, where Starts says so.
const Start = "systemctl start gated"

// Starts reports whether systemd runs and has a unit for the gate of a state directory.
func (h Host) Starts(dir string) bool {
	return dir == StateDir && h.Booted() && slices.ContainsFunc(Units, func(dir string) bool { return h.at(filepath.Join(dir, "gated.service")) })
}

// Next is a sentence and the next command for a person who finds nobody at a path, the socket of the host's gate. It names
// gated setup only if it sees that there is no state.
func (h Host) Next(ctx context.Context, path string) string {
	found, err := os.ReadDir(h.Root + StateDir)
	found = slices.DeleteFunc(found, func(e fs.DirEntry) bool { return e.Name() == "lost+found" }) // a file system that was just made
	none := errors.Is(err, fs.ErrNotExist) || err == nil && len(found) == 0
	switch {
	case none && h.wasMade():
		return "there is no gate in " + StateDir + ", and systemd starts one at boot. One that was there: mount its disk, or restore a backup:\n" +
			h.Restore(StateDir) + "\nA new one: sudo gated setup"
	case none:
		return "no gate was made on this host: sudo gated setup makes it"
	case err == nil && h.Starts(StateDir) && !slices.ContainsFunc(found, func(e fs.DirEntry) bool { return e.Name() == "gated.db" }):
		return "there is no database in " + StateDir + ". If there was one, restore a backup, also if a restore was cut off:\n" + h.Restore(StateDir) +
			"\nIf no gate ever ran there, move its files away, then: sudo gated setup"
	}
	why, commands := "", ""
	if h.Booted() {
		why, commands = h.unheard(ctx, path)
	}
	switch {
	case why != "" && os.Geteuid() == 0:
		return why + ":\n" + commands
	case why != "":
		return why + ":\nsudo " + strings.ReplaceAll(commands, "\n", "\nsudo ")
	case errors.Is(err, fs.ErrPermission):
		return "no gate of this host runs, and only root can see whether one was made: sudo gated status"
	case !h.Starts(StateDir):
		return "the gate of this host does not run; its user starts it with gated serve --state " + StateDir
	case !h.atBoot():
		return "the gate of this host does not run, and does not start at boot: systemctl enable --now gated.socket gated"
	}
	return "the gate of this host does not run: " + Start + "\n" + h.LookWhy()
}

// Restore are the commands that restore a backup FILE into a state directory, as the owner of that directory. A restore
// refuses a directory without gated.yaml, which therefore comes first. Root types them where systemd starts the gate: its shell
// opens a file that the owner may not read. The gate starts only if it is sound.
func (h Host) Restore(dir string) string {
	info, err := os.Stat(h.Root + dir)
	if _, none := os.Stat(filepath.Join(h.Root+dir, "gated.yaml")); errors.Is(none, fs.ErrNotExist) {
		return "gated docs runbook    # section A new machine: first the directory with its gated.yaml"
	}
	typist, starts, first := uint32(os.Geteuid()), h.Starts(dir), ""
	if starts && typist != 0 {
		typist, first = 0, "sudo -s\n"
	}
	as := ""
	if err == nil {
		as = As(typist, info.Sys().(*syscall.Stat_t).Uid)
	}
	state := "--state " + op.ShellWords(dir)
	restore := "gated restore FILE " + state
	if as != "" {
		restore = as + "gated restore - " + state + " < FILE"
	}
	if !starts {
		return restore
	}
	return first + "systemctl stop gated.socket gated\n" + restore + "\n" + as + "gated trust show " + state + "    # who may sign now: read it\n" +
		as + "gated fsck " + state + " && " + Start
}

// As begins a command of one user that another one types, "" if they are the same.
func As(typist, uid uint32) string {
	switch {
	case typist == uid:
		return ""
	case uid == 0:
		return "sudo "
	}
	id, sudo := strconv.FormatUint(uint64(uid), 10), ""
	if typist != 0 {
		sudo = "sudo "
	}
	if u, err := user.LookupId(id); err == nil {
		return sudo + "runuser -u " + u.Username + " -- "
	}
	return sudo + "setpriv --reuid " + id + " --clear-groups "
}

// LookWhy are the commands that say why the host's gate does not answer, "" if systemd does not start it.
func (h Host) LookWhy() string {
	if !h.Starts(StateDir) {
		return ""
	}
	return "systemctl status gated\njournalctl -u gated -n 20"
}
