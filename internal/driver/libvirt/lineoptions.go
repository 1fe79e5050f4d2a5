package libvirt

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// kind says what the value of an option of QEMU may name.
type kind int

const (
	asUnknown   kind = iota // the driver does not know the option
	asNothing               // the option has no value
	asWords                 // nothing of the host
	asPaths                 // files that QEMU itself uses, if they are absolute
	asPort                  // a serial port or a monitor, which may write a file
	asFile                  // one file that QEMU itself uses
	asParts                 // files that QEMU itself uses, in parts of the value
	asDirectory             // a directory for the guest, in parts of the value
	asImage                 // the file of a disk
	asDrive                 // a disk, in parts of the value
	asMore                  // more options, or parts of others
)

// optionKinds are the options of QEMU 2.12 to 10, without those that read more than this or run other code: -incoming, -writeconfig,
// -plugin.
var optionKinds = sync.OnceValue(func() map[string]kind {
	out := map[string]kind{}
	for k, names := range map[kind]string{
		asNothing: "h help version mem-prealloc audio-help snapshot no-fd-bootchk usb nographic curses sdl portrait full-screen show-cursor alt-grab " +
			"ctrl-grab no-quit no-frame win2k-hack no-acpi no-hpet singlestep one-insn-per-tb preconfig S s enable-kvm no-kvm xen-attach " +
			"xen-domid-restrict no-reboot no-shutdown daemonize only-migratable nodefaults no-user-config nouserconfig nodefconfig enable-fips " +
			"async-teardown enable-sync-profile semihosting old-param",
		asWords: "append name uuid cpu accel smp numa m k vga rotate g rtc watchdog watchdog-action action echr loadvm overcommit " +
			"compat msg sandbox mon seed d dfilter xen-domid iscsi add-fd realtime prom-env semihosting-config runas run-with tb-size balloon",
		asPaths:     "device boot display spice vnc netdev net nic smbios bios option-rom L tpmdev trace chroot global",
		asPort:      "serial parallel monitor qmp qmp-pretty debugcon gdb",
		asFile:      "kernel initrd dtb pidfile D mem-path dump-vmstate",
		asParts:     "machine M object chardev audiodev audio icount fw_cfg acpitable",
		asDirectory: "fsdev virtfs",
		asImage:     "hda hdb hdc hdd fda fdb pflash sd mtdblock cdrom",
		asDrive:     "drive blockdev", asMore: "readconfig set usbdevice",
	} {
		for name := range strings.FieldsSeq(names) {
			out[name] = k
		}
	}
	return out
})

// What QEMU reads a disk with. Only these name no file beside their own, or name it where the driver reads it. qcow2 and
// qcow name others in their heads.
var (
	knownFormats = map[string]bool{formatRaw: true, formatQCOW2: true, "qcow": true, "luks": true, "vdi": true, "vpc": true, "vhdx": true, "bochs": true,
		"cloop": true, "dmg": true, "parallels": true, "copy-on-read": true, "throttle": true, "preallocate": true}
	knownPlaces = map[string]bool{"file": true, "host_device": true, "host_cdrom": true, "null-co": true, "null-aio": true, "vvfat": true}
	servers     = map[string]bool{"nbd": true, "ssh": true, "http": true, "https": true, "ftp": true, "ftps": true, "tftp": true, "iscsi": true,
		"iser": true, "rbd": true, "gluster": true, "nfs": true}
)

// namesFile are the parts of a value that name a file or a directory.
var namesFile = map[string]bool{"file": true, "filename": true, "path": true, "mem-path": true, "dir": true, "logfile": true, "kernel": true,
	"initrd": true, "dtb": true, "dumpdtb": true, "rrfile": true, "smb": true, "rootdir": true, "log": true, "cancel-path": true}

// fileIn finds such parts in a value that is not read in parts, and the file, pipe or socket of a port: "unix:/run/s,server".
var fileIn = sync.OnceValue(func() *regexp.Regexp {
	names := strings.Join(slices.Sorted(maps.Keys(namesFile)), "|")
	return regexp.MustCompile(`\b(?:` + names + `|unix|pipe)["']?\s*[=:]\s*["']?([^,"'}]*)`)
})

// wholeHost are the options that let the guest open any file of the host that QEMU may open.
var wholeHost = map[string]bool{"semihosting": true, "semihosting-config": true}
