package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/host/config"
	"gated/internal/test/must"
)

var pin = strings.TrimSuffix(strings.Repeat("Ab:", 32), ":")

func TestProxmox(t *testing.T) {
	c := must.Get(config.Parse("gated.yaml", []byte("host: h\n")))(t)
	require.Nil(t, c.Proxmox)

	c, err := config.Parse("gated.yaml", []byte("host: h\nproxmox: {url: \"https://pve1:8006\", token_file: /etc/gated/token, ca_file: /etc/gated/ca.pem}\n"))
	require.NoError(t, err)
	require.Equal(t, &config.Proxmox{URL: "https://pve1:8006", TokenFile: "/etc/gated/token", CAFile: "/etc/gated/ca.pem", First: 100, Last: 999999999,
		StopGrace: time.Minute, Timeout: 30 * time.Second, Templates: map[string]config.ProxmoxTemplate{}}, c.Proxmox)
	require.Equal(t, []string{"proxmox"}, c.GuestBackends())
	require.Equal(t, "proxmox", c.NewGuests)

	c = must.Get(config.Parse("gated.yaml", []byte(`host: h
proxmox:
  url: https://pve1.example.com:8006
  token_file: /etc/gated/token
  fingerprint: `+pin+`
  node: pve1
  pool: gated
  storage: local-lvm
  backup_storage: local
  vmids: {first: 9000, last: 9099}
  stop_grace: 2m
  timeout: 10s
  templates:
    default: {kind: qemu, clone: 8000}
    empty: {disk: 4, network: "virtio,bridge=vmbr0", ostype: l26}
    ct: {kind: lxc, ostemplate: "local:vztmpl/debian-12.tar.zst", disk: 8, storage: fast, unprivileged: false}
`)))(t)
	require.Equal(t, &config.Proxmox{URL: "https://pve1.example.com:8006", TokenFile: "/etc/gated/token", Fingerprint: pin, Node: "pve1", Pool: "gated",
		Storage: "local-lvm", BackupStorage: "local", First: 9000, Last: 9099, StopGrace: 2 * time.Minute, Timeout: 10 * time.Second,
		Templates: map[string]config.ProxmoxTemplate{
			"default": {Kind: "qemu", Clone: 8000, Unprivileged: true},
			"empty":   {Kind: "qemu", Disk: 4, Network: "virtio,bridge=vmbr0", OSType: "l26", Unprivileged: true},
			"ct":      {Kind: "lxc", OSTemplate: "local:vztmpl/debian-12.tar.zst", Disk: 8, Storage: "fast"},
		}}, c.Proxmox)
}

func TestProxmoxRefused(t *testing.T) {
	for text, why := range map[string]string{
		"ca_file: /ca, url: \"http://pve1:8006\"":                                "https://host:port",
		"ca_file: /ca, url: \"https://a:b@pve1\"":                                "https://host:port",
		"ca_file: /ca, url: \"https://pve1/api2/json\"":                          "https://host:port",
		"ca_file: /ca, token_file: token":                                        "absolute path",
		"node: pve1":                                                             "one of fingerprint and ca_file",
		"ca_file: /ca, fingerprint: \"" + pin + "\"":                             "one of fingerprint and ca_file",
		"fingerprint: \"" + pin[3:] + "\"":                                       "32 pairs",
		"ca_file: /ca, insecure: true":                                           "insecure",
		"ca_file: /ca, token: \"a@b!c=d\"":                                       "token",
		"ca_file: /ca, node: a/b":                                                "not a name",
		"ca_file: /ca, vmids: {first: 99, last: 200}":                            "first",
		"ca_file: /ca, vmids: {first: 200, last: 199}":                           "end before that",
		"ca_file: /ca, vmids: {first: 200}":                                      "last",
		"ca_file: /ca, timeout: 11m":                                             "outside",
		"ca_file: /ca, templates: {a: {}}":                                       "clone or disk",
		"ca_file: /ca, templates: {a: {disk: 1}}":                                "storage",
		"ca_file: /ca, templates: {a: {clone: 1}}":                               "clone",
		"ca_file: /ca, templates: {a: {kind: xen}}":                              "none of qemu, lxc",
		"ca_file: /ca, templates: {a/b: {clone: 100}}":                           "is not a name",
		"ca_file: /ca, storage: s, templates: {a: {kind: lxc, disk: 1}}":         "ostemplate",
		"ca_file: /ca, storage: s, templates: {a: {ostemplate: \"x\", disk: 1}}": "ostemplate",
		"ca_file: /ca, templates: {a: {clone: 100, disk: 1}}":                    "a clone has",
	} {
		url := "url: \"https://pve1:8006\", "
		if strings.Contains(text, "url:") {
			url = ""
		}
		token := "token_file: /token, "
		if strings.Contains(text, "token_file:") {
			token = ""
		}
		refused(t, "host: h\nproxmox: {"+url+token+text+"}", why)
	}
}
