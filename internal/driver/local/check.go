package local

import (
	"context"
	"fmt"

	"gated/internal/driver"

	"golang.org/x/sys/unix"
)

// lowSpace is the free room of the root's file system, and its free inodes, below which Check
// warns, in percent. Snapshots and the trash need some.
const lowSpace = 5

// Name returns "local".
func (*Driver) Name() string { return "local" }

// Check looks at the root, at its file system, and at the layers that guard guests' processes
// on this machine.
func (d *Driver) Check(context.Context) []driver.Finding {
	out := append([]driver.Finding{d.checkRoot(), d.checkSpace()}, d.checkLayers()...)
	s := d.Status()
	if d.cgroups.memory && d.cgroups.cpu {
		out = append(out, driver.Finding{What: "limits", State: driver.OK, Detail: "memory and CPUs are limited by cgroups"})
	} else {
		out = append(out, driver.Finding{What: "limits", State: driver.Note,
			Detail: fmt.Sprintf("memory is limited by %s, CPUs by %s: %s", s.Memory, s.CPUs, d.cgroups.why),
			Hint:   "name a cgroup v2 directory that the daemon may make groups in: local: {cgroup: /sys/fs/cgroup/gated}"})
	}
	return out
}

// checkRoot looks at the directory that the driver holds open. The directory must still be in
// its place, and only the daemon may have access.
func (d *Driver) checkRoot() driver.Finding {
	f := driver.Finding{What: "root", State: driver.Bad, Hint: "put it back as it was, and restart the daemon"}
	held, err := d.root.self()
	if err != nil {
		f.Detail = fmt.Sprintf("%s cannot be looked at: %v", d.cfg.Root, err)
		return f
	}
	var at unix.Stat_t
	switch err := unix.Stat(d.cfg.Root, &at); {
	case err != nil:
		f.Detail = fmt.Sprintf("%s is not there any more: %v", d.cfg.Root, err)
	case at.Ino != held.ino:
		f.Detail = fmt.Sprintf("%s is another directory than the one that the daemon holds", d.cfg.Root)
	case held.mode&0o077 != 0:
		f.Detail, f.Hint = fmt.Sprintf("%s is open to others: mode %#o", d.cfg.Root, held.mode&0o7777), "chmod 0700 "+d.cfg.Root
	default:
		f = driver.Finding{What: "root", State: driver.OK, Detail: d.cfg.Root + ", snapshots are full copies"}
		if d.reflinks {
			f.Detail = d.cfg.Root + ", snapshots share blocks"
		}
	}
	return f
}

// checkSpace reports the free room for guests' data.
func (d *Driver) checkSpace() driver.Finding {
	f := driver.Finding{What: "free space", State: driver.OK}
	var st unix.Statfs_t
	if err := unix.Fstatfs(d.root.fd(), &st); err != nil {
		f.State, f.Detail = driver.Bad, fmt.Sprintf("cannot be told: %v", err)
		return f
	}
	f.Detail = fmt.Sprintf("%d MiB of %d MiB", st.Bavail*uint64(st.Bsize)>>20, st.Blocks*uint64(st.Bsize)>>20)
	full := st.Bavail*100 < st.Blocks*lowSpace
	if st.Files > 0 {
		f.Detail += fmt.Sprintf(", %d of %d inodes", st.Ffree, st.Files)
		full = full || st.Ffree*100 < st.Files*lowSpace
	}
	switch {
	case st.Flags&unix.ST_RDONLY != 0:
		f.State, f.Hint = driver.Bad, "the file system is mounted read-only: mount it read-write"
	case full:
		f.State, f.Hint = driver.Note, "make room: a snapshot is a copy, and what was destroyed stays for local.trash_keep"
	}
	return f
}
