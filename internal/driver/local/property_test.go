package local

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestOneGuestNeverTouchesAnother runs random operations on two guests. After each it checks
// the tree and the trash of the guest that was not meant.
func TestOneGuestNeverTouchesAnother(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base := must.Get(os.MkdirTemp(t.TempDir(), ""))(rt)
		now := newWorldClock()
		d := must.Get(New(Config{Root: filepath.Join(base, "guests"), Commands: testCommands, SingleUser: true,
			Now: func() time.Time { return now }}))(rt)
		defer func() { _ = d.Close() }()
		for i := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "guest")
			other := map[string]string{"a": "b", "b": "a"}[name]
			before := wholeOf(rt, d, base, other)
			runRandom(rt, d, base, name, i)
			require.Equal(rt, before, wholeOf(rt, d, base, other))
			now = now.Add(time.Minute)
		}
	})
}

// wholeOf digests a guest: its tree and what it has in the trash.
func wholeOf(rt *rapid.T, d *Driver, base, name string) []string {
	var all []string
	root := filepath.Join(base, "guests")
	if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
		all = append(all, hashTree(rt, filepath.Join(root, name)))
	}
	trash := must.Get(d.trashOf(name))(rt)
	for _, x := range trash {
		all = append(all, hashTree(rt, filepath.Join(root, trashDir, trashName(name, x.Incarnation))))
	}
	return all
}

// runRandom runs one random operation. A refusal is a valid outcome.
func runRandom(rt *rapid.T, d *Driver, base, name string, i int) {
	data := filepath.Join(base, "guests", name, dataDir)
	verb := rapid.SampledFrom([]string{"create", "destroy", "undelete", "snapshot", "restore", "wipe", "snapshot-delete",
		"set-config", "stop", "write", "link", "symlink"}).Draw(rt, "verb")
	other := filepath.Join(base, "guests", map[string]string{"a": "b", "b": "a"}[name], dataDir)
	switch verb {
	case "write":
		_ = os.WriteFile(filepath.Join(data, rapid.SampledFrom([]string{"f", "g"}).Draw(rt, "file")), []byte(strconv.Itoa(i)), 0o600)
		return
	case "link": // a guest could link to a file of another guest that it can read
		_ = os.Remove(filepath.Join(data, "f"))
		_ = os.Link(filepath.Join(other, "g"), filepath.Join(data, "linked"))
		return
	case "symlink":
		_ = os.Symlink(other, filepath.Join(data, "into"))
		return
	}
	s := op.Step{ID: op.StepID{Job: 1, Index: 1}, Op: "guest." + verb, Target: target(name), Params: op.Params{},
		Birth: "b" + strconv.Itoa(i)}
	switch verb {
	case "snapshot", "restore", "snapshot-delete":
		s.Params["snapshot"] = rapid.SampledFrom([]string{"s", "t"}).Draw(rt, "snapshot")
	case "set-config":
		s.Params["protected"] = rapid.Bool().Draw(rt, "protected")
	}
	o := must.Get(d.Observe(rt.Context(), s.Look()))(rt)
	if verb != "create" {
		s.Incarnation, s.Fingerprint = o.Incarnation, o.Fingerprint
	}
	err := d.did(rt.Context(), &fakePermit{step: s})
	var refused *refusal.Refusal
	require.True(rt, err == nil || errors.As(err, &refused), "%s: %v", verb, err)
}

// TestOneNameAtATime runs many steps for one name and for others at the same time.
func TestOneNameAtATime(t *testing.T) {
	w := newWorld(t)
	w.do("create", "web")
	w.write("x", "web", dataDir, "file")
	var held atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		s := w.step("snapshot", "web", "snapshot", "s"+strconv.Itoa(i))
		mine := w.step("create", "own"+strconv.Itoa(i))
		wg.Go(func() {
			unlock := w.d.names.lock("other")
			assert.Equal(t, int32(1), held.Add(1))
			held.Add(-1)
			unlock()
			assert.NoError(t, w.d.did(w.ctx, &fakePermit{step: s}))
			assert.NoError(t, w.d.did(w.ctx, &fakePermit{step: mine}))
			_, err := w.d.List(w.ctx)
			assert.NoError(t, err)
			_, err = w.d.Observe(w.ctx, op.At(target("web")))
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	require.Len(t, w.observe("web").Snapshots, 8)
	require.Empty(t, w.d.names.held)
}
