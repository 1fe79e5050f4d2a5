package pvetest

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// guest is a virtual machine or a container.
type guest struct {
	kind    string // "qemu" or "lxc"
	vmid    int
	node    string
	conf    map[string]string
	pending map[string]string // changes of a running guest for its next start
	drop    map[string]bool   // options that the next start deletes; true means by force
	snaps   []*snap
	running bool
	since   int64 // the start of the run
	holds   int64 // MiB that it holds while it runs
	deaf    bool  // ignores a shutdown
	hidden  bool  // from the token's view
	ha      bool  // a resource of the HA manager
}

type snap struct {
	name string
	time int64
	conf map[string]string
	data map[string][]byte // of volumes, by id
}

// Storage is a place for volumes.
type Storage struct {
	Name     string
	Type     string // "dir" or "lvmthin"
	Content  string // "images,rootdir,backup"
	KeepLast int    // how many backups of a guest it keeps; 0 means all
	Shared   bool
}

// Volume is a disk, a backup or a file of a storage.
type Volume struct {
	ID        string // "local-lvm:vm-100-disk-0"
	Storage   string
	VMID      int   // owner
	Size      int64 // bytes
	Format    string
	Content   string // "images", "rootdir", "backup", "vztmpl"
	CTime     int64  // when it was made, and in a directory when it was changed
	Notes     string
	Protected bool
	Data      []byte // its content
	Unread    bool   // nobody can read it: each list that it is in fails

	archive *archive
}

// archive is the content of a backup.
type archive struct {
	kind string
	conf map[string]string
	data map[string][]byte // of disks, by their key: "scsi0"
}

// digest is the SHA-1 of the guest's configuration file.
func (g *guest) digest() string {
	sum := sha1.Sum([]byte(g.file()))
	return hex.EncodeToString(sum[:])
}

// file is the configuration file: the current section, pending changes, and the snapshots.
func (g *guest) file() string {
	var b strings.Builder
	section := func(title string, conf map[string]string) {
		b.WriteString(title)
		for _, k := range sortedKeys(conf) {
			fmt.Fprintf(&b, "%s: %s\n", k, conf[k])
		}
	}
	section("", g.conf)
	if len(g.pending) > 0 || len(g.drop) > 0 {
		section("\n[PENDING]\n", g.pending)
		fmt.Fprintf(&b, "delete: %s\n", strings.Join(sortedKeys(g.drop), ","))
	}
	for _, s := range g.snaps {
		section("\n["+s.name+"]\n", s.conf)
	}
	return b.String()
}

func (g *guest) name() string {
	if g.kind == "lxc" {
		return g.conf["hostname"]
	}
	if n := g.conf["name"]; n != "" {
		return n
	}
	return fmt.Sprintf("VM %d", g.vmid)
}

// effective is the configuration with pending changes applied.
func (g *guest) effective() map[string]string {
	out := maps.Clone(g.conf)
	maps.Copy(out, g.pending)
	for k := range g.drop {
		delete(out, k)
	}
	return out
}

// checkLock refuses if another task holds the guest.
func (g *guest) checkLock() *refusal {
	if l := g.conf["lock"]; l != "" {
		if g.kind == "lxc" {
			return die("CT is locked (%s)", l)
		}
		return die("VM is locked (%s)", l)
	}
	return nil
}

func (g *guest) checkProtection(what string) *refusal {
	if g.conf["protection"] == "1" {
		return die("%s - protection mode enabled", what)
	}
	return nil
}

// guestOf finds the guest of a request.
func (c *Cluster) guestOf(r call) (*guest, *refusal) {
	g := c.guests[r.vmid()]
	if g == nil || g.kind != r.kind() || g.node != r.v["node"] {
		return nil, noConfig(r.kind(), r.v["node"], r.v["vmid"])
	}
	return g, nil
}

func noConfig(kind, node, vmid string) *refusal {
	dir := map[string]string{"qemu": "qemu-server", "lxc": "lxc"}[kind]
	return die("Configuration file 'nodes/%s/%s/%s.conf' does not exist", node, dir, vmid)
}

// gone refuses the work of a task that makes a guest if a test removed the guest meanwhile.
func (c *Cluster) gone(g *guest) *refusal {
	if c.guests[g.vmid] != g {
		return noConfig(g.kind, g.node, strconv.Itoa(g.vmid))
	}
	return nil
}
