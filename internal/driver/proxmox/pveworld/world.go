// Package pveworld has the Proxmox VE driver's World for the suite that every driver passes,
// over a simulated cluster. It is only for tests.
package pveworld

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/test/must"
)

// first is the lowest vmid of new guests.
const first = 500

// Config is the configuration of a driver over a simulated cluster, with templates of both
// kinds. kind is the kind of the default template.
func Config(t testing.TB, c *pvetest.Cluster, kind string) proxmox.Config {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(pvetest.TokenID+"="+pvetest.Secret+"\n"), 0o600))
	templates := map[string]proxmox.Template{
		"qemu": {Kind: "qemu", Disk: 1, Network: "virtio,bridge=vmbr0", OSType: "l26"},
		"lxc":  {Kind: "lxc", OSTemplate: pvetest.Template, Disk: 1, Network: "name=eth0,bridge=vmbr0", Unprivileged: true},
	}
	templates[proxmox.Default] = templates[kind]
	return proxmox.Config{URL: strings.TrimSuffix(c.URL(), "/api2/json"), TokenFile: token, Fingerprint: c.Fingerprint(),
		Node: pvetest.Node, Storage: "local-lvm", BackupStorage: "local", First: first, Last: first + 99,
		StopGrace: 2 * time.Second, Timeout: 20 * time.Second, Templates: templates}
}

// hands changes the cluster without the driver, as an administrator would.
type hands struct {
	*pvetest.Cluster
	t     testing.TB
	cfg   proxmox.Config
	kind  string
	root  string // the key of a guest's first disk
	count int
}

// New returns a World of guests of one kind, "qemu" or "lxc", over a new cluster.
func New(t testing.TB, kind string) drivertest.World {
	c := pvetest.New(t)
	return Over(t, c, kind)
}

// Over is New over a cluster of the caller's.
func Over(t testing.TB, c *pvetest.Cluster, kind string) drivertest.World {
	h := &hands{Cluster: c, t: t, cfg: Config(t, c, kind), kind: kind, root: map[string]string{"qemu": "scsi0", "lxc": "rootfs"}[kind]}
	labels := map[string]any{"tier": "test"}
	w := drivertest.World{
		Driver:  h.open(),
		Restart: func() driver.Driver { return h.open() },
		Make:    func(name string) { h.Make(h.spec(name)) },
		Remake:  func(name string) { h.Remake(h.VMID(name), h.spec(name)) },
		Change:  func(name string) { h.Set(h.VMID(name), map[string]string{"tags": "changed"}) },
		Fill:    h.fill,
		Content: h.content,
		Wishes:  []op.Params{{}, {"memory": int64(48), "cpus": int64(2), "command": "", "labels": labels, "protected": false}},
		Changes: []op.Params{{"memory": int64(33)}, {"cpus": int64(3)}, {"labels": labels}, {"memory": int64(64), "cpus": int64(1)},
			{"protected": true}, {"protected": false}},
		Aliases: func(name string) []string { return []string{strconv.Itoa(h.VMID(name))} },
		Abilities: drivertest.Abilities{
			Protect: func(name string) { h.SetProtection(h.VMID(name), true) },
			SetMemory: func(name string, mib int64) {
				h.Set(h.VMID(name), map[string]string{"memory": strconv.FormatInt(mib, 10)})
			},
			Runs:       true,
			MoveDisk:   h.moveDisk,
			Share:      h.share,
			Leftover:   h.leftover,
			Objects:    h.objects,
			NewDisk:    map[string]string{"qemu": "scsi3", "lxc": "mp3"}[kind],
			Sizes:      true,
			Hang:       h.hang,
			Lie:        h.lie,
			LoseAnswer: func() { h.Break(pvetest.Rule{Method: "DELETE", Fault: pvetest.DropAfter, Times: 1}) },
			Twice:      func() { h.Break(pvetest.Rule{Fault: pvetest.Twice}) },
			Lacks:      map[string]string{},
			NewIDs:     true,
		},
	}
	if kind == "qemu" {
		w.Volatile = h.volatile
	} else {
		w.Lacks["Volatile"] = "a container keeps what it holds when it stops"
	}
	return w
}

func (h *hands) open() *proxmox.Driver {
	return must.Get(proxmox.New(h.cfg))(h.t)
}

func (h *hands) spec(name string) pvetest.Spec {
	return pvetest.Spec{Kind: h.kind, Name: name, Config: map[string]string{"memory": "256"},
		Data: map[string][]byte{h.root: []byte("what " + name + " holds")}}
}

