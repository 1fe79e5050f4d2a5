package proxmox

import (
	"regexp"
	"strings"
)

// The two kinds of guests, as the API names them in paths and lists.
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

// isDisk reports whether a configuration's key holds an attached disk.
func isDisk(kind, key string) bool {
	if kind == lxc {
		return lxcDisk.MatchString(key)
	}
	return qemuDisk.MatchString(key)
}

// drive is one disk, CD or mount point in a configuration.
type drive struct {
	key    string
	volume string // a volume id "storage:name", a path of the node, or "none"
	size   int64  // in bytes; 0 if the configuration has no size
	cdrom  bool
	lost   bool   // what the guest writes to it is lost when the guest stops
	path   string // of a mount point, in the container
}

// owned reports whether the drive is a volume of a storage. A destroy deletes a volume, but no
// device or directory of the node.
func (d drive) owned() bool {
	return !d.cdrom && d.volume != "none" && d.volume != "" && !strings.HasPrefix(d.volume, "/")
}

// generated reports whether it is the drive that Proxmox VE makes for cloud-init from the
// configuration.
func (d drive) generated() bool { return d.cdrom && strings.Contains(d.volume, "-cloudinit") }

// parseDrive reads the value of a disk's key. The volume comes first or by name, then the
// options by name. parseDrive ignores unknown options.
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
			// A size that cannot be read counts as unknown: 0.
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

// option returns an option from a value that is a list of options, or "".
func option(s, name string) string {
	for _, part := range strings.Split(s, ",") {
		if k, v, ok := strings.Cut(part, "="); ok && k == name {
			return v
		}
	}
	return ""
}
