package proxmox

import (
	"regexp"
	"strings"
)

// The two kinds of guests, as paths and lists of the API name them.
const (
	qemu = "qemu"
	lxc  = "lxc"
)

var (
	qemuDisk   = regexp.MustCompile(`^(scsi([0-9]|[12][0-9]|30)|virtio([0-9]|1[0-5])|sata[0-5]|ide[0-3]|efidisk0|tpmstate0)$`)
	lxcDisk    = regexp.MustCompile(`^(rootfs|mp([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5]))$`)
	unusedDisk = regexp.MustCompile(`^unused([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$`)
	network    = regexp.MustCompile(`^net[0-9]{1,2}$`)
	hwaddr     = regexp.MustCompile(`(?i)(?:^|[,=])([0-9a-f]{2}(?::[0-9a-f]{2}){5})(?:,|$)`)
)

// isDisk reports whether a key of a configuration holds a disk that is attached.
func isDisk(kind, key string) bool {
	if kind == lxc {
		return lxcDisk.MatchString(key)
	}
	return qemuDisk.MatchString(key)
}

// drive is one disk, CD or mount point of a configuration.
type drive struct {
	key    string
	volume string // a volume id "storage:name", a path of the node, or "none"
	size   int64  // in bytes; 0 where the configuration does not say it
	cdrom  bool
	lost   bool   // what is written to it is gone when the guest stops
	path   string // of a mount point, in the container
}

// owned reports whether it is a volume of a storage, which a destroy takes. A
// device or a directory of the node stays.
func (d drive) owned() bool {
	return !d.cdrom && d.volume != "none" && d.volume != "" && !strings.HasPrefix(d.volume, "/")
}

// generated reports whether it is the drive that Proxmox VE writes for cloud-init
// from the configuration.
func (d drive) generated() bool { return d.cdrom && strings.Contains(d.volume, "-cloudinit") }

// parseDrive reads the value of a disk's key: the volume first or named, then
// options by name. What it does not know it leaves.
func parseDrive(key, s string) drive {
	d := drive{key: key}
	for i, part := range strings.Split(s, ",") {
		name, value, named := strings.Cut(part, "=")
		switch {
		case !named && i == 0, name == "file" && named, name == "volume" && named:
			if !named {
				value = name
			}
			d.volume = value
		case name == "size":
			// A size that cannot be read is not known: 0.
			d.size, _ = parseSize(value)
		case name == "media":
			d.cdrom = value == "cdrom"
		case name == "snapshot":
			d.lost = isTrue(value)
		case name == "mp":
			d.path = value
		}
	}
	return d
}

// isTrue reads a boolean as Proxmox VE's schema does.
func isTrue(s string) bool {
	switch strings.ToLower(s) {
	case "1", "on", "yes", "true":
		return true
	}
	return false
}

// option returns an option of a value that is a list of them, or "".
func option(s, name string) string {
	for _, part := range strings.Split(s, ",") {
		if k, v, ok := strings.Cut(part, "="); ok && k == name {
			return v
		}
	}
	return ""
}
