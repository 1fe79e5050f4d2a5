package proxmox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

func (d *Driver) prepareDiskCreate(_ context.Context, step op.Step, g *guest) (action, error) {
	key := step.Params.Str("disk")
	switch {
	case !isDisk(g.kind, key) || key == "rootfs" || key == "efidisk0" || key == "tpmstate0":
		names := map[string]string{qemu: "scsi0 to scsi30, virtio0 to virtio15, sata0 to sata5, ide0 to ide3", lxc: "mp0 to mp255"}[g.kind]
		return action{}, refusal.New(refusal.BadParams, "%q is no disk that can be added: %s", key, names)
	case slices.ContainsFunc(g.drives, func(x drive) bool { return x.key == key }):
		return action{}, refusal.New(refusal.Conflict, "%s has %s already", step.Target, key)
	case d.cfg.Storage == "":
		return action{}, refusal.New(refusal.BadParams, "the configuration names no storage for new disks").
			WithHint("set proxmox.storage in gated.yaml")
	}
	value := d.cfg.Storage + ":" + allocation(step.Params.Int("size"))
	if g.kind == qemu {
		return d.asTask("add the disk", http.MethodPost, g.path("config"), values{key: value, "digest": g.digest}), nil
	}
	// Only PUT changes a container's configuration, and it makes no task. Proxmox VE accepts no
	// new mount point for a protected container. Without backup=1 no backup has it, and a restore
	// destroys it.
	return d.without(g, func(ctx context.Context, g *guest) (driver.Result, error) {
		return driver.Result{}, worked("add the mount point", d.configure(ctx, g, values{key: value + ",mp=/mnt/" + key + ",backup=1"}))
	}), nil
}

func (d *Driver) prepareDiskResize(_ context.Context, step op.Step, g *guest) (action, error) {
	disk, _ := g.drive(step.Params.Str("disk"))
	wished := step.Params.Int("size") * mebibyte
	switch {
	case disk.size == 0 || unusedDisk().MatchString(disk.key):
		return action{}, refusal.New(refusal.BadParams, "Proxmox VE does not say how large %s is", disk.key)
	case wished < disk.size:
		return action{}, refusal.New(refusal.BadParams, "%s is %s, and Proxmox VE makes no disk smaller",
			disk.key, amount(disk.size)).
			WithHint("add a smaller disk and copy what is on it")
	case wished == disk.size:
		return already("it has that size already"), nil
	}
	return d.asTask("resize", http.MethodPut, g.path("resize"),
		values{"disk": disk.key, "size": resized(step.Params.Int("size")), "digest": g.digest}), nil
}

// prepareDiskDetach makes the disk an unused disk of the same guest.
func (d *Driver) prepareDiskDetach(_ context.Context, step op.Step, g *guest) (action, error) {
	key := step.Params.Str("disk")
	if key == "rootfs" || unusedDisk().MatchString(key) {
		return action{}, refusal.New(refusal.BadParams, "%s cannot be taken off", key)
	}
	return d.without(g, func(ctx context.Context, g *guest) (driver.Result, error) {
		unused, _, err := d.detach(ctx, g, key)
		if err != nil {
			return driver.Result{}, err
		}
		if unused == "" {
			return driver.Result{Detail: "the guest has it no more; Proxmox VE keeps it, because it does not count it as the guest's own"}, nil
		}
		return driver.Result{Detail: "it is " + unused + " of the guest now, with all that is on it"}, nil
	}), nil
}

// prepareDiskDelete deletes a disk with its content. In Proxmox VE, to delete scsi0 only
// detaches it, and to delete unused0 deletes it. For an attached disk the action does both.
func (d *Driver) prepareDiskDelete(ctx context.Context, step op.Step, g *guest) (action, error) {
	key := step.Params.Str("disk")
	if key == "rootfs" {
		return action{}, refusal.New(refusal.BadParams, "a container's root cannot be deleted alone")
	}
	disk, _ := g.drive(key)
	if err := d.deletable(ctx, step, g, disk.volume); err != nil {
		return action{}, err
	}
	return d.without(g, func(ctx context.Context, g *guest) (driver.Result, error) {
		if unusedDisk().MatchString(key) {
			return d.deleteUnused(ctx, g, key, disk.volume)
		}
		unused, now, err := d.detach(ctx, g, key)
		if err != nil {
			return driver.Result{}, err
		}
		if unused == "" {
			return driver.Result{}, errors.New("it was taken off, and not deleted: Proxmox VE does not count it as the guest's own")
		}
		if err = d.alone(ctx, g); err == nil {
			_, err = d.deleteUnused(ctx, now, unused, disk.volume)
		}
		switch {
		case driver.IsUnknown(err):
			err = fmt.Errorf("it is %s of the guest now; then: %w", unused, err)
		case err != nil: // the step cannot run again, because its disk has another name now
			err = refusal.New(refusal.StaleTarget, "it is %s of the guest now, and was not deleted: %v", unused, err)
		}
		return driver.Result{}, err
	}), nil
}

