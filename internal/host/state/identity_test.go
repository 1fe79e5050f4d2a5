package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/test/must"
)

// T14.
func TestCopiesDoNotStart(t *testing.T) {
	copyFile := func(t *testing.T, from, to string) {
		b := must.Get(os.ReadFile(from))(t)
		require.NoError(t, os.WriteFile(to, b, 0o600))
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string) string
		on     string
		says   string
	}{
		"an old copy moved into its place": {func(t *testing.T, dir string) string {
			db := filepath.Join(dir, DatabaseName)
			copyFile(t, db, db+".old")
			require.NoError(t, os.Rename(db+".old", db))
			return dir
		}, machineA, "the file is another one"},
		"cloned to another directory": {func(t *testing.T, dir string) string {
			clone := filepath.Join(t.TempDir(), "clone")
			require.NoError(t, os.CopyFS(clone, os.DirFS(dir)))
			require.NoError(t, os.Chmod(clone, 0o700))
			require.NoError(t, os.Chmod(filepath.Join(clone, DatabaseName), 0o600))
			require.NoError(t, os.Chmod(filepath.Join(clone, lockName), 0o600))
			return clone
		}, machineA, "the file was made at another time"},
		"another machine":           {func(_ *testing.T, dir string) string { return dir }, machineB, "this is another machine"},
		"a machine without an id":   {func(_ *testing.T, dir string) string { return dir }, "", "this machine has no machine id"},
		"an image before its start": {func(_ *testing.T, dir string) string { return dir }, "uninitialized\n", "this machine has no machine id"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, id := made(t, on(t, machineA))
			_, err := start(t, c.change(t, dir), on(t, c.on))
			requireRefusal(t, err, refusal.TargetMismatch, c.says)
			require.ErrorContains(t, err, string(id.Gate))
		})
	}
}

func TestAMovedDirectoryIsNoCopy(t *testing.T) {
	o := on(t, machineA)
	dir, id := made(t, o)
	require.NoError(t, os.Rename(dir, dir+"-moved"))
	storetest.Removed(t, filepath.Join(dir, DatabaseName))
	require.Equal(t, id, must.Get(start(t, dir+"-moved", o))(t))
}

func TestARestoredCopyIsBoundAnew(t *testing.T) {
	o := on(t, machineB)
	dir, old := made(t, on(t, machineA))
	d := must.Get(Open(dir, o))(t)
	s := openStore(t, d)
	fresh := Identity{Gate: NewGateID(), Host: "pve2"}
	require.NoError(t, d.Bind(t.Context(), s, fresh))
	got := must.Get(d.Check(t.Context(), s))(t)
	require.Equal(t, fresh, got)
	require.NotEqual(t, old.Gate, got.Gate)
	require.NoError(t, s.Close())
	require.NoError(t, d.Close())
}

func TestFileSystemsAndMachinesThatRecordLess(t *testing.T) {
	without := func(path string) (File, error) {
		f, err := statFile(path)
		f.Birth = 0
		return f, err
	}
	o := on(t, "")
	o.Stat = without
	dir, id := made(t, o)
	got := must.Get(start(t, dir, o))(t)
	require.Equal(t, id, got)

	// What was not known is not compared later; the inode always is.
	got = must.Get(start(t, dir, on(t, machineA)))(t)
	require.Equal(t, id, got)
	o.Stat = func(path string) (File, error) { f, err := without(path); f.Inode++; return f, err }
	_, err := start(t, dir, o)
	requireRefusal(t, err, refusal.TargetMismatch, "the file is another one")

	// What was known and is not any more is a difference.
	dir, _ = made(t, on(t, machineA))
	o = on(t, machineA)
	o.Stat = without
	_, err = start(t, dir, o)
	requireRefusal(t, err, refusal.TargetMismatch, "the file was made at another time")
}

func TestIdentitiesThatAreNone(t *testing.T) {
	o := on(t, machineA)
	dir := filepath.Join(t.TempDir(), "state")
	d := must.Get(Init(dir, o))(t)
	s := openStore(t, d)
	_, err := d.Check(t.Context(), s)
	requireRefusal(t, err, refusal.Conflict, "did not finish")
	for _, id := range []Identity{{}, {Gate: "x", Host: "h"}, {Gate: op.GateID(strings.Repeat("A", 32)), Host: "h"}} {
		require.ErrorIs(t, d.Bind(t.Context(), s, id), refusal.BadParams)
	}
	err = d.Bind(t.Context(), s, Identity{Gate: NewGateID()})
	requireRefusal(t, err, refusal.BadParams, "host name")
	require.NoError(t, d.Bind(t.Context(), s, Identity{Gate: NewGateID(), Host: "h"}))
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE gate_identity SET inode = 'x'`)
		return err
	}))
	_, err = d.Check(t.Context(), s)
	requireRefusal(t, err, refusal.Conflict, "damaged")
	require.NoError(t, s.Close())
	require.NoError(t, d.Close())
}

func TestTheMachineIDIsNotStored(t *testing.T) {
	dir, _ := made(t, on(t, machineA))
	b := must.Get(os.ReadFile(filepath.Join(dir, DatabaseName)))(t)
	require.NotContains(t, string(b), machineA)
	digest := must.Get(machineDigest(on(t, machineA).MachineID))(t)
	require.Contains(t, string(b), digest)
	other := must.Get(machineDigest(on(t, machineB).MachineID))(t)
	require.NotEqual(t, digest, other)
}