func (h *hands) fill(name string) {
	h.count++
	h.Write(h.VMID(name), h.root, fmt.Appendf(nil, "more of %s, %d", name, h.count))
}

// content is a digest of a guest's disks.
func (h *hands) content(name string) string {
	vmid := h.VMID(name)
	if vmid == 0 {
		return ""
	}
	sum := sha256.New()
	volumes := h.Volumes(vmid)
	for _, id := range slices.Sorted(maps.Keys(volumes)) {
		if v := volumes[id]; v.Content != "backup" {
			fmt.Fprintf(sum, "%s %d %x\n", id, v.Size, v.Data)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// volatile makes a machine that runs from a CD and has no disk.
func (h *hands) volatile(name string) {
	h.Make(pvetest.Spec{Kind: h.kind, Name: name, Disks: map[string]string{}, Running: true,
		Config: map[string]string{"ide2": "local:iso/live.iso,media=cdrom"}})
}

// moveDisk does the same as qm disk move: the volume gets a name of its new owner.
func (h *hands) moveDisk(from, to string) {
	source, target := h.VMID(from), h.VMID(to)
	line := h.Guest(source).Config[h.root]
	id, options, _ := strings.Cut(line, ",")
	v := h.Volumes(source)[id]
	v.ID, v.VMID = fmt.Sprintf("local-lvm:vm-%d-disk-7", target), target
	h.AddVolume(v)
	h.Set(target, map[string]string{map[string]string{"qemu": "scsi5", "lxc": "mp5"}[h.kind]: v.ID + "," + options})
	h.Set(source, map[string]string{h.root: ""})
}

// share adds a volume of one guest to the configuration of another.
func (h *hands) share(from, to string) func() {
	key := map[string]string{"qemu": "scsi5", "lxc": "mp5"}[h.kind]
	line := h.Guest(h.VMID(from)).Config[h.root]
	if h.kind == "lxc" {
		line += ",mp=/srv"
	}
	h.Set(h.VMID(to), map[string]string{key: line})
	return func() { h.Set(h.VMID(to), map[string]string{key: ""}) }
}

// leftover is a disk of an earlier guest that had the next vmid.
func (h *hands) leftover(string) func() string {
	id := fmt.Sprintf("local-lvm:vm-%d-disk-0", first)
	h.AddVolume(pvetest.Volume{ID: id, VMID: first, Size: 1 << 30, Format: "raw", Content: "images", Data: []byte("left over")})
	return func() string { data, _ := h.Data(id); return string(data) }
}

func (h *hands) objects() (ids []op.StorageID) {
	for _, v := range h.Volumes(0) {
		if v.VMID != 0 && v.Content != "backup" {
			id := fmt.Sprintf("pve:%s:%d:%s", v.ID, v.Size, h.owner(v))
			if mark := h.Guest(v.VMID).Config["description"]; strings.Contains(mark, `"birth"`) && strings.Contains(mark, fmt.Sprintf(`"vmid":%d`, v.VMID)) {
				id += fmt.Sprintf(":%d", v.CTime)
			}
			ids = append(ids, op.StorageID(id))
		}
	}
	return ids
}

// owner is the property that only the guest with this volume has. It is empty if no guest's
// configuration names the volume.
func (h *hands) owner(v pvetest.Volume) string {
	config := h.Guest(v.VMID).Config
	for _, line := range config {
		if !strings.HasPrefix(line, v.ID) {
			continue
		}
		if uuid, is := strings.CutPrefix(config["smbios1"], "uuid="); is {
			return uuid
		}
		_, rest, _ := strings.Cut(config["description"], `"birth":"`)
		birth, _, _ := strings.Cut(rest, `"`)
		return birth
	}
	return ""
}

// lie makes tasks end with OK without their work. It also ignores the one change that makes no
// task.
func (h *hands) lie() func() {
	task, config := h.Break(pvetest.Rule{Fault: pvetest.Lie}), h.Break(pvetest.Rule{Method: "PUT", Path: "/config", Fault: pvetest.Ignore})
	return func() { task.Release(); config.Release() }
}

func (h *hands) hang(at drivertest.Moment) func() {
	rules := []*pvetest.Rule{}
	methods := []string{"POST", "PUT", "DELETE"}
	if at == drivertest.AtLook {
		methods = []string{""}
	}
	for _, m := range methods {
		rules = append(rules, h.Break(pvetest.Rule{Method: m, Fault: pvetest.HangBefore}))
	}
	return func() {
		for _, r := range rules {
			r.Release()
		}
	}
}
