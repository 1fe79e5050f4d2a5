package config

import (
	"slices"
	"strings"

	"gated/internal/op"
	"gated/internal/strictyaml"
)

// localBackend is the back end that is there where nothing else is configured.
const localBackend = "local"

// guestBackends are the back ends that can have guests, beside local, each with
// whether a configuration has its section.
var guestBackends = []struct {
	name       string
	configured func(Config) bool
}{
	{"libvirt", func(c Config) bool { return c.Libvirt != nil }},
	{"proxmox", func(c Config) bool { return c.Proxmox != nil }},
}

// GuestBackends returns the names of the back ends that have the gate's guests,
// at least one: those whose sections are in the file, and local where there is
// none of the others or a section local, too.
func (c Config) GuestBackends() []string {
	var out []string
	for _, b := range guestBackends {
		if b.configured(c) {
			out = append(out, b.name)
		}
	}
	if c.HasLocal || len(out) == 0 {
		out = append(out, localBackend)
	}
	slices.Sort(out)
	return out
}

// newGuests reads in which back end guests are made. Of several somebody has to
// say it; nobody can mean one that is not there.
func newGuests(m *strictyaml.Map, c *Config) {
	v, names := m.Get("new_guests"), c.GuestBackends()
	c.NewGuests = v.String()
	switch {
	case !m.Sound():
	case v.Present() && !slices.Contains(names, c.NewGuests):
		v.Fail("new_guests is %q, and the back ends are: %s", op.Shown(c.NewGuests), strings.Join(names, ", "))
	case !v.Present() && len(names) > 1:
		m.Fail("new_guests is missing: guests can be made in %s", strings.Join(names, ", "))
	case !v.Present():
		c.NewGuests = names[0]
	}
}