// deletable refuses to delete a disk that Proxmox VE keeps when it was taken off.
func (d *Driver) deletable(ctx context.Context, step op.Step, g *guest, volume string) error {
	u := g.baseOf(volume)
	switch {
	case g.foreign(volume):
		return refusal.New(refusal.Conflict, "Proxmox VE deletes %s with the guest of its number alone", volume).
			WithHint("guest.disk-detach takes it off %s", step.Target)
	case u != nil:
		return refusal.New(refusal.Conflict, "Proxmox VE keeps %s, because the linked clone %s is based on it", volume, u.target).
			WithHint("destroy %s first, or give it disks of its own in Proxmox VE: qm disk move, pct move-volume", u.target)
	case numberOfVolume(volume) != 0:
		return nil
	}
	lun, err := d.on(ctx, g, "iscsi", "iscsidirect")
	if err == nil && lun(volume) != "" {
		err = refusal.New(refusal.Conflict, "%s is a LUN, and Proxmox VE deletes none", volume).
			WithHint("guest.disk-detach takes it off %s; delete it on the server that has it", step.Target)
	}
	return err
}

// on asks for the storages of a guest's node. The function that it returns names the storage of a volume if it has one of some types.
func (d *Driver) on(ctx context.Context, g *guest, types ...string) (func(volume string) string, error) {
	list, err := d.api.list(ctx, path("nodes", g.node, "storage"), nil)
	return func(volume string) string {
		name, _, _ := strings.Cut(volume, ":")
		if slices.ContainsFunc(list, func(o object) bool { return o["storage"] == name && slices.Contains(types, o["type"]) }) {
			return name
		}
		return ""
	}, unreachable(err)
}

// detach takes a disk off and returns its new name. If a running guest cannot release the disk,
// detach takes the change back, and nothing changed. The name is "" for a disk that Proxmox VE does not count as the guest's own.
func (d *Driver) detach(ctx context.Context, g *guest, key string) (string, *guest, error) {
	disk, ok := g.drive(key)
	if !ok {
		return "", nil, refusal.New(refusal.StaleTarget, "the guest has no %s any more", key)
	}
	if err := d.configure(ctx, g, values{"delete": key}); err != nil {
		return "", nil, worked("detach", err)
	}
	now, err := d.details(ctx, g.row)
	if err != nil {
		return "", nil, driver.Unknown(err)
	}
	attached := slices.ContainsFunc(now.drives, func(x drive) bool { return x.volume == disk.volume })
	if attached {
		if err := d.configure(ctx, now, values{"revert": key}); err != nil {
			return "", nil, driver.Unknown(errors.New("the guest runs and does not let go of the disk; it will when it stops"))
		}
		if now.status == "stopped" {
			return "", nil, refusal.New(refusal.Conflict, "Proxmox VE did not take %s off, though the guest is stopped", key).
				WithHint("look at the guest's log of tasks in Proxmox VE")
		}
		return "", nil, refusal.New(refusal.Conflict, "the guest runs and does not let go of %s", key).
			WithHint("stop it first")
	}
	for _, x := range now.unused {
		if x.volume == disk.volume {
			return x.key, now, nil
		}
	}
	if numberOfVolume(disk.volume) != g.vmid {
		return "", now, nil
	}
	return "", nil, driver.Unknown(errors.New("the disk is detached, and the guest does not have it as an unused one"))
}

// deleteUnused deletes an unused disk if it still has the expected volume.
func (d *Driver) deleteUnused(ctx context.Context, g *guest, key, volume string) (driver.Result, error) {
	if disk, ok := g.drive(key); !ok || disk.volume != volume {
		return driver.Result{}, refusal.New(refusal.StaleTarget, "%s of the guest is not %s any more", key, volume)
	}
	if err := d.configure(ctx, g, values{"delete": key}); err != nil {
		return driver.Result{}, worked("delete the disk", err)
	}
	now, err := d.details(ctx, g.row)
	if err != nil {
		return driver.Result{}, driver.Unknown(err)
	}
	if slices.Contains(now.volumes(), volume) {
		return driver.Result{}, refusal.New(refusal.Internal,
			"Proxmox VE says that the disk is deleted, but the guest still has %s", strings.TrimSpace(volume))
	}
	return driver.Result{}, nil
}

