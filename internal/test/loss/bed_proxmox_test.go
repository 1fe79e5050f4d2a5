package loss

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/driver/proxmox/pveworld"
)

// part is a test's own, with cleanups that end before it.
type part struct {
	testing.TB
	cleanups []func()
}

func (p *part) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

func (p *part) TempDir() string {
	dir, err := os.MkdirTemp(scratchDir(), "gl")
	must(p.TB, err)
	p.Cleanup(func() { must(p.TB, os.RemoveAll(dir)) })
	return dir
}

func (p *part) end() {
	for _, f := range slices.Backward(p.cleanups) {
		f()
	}
	p.cleanups = nil
}

// proxmoxBed is guests of a simulated Proxmox VE: marks are lines on their disks.
type proxmoxBed struct {
	*part
	*pvetest.Cluster
	telling
	cfg  proxmox.Config
	root string              // the key of a guest's first disk
	of   map[string]string   // whose a backup was when it was seen first: a vmid is used again
	last map[string]numbered // by name: the guest that had it last
	used map[int]inUse       // by vmid: what programs hold

	linked []int // the vmids of linked clones
}

// numbered is a guest and its number.
type numbered struct {
	vmid   int
	holder string
}

// inMemory is where a mark is that a program holds, and has written nowhere.
const inMemory = "memory"

// inUse is what the programs of a running container hold.
type inUse struct {
	holder string
	mark   mark
	mib    int
}

// firstDisk is the key of a guest's first disk, by the kind of guest.
var firstDisk = map[string]string{"qemu": "scsi0", "lxc": "rootfs"}

// newProxmoxBed returns a bed of guests of one kind, "qemu" or "lxc".
func newProxmoxBed(kind string) func(testing.TB) bed {
	return func(t testing.TB) bed {
		b := &proxmoxBed{part: &part{TB: t}, root: firstDisk[kind], of: map[string]string{},
			last: map[string]numbered{}, used: map[int]inUse{}}
		b.Cluster = pvetest.New(b.part)
		b.AddStorage(pvetest.Storage{Name: "local", Type: "dir", Content: "backup,iso,vztmpl", KeepLast: 2})
		b.cfg = pveworld.Config(b.part, b.Cluster, kind)
		b.cfg.URL = b.front()
		b.cfg.StopGrace = 100 * time.Millisecond
		return b
	}
}

// front is a server before the cluster that tells of each call that changes something, and of the first look after one. It has the
// certificate that all servers of a test have.
func (b *proxmoxBed) front() string {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		takes := r.Method == http.MethodDelete || r.Method == http.MethodPost && !strings.Contains(r.URL.Path, "/status/") ||
			strings.Contains(string(body)+r.URL.RawQuery, "delete=")
		b.called(r.Method != http.MethodGet, takes)
		b.Cluster.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that the driver leaves
	server.StartTLS()
	b.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

func (b *proxmoxBed) at(_ string, of asked) { b.cfg.Recorded = of.recorded }

func (b *proxmoxBed) open(func() time.Time) (driver.Driver, func() error, error) {
	d, err := proxmox.New(b.cfg)
	if err != nil {
		return nil, nil, err
	}
	return d, d.Close, nil
}

func (*proxmoxBed) sweep() error  { return nil } // it has no trash
func (*proxmoxBed) settle() error { return nil } // programs in its guests are the actors of the sequence
func (b *proxmoxBed) close()      { b.end() }

func line(m mark) []byte { return []byte(string(m) + "\n") }

func (b *proxmoxBed) write(name string, m mark) bool { return b.Add(b.VMID(name), b.root, line(m)) }
func (b *proxmoxBed) erase(name string, m mark) bool { return b.Cut(b.VMID(name), b.root, line(m)) }
func (*proxmoxBed) rename(string, mark) bool         { return true } // a disk has no names

// births finds the token of the create step in the description of a guest, and uuids
// what a machine has of its own, also one that other hands made.
var (
	births = regexp.MustCompile(`"birth":"([^"]*)"`)
	uuids  = regexp.MustCompile(`uuid=([0-9a-f-]+)`)
	byName = regexp.MustCompile(`made by (hand-[0-9]+)`)
)

func (b *proxmoxBed) holder(name string) string {
	vmid := b.VMID(name)
	holder := b.holderOf(vmid)
	if vmid != 0 {
		b.last[name] = numbered{vmid, holder}
	}
	return holder
}

func (b *proxmoxBed) holderOf(vmid int) string {
	config := b.Guest(vmid).Config
	if found := births.FindStringSubmatch(config["description"]); found != nil {
		return found[1]
	}
	if found := byName.FindStringSubmatch(config["description"]); found != nil {
		return found[1]
	}
	if found := uuids.FindStringSubmatch(config["smbios1"]); found != nil {
		return found[1]
	}
	return ""
}

func (b *proxmoxBed) holdings() (map[item]where, error) {
	out := map[item]where{}
	for vmid := int(b.cfg.First); vmid <= int(b.cfg.Last); vmid++ {
		g := b.Guest(vmid)
		holder := b.holderOf(vmid)
		if holder == "" {
			holder = fmt.Sprintf("what %d left", vmid)
		}
		add := func(holder, part string, data []byte) {
			for _, m := range bytes.Fields(data) {
				out[item{holder, part, mark(m)}] = where{name: g.Name}
			}
		}
		for id, v := range b.Volumes(vmid) {
			if v.Content == "backup" {
				continue
			}
			part := "disk " + id
			for key, value := range g.Config {
				if key == b.root && strings.HasPrefix(value, id) {
					part = "data"
				}
			}
			add(holder, part, v.Data)
		}
		if m, holds := b.used[vmid]; holds && b.holds(g, m) {
			out[item{holder, inMemory, m.mark}] = where{name: g.Name, mib: m.mib}
		} else {
			delete(b.used, vmid)
		}
		for part, data := range b.Copies(vmid) {
			whose := holder
			if strings.HasPrefix(part, "backup ") {
				if b.of[part] == "" {
					b.of[part] = holder
				}
				whose = b.of[part]
			}
			add(whose, part, data)
		}
	}
	return out, nil
}

// holds reports whether the programs of a guest can still hold what they did. A limit below that has the kernel kill them.
func (b *proxmoxBed) holds(g pvetest.Guest, m inUse) bool {
	limit, err := strconv.Atoi(g.Config["memory"])
	return err == nil && g.Running && limit >= m.mib && b.holderOf(g.VMID) == m.holder
}

func (*proxmoxBed) kind() string        { return "guest" }
func (*proxmoxBed) targets() []string   { return nil }
func (*proxmoxBed) commands() []string  { return nil }
func (*proxmoxBed) templates() []string { return []string{"qemu", "lxc"} }
func (b *proxmoxBed) newDisk() string {
	return map[string]string{"scsi0": "scsi3", "rootfs": "mp3"}[b.root]
}
func (*proxmoxBed) making() op.Params { return op.Params{"state": "running"} } // only what runs can write

func (*proxmoxBed) free(string, [5]uint8) op.Params { return op.Params{} }
