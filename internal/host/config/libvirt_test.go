package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/host/config"
	"gated/internal/test/must"
)

func TestLibvirt(t *testing.T) {
	c := must.Get(config.Parse("gated.yaml", []byte("host: h\n")))(t)
	require.Nil(t, c.Libvirt)
	require.Equal(t, []string{"local"}, c.GuestBackends())

	c = must.Get(config.Parse("gated.yaml", []byte("host: h\nlibvirt: {}\n")))(t)
	require.Equal(t, &config.Libvirt{Socket: "/run/libvirt/libvirt-sock", Pool: "default", StopGrace: 30 * time.Second, Timeout: 30 * time.Second,
		Templates: map[string]config.LibvirtTemplate{}}, c.Libvirt)
	require.Equal(t, []string{"libvirt"}, c.GuestBackends())
	require.Equal(t, "libvirt", c.NewGuests)

	c = must.Get(config.Parse("gated.yaml", []byte(`host: h
libvirt:
  socket: /run/other/sock
  pool: fast
  stop_grace: 2m
  timeout: 10s
  templates:
    default: {}
    small: {memory: 64, cpus: 2, disk: 16, format: raw, pool: slow, network: lan, type: qemu, machine: q35, image: base.qcow2}
`)))(t)
	require.Equal(t, &config.Libvirt{Socket: "/run/other/sock", Pool: "fast", StopGrace: 2 * time.Minute, Timeout: 10 * time.Second,
		Templates: map[string]config.LibvirtTemplate{
			"default": {Memory: 1024, CPUs: 1, Disk: 10240, Format: "qcow2", Pool: "fast", Type: "kvm"},
			"small": {Memory: 64, CPUs: 2, Disk: 16, Format: "raw", Pool: "slow", Network: "lan", Type: "qemu", Machine: "q35",
				Image: "base.qcow2"},
		}}, c.Libvirt)
}

func TestLibvirtRefused(t *testing.T) {
	for text, why := range map[string]string{
		"{socket: libvirt-sock}":                       "absolute path",
		"{pool: a/b}":                                  "not a name",
		"{stop_grace: 0s}":                             "outside",
		"{timeout: 11m}":                               "outside",
		"{uri: \"qemu:///system\"}":                    "uri",
		"{templates: {a/b: {}}}":                       "is not a name",
		"{templates: {a: {memory: 0}}}":                "memory",
		"{templates: {a: {memory: 1GiB}}}":             "memory",
		"{templates: {a: {format: vmdk}}}":             "none of qcow2, raw",
		"{templates: {a: {type: xen}}}":                "none of kvm, qemu",
		"{templates: {a: {image: ../../etc/passwd}}}":  "not a name",
		"{templates: {a: {xml: \"<domain/>\"}}}":       "xml",
		"{templates: {a: {network: \"'/><disk/>\"}}}":  "not a name",
		"{templates: {a: {machine: \"pc' arch='x\"}}}": "not a name",
		"{templates: [a]}":                             "templates",
	} {
		refused(t, "host: h\nlibvirt: "+text, why)
	}
}
