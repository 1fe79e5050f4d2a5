package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/store"
	"gated/internal/host/fsck"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/people/pubkey"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

// H03: a restore, once for each call that it consists of, which fails. What is
// there afterwards is the database of before, or the restored one, or nothing
// that a daemon starts on; and a second restore works.
func TestRestoreWhereEveryCallFails(t *testing.T) {
	inChild(t, "TestRestoreChild", 3)
}

func TestRestoreChild(t *testing.T) {
	dir := os.Getenv(hostDir)
	if dir == "" {
		return // the work of TestRestoreWhereEveryCallFails
	}
	r := &restores{t: t, dir: dir, state: filepath.Join(dir, "state"), backup: filepath.Join(dir, "..", filepath.Base(dir)+".backup")}
	r.pub = mint.Ed25519(t, "alice").WriteFile(t, dir) + ".pub"
	r.init()
	require.NoError(t, os.Rename(filepath.Join(r.state, "gated.db"), r.backup))
	defer func() {
		for _, suffix := range []string{"", "-wal", "-shm"} { // which are there where it was looked at
			require.NoError(t, os.RemoveAll(r.backup+suffix))
		}
	}()
	kinds, errnos := []Kind{Write, Sync, Rename, Open, Truncate, Unlink}, []unix.Errno{unix.EIO, unix.ENOSPC}
	if Stride > 1 {
		kinds, errnos = kinds[:3], errnos[:1]
	}
	for _, only := range kinds {
		stride := Stride
		if only == Write {
			stride = 4 * Stride
		}
		for _, errno := range errnos {
			runs, lost := 0, 0
			for f := (Fault{Nth: 1, Errno: errno, Only: only}); ; f.Nth += stride {
				kind, gone := r.once(f)
				if kind == 0 {
					break
				}
				runs++
				lost += gone
			}
			require.NotZero(t, runs, only)
			require.Zero(t, lost, only)
			t.Logf("reliability: %s answers %s | restore | runs %d | lost %d | twice 0", only, unix.ErrnoName(errno), runs, lost)
		}
	}
}

// restores is a state directory that is restored again and again.
type restores struct {
	t                       testing.TB
	dir, state, backup, pub string
}

func (r *restores) init() (gate string) {
	require.NoError(r.t, os.RemoveAll(r.state))
	_, err := life.Init(r.t.Context(), life.InitOptions{StateDir: r.state, Host: hostName, Operators: []pubkey.Arg{{Path: r.pub}}})
	require.NoError(r.t, err)
	return r.gateOf(filepath.Join(r.state, "gated.db"))
}

// gateOf is whose database it is, "" if that cannot be read.
func (r *restores) gateOf(path string) (gate string) {
	err := store.Peek(context.Background(), path, func(_ int, tx *store.Tx) error {
		return tx.QueryRow(`SELECT gate FROM gate_identity`).Scan(&gate)
	})
	if err != nil {
		return ""
	}
	return gate
}

// once restores with one fault, and returns what kind of call failed and whether
// the database of before is gone.
func (r *restores) once(f Fault) (Kind, int) {
	was := r.init()
	require.NoError(r.t, Arm(f))
	got, err := life.Restore(r.t.Context(), r.backup, r.state)
	kind := must.Get(Disarm())(r.t)
	gone := r.gone(was)
	starts, now := r.starts(f)
	switch {
	case err == nil:
		require.True(r.t, starts, "%+v", f)
		require.Equal(r.t, string(got.GateID), now)
	case starts: // nothing was changed, or all was and then something failed
		require.Contains(r.t, []string{was, string(got.GateID)}, now, "%+v: %v", f, err)
	}
	if err == nil {
		return kind, gone
	}
	got = must.Get(life.Restore(r.t.Context(), r.backup, r.state))(r.t, "%+v", f)
	require.Equal(r.t, signers.SignersSame, got.Trust.Of, "%+v: who may sign is known after a restore that broke off", f)
	starts, now = r.starts(f)
	require.True(r.t, starts)
	require.Equal(r.t, string(got.GateID), now)
	return kind, gone + r.gone(was)
}

// starts reports whether a daemon would start on what is there, and as which
// gate. What it would start on is sound.
func (r *restores) starts(f Fault) (bool, string) {
	report, err := life.Fsck(context.Background(), r.state)
	if err != nil {
		return false, ""
	}
	if slices.ContainsFunc(report.Problems, func(p life.Problem) bool { return p.Code == fsck.CopyBound }) {
		return false, "" // it is bound to another file
	}
	require.Empty(r.t, report.Problems, "%+v", f)
	return true, r.gateOf(filepath.Join(r.state, "gated.db"))
}

// gone is 1 if the database of that gate is nowhere any more.
func (r *restores) gone(gate string) int {
	all := must.Get(filepath.Glob(filepath.Join(r.state, "gated.db*")))(r.t)
	all = slices.DeleteFunc(all, func(p string) bool { return strings.HasSuffix(p, "-wal") || strings.HasSuffix(p, "-shm") })
	if slices.ContainsFunc(all, func(p string) bool { return r.gateOf(p) == gate }) {
		return 0
	}
	r.t.Errorf("%s is in none of %v", gate, all)
	return 1
}

// relay logs what a child process says of reliability, in at least so many
// lines.
func relay(t *testing.T, out string, least int) {
	t.Helper()
	said := 0
	for line := range strings.Lines(out) {
		if i := strings.Index(line, "reliability: "); i >= 0 {
			t.Log(strings.TrimSpace(line[i:]))
			said++
		}
	}
	require.GreaterOrEqual(t, said, least, fmt.Sprintf("%.4000s", out))
}
