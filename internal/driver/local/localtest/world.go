// Package localtest has the local driver's World for the suite that every driver passes. It is
// only for tests. A test program calls local.MaybeExecGuest first.
package localtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/local"
	"gated/internal/people/policy"
	"gated/internal/test/must"
	"gated/internal/test/spareuids"
)

// host is a root with the driver over it. Its functions write the root's files.
type host struct {
	t    testing.TB
	root string
	d    *local.Driver
	uids local.UIDRange
}

// New returns a World over a new root, without guests.
func New(t testing.TB) drivertest.World {
	h := &host{t: t, root: filepath.Join(t.TempDir(), "guests")}
	h.open()
	t.Cleanup(h.close)
	rules := policy.Default()
	rules.Commands = []string{"idle"}
	labels := map[string]any{"tier": "test"}
	calls := "its back end is the kernel: no call of it is silent, lies or answers twice"
	return drivertest.World{
		Driver:  h.d,
		Restart: h.restart,
		Policy:  rules,
		Make:    h.plant,
		Remake:  func(name string) { h.vanish(name); h.plant(name) },
		Change:  func(name string) { h.edit(name, `"labels":{}`, `"labels":{"keep":"yes"}`) },
		Fill:    func(name string) { h.write("more of "+name, name, "data", "deep", "er", "more") },
		Content: h.content,
		Wishes:  []op.Params{{}, {"memory": int64(64), "cpus": int64(1), "command": "idle", "labels": labels, "protected": true}},
		Changes: []op.Params{{"memory": int64(512)}, {"cpus": int64(2)}, {"command": "idle"}, {"command": ""}, {"labels": labels},
			{"protected": true}, {"protected": false}},
		Aliases: func(name string) []string {
			inc := string(drivertest.LookAt(t, h.d, name).Incarnation)
			return strings.Split(inc, ":")
		},
		Abilities: drivertest.Abilities{
			Protect: func(name string) { h.edit(name, `"protected":false`, `"protected":true`) },
			SetMemory: func(name string, mib int64) {
				h.edit(name, fmt.Sprintf(`"memory_mib":%d,`, drivertest.LookAt(t, h.d, name).Spec.Int("memory")), fmt.Sprintf(`"memory_mib":%d,`, mib))
			},
			Runs:   true,
			NewIDs: true,
			MoveDisk: func(from, to string) {
				require.NoError(t, os.Mkdir(h.path(from, "snapshots", "s"), 0o700))
				require.NoError(t, os.Rename(h.path(from, "snapshots", "s"), h.path(to, "snapshots", "s")))
			},
			Objects: h.objects,
			Sizes:   true,
			Lacks: map[string]string{
				"Volatile": "a guest's data is in files, which outlive its process",
				"NewDisk":  "a guest has one data tree, and no disks",
				"Share":    "a guest's data tree is in its own directory",
				"Leftover": "a guest's directory is the only place for its storage, and where there is one there is a guest",
				"Hang":     calls, "Lie": calls, "LoseAnswer": calls, "Twice": calls,
			},
		},
	}
}

func (h *host) open() {
	c := local.Config{Root: h.root, StopGrace: time.Second, SingleUser: true,
		Commands: map[string]local.Command{"idle": {Argv: []string{"/bin/sleep", "1000"}}},
		Now:      func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }}
	if os.Geteuid() == 0 { // no guest may run under root's uid
		if h.uids == (local.UIDRange{}) {
			h.uids.First, h.uids.Last = spareuids.Next(h.t.Cleanup)
		}
		c.GuestUIDs = h.uids
	}
	d := must.Get(local.New(c))(h.t)
	h.d = d
}

func (h *host) restart() driver.Driver {
	require.NoError(h.t, h.d.Close())
	h.open()
	return h.d
}

func (h *host) close() { _ = h.d.Close() }

func (h *host) path(elem ...string) string {
	return filepath.Join(append([]string{h.root}, elem...)...)
}

func (h *host) write(content string, elem ...string) {
	path := h.path(elem...)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(h.t, os.WriteFile(path, []byte(content), 0o600))
}

// plant makes a sound guest, as a user with the daemon's rights could.
func (h *host) plant(name string) {
	for _, sub := range []string{"data", "snapshots"} {
		require.NoError(h.t, os.MkdirAll(h.path(name, sub), 0o700))
	}
	h.write("the only copy of "+name, name, "data", "precious")
	var st unix.Statx_t
	require.NoError(h.t, unix.Statx(unix.AT_FDCWD, h.path(name), 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st))
	h.write(fmt.Sprintf(`{"uuid":"%08x-0000-4000-8000-%012x","inode":%d,"birth_ns":%d,"memory_mib":0,"cpus":0,"command":"idle",`+
		`"labels":{},"protected":false,"created_at":"2026-02-01T00:00:00Z"}`+"\n", rand.Uint32(), rand.Uint64()&0xffffffffffff,
		st.Ino, st.Btime.Sec*1e9+int64(st.Btime.Nsec)), name, "guest.json")
}

func (h *host) vanish(name string) { require.NoError(h.t, os.RemoveAll(h.path(name))) }

func (h *host) edit(name, old, new string) {
	b := must.Get(os.ReadFile(h.path(name, "guest.json")))(h.t)
	require.Contains(h.t, string(b), old)
	require.NoError(h.t, os.WriteFile(h.path(name, "guest.json"), []byte(strings.Replace(string(b), old, new, 1)), 0o600))
}

// content digests a guest's data and snapshots: names and bytes.
func (h *host) content(name string) string {
	sum := sha256.New()
	for _, sub := range []string{"data", "snapshots"} {
		err := filepath.WalkDir(h.path(name, sub), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%q %v\n", strings.TrimPrefix(path, h.path(name)), e.Type())
			if !e.Type().IsRegular() {
				return nil
			}
			b, err := os.ReadFile(path)
			fmt.Fprintf(sum, "%q\n", b)
			return err
		})
		if os.IsNotExist(err) {
			return ""
		}
		require.NoError(h.t, err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// objects identifies each data tree and snapshot of each guest by its inode and time of birth,
// as the driver does.
func (h *host) objects() (ids []op.StorageID) {
	for _, what := range []struct{ glob, name string }{{"*/data", "data"}, {"*/snapshots/*", "snapshot"}} {
		paths := must.Get(filepath.Glob(h.path(what.glob)))(h.t)
		for _, path := range paths {
			if strings.HasPrefix(strings.TrimPrefix(path, h.root+"/"), ".") {
				continue
			}
			name := what.name
			if name == "snapshot" {
				name += ":" + filepath.Base(path)
			}
			var st unix.Statx_t
			require.NoError(h.t, unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st))
			ids = append(ids, op.StorageID(fmt.Sprintf("%s:%d:%d", name, st.Ino, st.Btime.Sec*1e9+int64(st.Btime.Nsec))))
		}
	}
	return ids
}
