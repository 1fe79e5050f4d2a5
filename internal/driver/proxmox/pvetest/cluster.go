package pvetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http/httptest"
	"sync"
	"testing"
)

// TokenID and Secret are the API token that the server accepts.
const (
	TokenID = "gated@pve!gate"
	Secret  = "11111111-2222-4333-8444-555555555555"
)

// Node is the name of the first node.
const Node = "pve1"

// epoch is the time of a new cluster in seconds since 1970. Each change takes one second.
const epoch = 1760000000

// Cluster is one simulated Proxmox VE with its server. All its methods are safe for concurrent
// use.
type Cluster struct {
	t    testing.TB
	http *httptest.Server

	mu         sync.Mutex
	nodes      []*node
	guests     map[int]*guest
	volumes    map[string]*Volume
	storages   map[string]*Storage
	tasks      map[string]*task
	taskOrder  []*task
	holds      []*Held
	rules      []*Rule
	requests   []Request
	violations []string
	expected   int // violations that the test expects
	privileges map[string]bool
	narrow     bool // privileges hold on / alone, and not below it
	clock      int64
	pid        int
	random     *rand.Rand
	version    string
	told       map[*guest]map[string]any // the answers that Freeze keeps; nil if not frozen
	jobs       []replicationJob
}

type node struct {
	name    string
	offline bool
	said    string // its status, while it is offline; "" is "offline"
}

// New starts a cluster of one node, "pve1", without guests. Its storages are "local" (a
// directory: backups, templates, isos), "local-lvm" (thin: disks of both kinds) and "dir" (a
// directory with disks). The cluster ends with the test. It fails the test if a request
// violated the API's schema.
// keep to the API's schema.
func New(t testing.TB, nodes ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, guests: map[int]*guest{}, volumes: map[string]*Volume{}, tasks: map[string]*task{},
		privileges: map[string]bool{}, clock: epoch, pid: 1000, random: rand.New(rand.NewPCG(1, 2)), version: "9.1.3"}
	if len(nodes) == 0 {
		nodes = []string{Node}
	}
	for _, n := range nodes {
		c.nodes = append(c.nodes, &node{name: n})
	}
	c.storages = map[string]*Storage{
		"local":     {Name: "local", Type: "dir", Content: "backup,iso,vztmpl", KeepLast: 0},
		"local-lvm": {Name: "local-lvm", Type: "lvmthin", Content: "images,rootdir"},
		"dir":       {Name: "dir", Type: "dir", Content: "images,rootdir,backup"},
	}
	c.volumes[Template] = &Volume{ID: Template, Storage: "local", Format: "tzst", Content: "vztmpl", Size: 120 << 20}
	for _, p := range allPrivileges {
		c.privileges[p] = true
	}
	c.http = httptest.NewUnstartedServer(c)
	c.http.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust the certificate
	c.http.StartTLS()
	t.Cleanup(c.end)
	return c
}

// Template is the volume id of the existing container template.
const Template = "local:vztmpl/debian-12-standard_12.7-1_amd64.tar.zst"

var allPrivileges = []string{"VM.Allocate", "VM.Audit", "VM.Backup", "VM.Clone", "VM.Config.CDROM", "VM.Config.CPU",
	"VM.Config.Cloudinit", "VM.Config.Disk", "VM.Config.HWType", "VM.Config.Memory", "VM.Config.Network",
	"VM.Config.Options", "VM.PowerMgmt", "VM.Snapshot", "VM.Snapshot.Rollback", "Datastore.Allocate",
	"Datastore.AllocateSpace", "Datastore.Audit", "SDN.Use", "Sys.Audit"}

// end releases everything that hangs, closes the server and reports violations.
func (c *Cluster) end() {
	c.ReleaseAll()
	c.http.CloseClientConnections()
	c.http.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.violations) != c.expected {
		c.t.Errorf("requests that the Proxmox VE API refuses (%d, %d expected):", len(c.violations), c.expected)
		for _, v := range c.violations {
			c.t.Errorf("  %s", v)
		}
	}
}

// URL is the base of the API, "https://127.0.0.1:1234/api2/json".
func (c *Cluster) URL() string { return c.http.URL + "/api2/json" }

// CertPEM is the server's self-signed certificate, which is also its own CA.
func (c *Cluster) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.http.Certificate().Raw})
}

// Fingerprint is the SHA-256 of the certificate, as Proxmox VE shows it: pairs
// of upper-case hex digits with colons.
func (c *Cluster) Fingerprint() string {
	sum := sha256.Sum256(c.http.Certificate().Raw)
	text := ""
	for i, b := range sum {
		if i > 0 {
			text += ":"
		}
		text += fmt.Sprintf("%02X", b)
	}
	return text
}

// tick moves the clock forward by a second.
func (c *Cluster) tick() int64 { c.clock++; return c.clock }

// Advance sets the cluster's clock forward by seconds.
func (c *Cluster) Advance(seconds int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock += seconds
}

func (c *Cluster) uuid() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(c.random.UintN(256))
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func (c *Cluster) mac() string {
	return fmt.Sprintf("BC:24:11:%02X:%02X:%02X", c.random.UintN(256), c.random.UintN(256), c.random.UintN(256))
}

// Expect says that the schema should refuse n requests of the test.
func (c *Cluster) Expect(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected += n
}

// Violations are the requests so far that violated the schema.
func (c *Cluster) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.violations...)
}