// The two kinds of guests, as the API names them in paths and lists.
const (
	qemu = "qemu"
	lxc  = "lxc"
)

var (
	qemuDisk   = pattern(`^(scsi([0-9]|[12][0-9]|30)|virtio([0-9]|1[0-5])|sata[0-5]|ide[0-3]|efidisk0|tpmstate0)$`)
	lxcDisk    = pattern(`^(rootfs|mp([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5]))$`)
	unusedDisk = pattern(`^unused([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$`)
	network    = pattern(`^net[0-9]{1,2}$`)
	hwaddr     = pattern(`(?i)(?:^|[,=])([0-9a-f]{2}(?::[0-9a-f]{2}){5})(?:,|$)`)
)

// pattern returns a regular expression that is compiled at its first use, because each start of the program would pay
// for it.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// isDisk reports whether a configuration's key holds an attached disk.
func isDisk(kind, key string) bool {
	if kind == lxc {
		return lxcDisk().MatchString(key)
	}
	return qemuDisk().MatchString(key)
}

// drive is one disk, CD or mount point in a configuration.
type drive struct {
	key    string
	volume string // a volume id "storage:name", a path of the node, or "none"
	size   int64  // in bytes; 0 if the configuration has no size
	cdrom  bool
	lost   bool   // what the guest writes to it is lost when the guest stops
	path   string // of a mount point, in the container

	backedUp bool // Proxmox VE's own backups have it
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
	d := drive{key: key, backedUp: !strings.HasPrefix(key, "mp")} // a mount point is in a backup only if it says so
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
		case name == "backup":
			d.backedUp = isTrue(value) || key == "rootfs"
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

// The API has four units. A guest's memory is in MiB in a configuration and in bytes in a list.
// A disk is "32G" or "512M" in a configuration (powers of 1024), GiB without a letter in an
// allocation, and bytes in a list of volumes. In this package, memory is in MiB and disks are
// in bytes.

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
)

var sizeUnits = map[byte]int64{'K': 1 << 10, 'M': mebibyte, 'G': gibibyte, 'T': 1 << 40}

// parseSize reads a disk's size in a configuration: digits, an optional fraction, and K, M, G
// or T. Without a letter, the text is in bytes. The result is in bytes.
func parseSize(s string) (int64, error) {
	bad := fmt.Errorf("%q is not a size such as 32G", s)
	if s == "" {
		return 0, bad
	}
	factor := int64(1)
	digits := s
	if f, ok := sizeUnits[s[len(s)-1]]; ok {
		factor, digits = f, s[:len(s)-1]
	}
	whole, fraction, dotted := strings.Cut(digits, ".")
	n, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || whole[0] == '+' || dotted && (fraction == "" || len(fraction) > 9 || factor == 1) {
		return 0, bad
	}
	if n > math.MaxInt64/uint64(factor) {
		return 0, bad
	}
	size := int64(n) * factor
	if fraction != "" {
		part, err := strconv.ParseUint(fraction, 10, 63)
		if err != nil {
			return 0, bad
		}
		size += int64(float64(part) / math.Pow10(len(fraction)) * float64(factor))
	}
	if size < 0 {
		return 0, bad
	}
	return size, nil
}

// allocation writes a size in MiB as the API wants it for a new disk: in GiB, with a fraction
// if necessary. Every number of MiB has an exact text.
func allocation(mib int64) string {
	return strconv.FormatFloat(float64(mib)/1024, 'f', -1, 64)
}

// resized writes a size in MiB as the API wants it for a resize.
func resized(mib int64) string { return strconv.FormatInt(mib, 10) + "M" }

// parseMemory reads a configuration's memory in MiB: "2048", and since QEMU 8.1 also
// "current=2048". Without a value it returns Proxmox VE's default, 512.
func parseMemory(s string) (int64, error) {
	if s == "" {
		return 512, nil
	}
	for _, part := range strings.Split(s, ",") {
		key, value, named := strings.Cut(part, "=")
		if !named {
			value = key
		} else if key != "current" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/mebibyte {
			break
		}
		return n, nil
	}
	return 0, fmt.Errorf("%q is not memory in MiB", s)
}
