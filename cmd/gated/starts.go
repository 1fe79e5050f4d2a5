package main

import (
	"path/filepath"
	"strings"

	"gated/internal/base/hostgate"
	"gated/internal/base/ownfile"
)

// thisHost is the host that a line is for, which tests replace.
var thisHost hostgate.Host

const inTerminal = "    # in a terminal of its own"

// maxUnit is more than the unit has that gated setup writes, in bytes.
const maxUnit = 64 << 10

// starts is the line that starts the gate of a state directory: its unit where a service manager has one, else gated serve.
func (t *tool) starts(dir string) string {
	at, err := filepath.Abs(dir)
	if err == nil && thisHost.Starts(at) {
		return hostgate.Start
	}
	// As gated setup --service writes it. Root may be looking into the home of another user.
	unit, err := ownfile.Own().Read(filepath.Join(t.userUnits(), "gated.service"), maxUnit)
	if err == nil && strings.Contains(string(unit), " serve --state "+at+"\n") {
		return "systemctl --user start gated"
	}
	return "gated serve" + stateArg(dir)
}

// userUnits is the directory of this user's own units.
func (t *tool) userUnits() string {
	config := t.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(t.person().home, ".config")
	}
	return filepath.Join(config, "systemd", "user")
}
