package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/host/config"
	"gated/internal/test/must"
)

func TestWhichBackEndsHaveGuests(t *testing.T) {
	const libvirt, proxmox = "libvirt: {}\n", `proxmox: {url: "https://pve:8006", token_file: /t, ca_file: /ca}` + "\n"
	for text, want := range map[string]struct {
		names []string
		makes string
	}{
		"":                                {[]string{"local"}, "local"},
		"local: {}\n":                     {[]string{"local"}, "local"},
		"new_guests: local\n":             {[]string{"local"}, "local"},
		libvirt:                           {[]string{"libvirt"}, "libvirt"},
		proxmox:                           {[]string{"proxmox"}, "proxmox"},
		libvirt + "new_guests: libvirt\n": {[]string{"libvirt"}, "libvirt"},
		libvirt + "local: {}\nnew_guests: local\n":             {[]string{"libvirt", "local"}, "local"},
		libvirt + "local: {}\nnew_guests: libvirt\n":           {[]string{"libvirt", "local"}, "libvirt"},
		proxmox + libvirt + "new_guests: proxmox\n":            {[]string{"libvirt", "proxmox"}, "proxmox"},
		proxmox + libvirt + "local: {}\nnew_guests: libvirt\n": {[]string{"libvirt", "local", "proxmox"}, "libvirt"},
	} {
		c := must.Get(config.Parse("f", []byte("host: h\n"+text)))(t, text)
		require.Equal(t, want.names, c.GuestBackends(), text)
		require.Equal(t, want.makes, c.NewGuests, text)
	}
	for text, want := range map[string]string{
		libvirt + "local: {}\n":                      "new_guests is missing: guests can be made in libvirt, local",
		libvirt + "new_guests: local\n":              `f:3:13: new_guests is "local", and the back ends are: libvirt`,
		"new_guests: libvirt\n":                      `f:2:13: new_guests is "libvirt", and the back ends are: local`,
		"new_guests: \"\"\n":                         "new_guests is",
		"new_guests: [local]\n":                      "f:2:13",
		libvirt + "local: {}\nnew_guests: command\n": `new_guests is "command"`,
	} {
		refused(t, "host: h\n"+text, want)
	}
}
