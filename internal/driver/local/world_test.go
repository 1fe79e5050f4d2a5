package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/drivertest"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
	"gated/internal/test/spareuids"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// world is a driver over a new root, with a clock that tests move.
type world struct {
	t      testing.TB
	ctx    context.Context
	root   string
	cfg    Config
	d      *Driver
	births int
	exited chan op.Target
	log    lockedBuffer

	mu  sync.Mutex
	now time.Time
}

func newWorldClock() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The commands of tests. Each writes the file up when it runs.
var testCommands = map[string]Command{
	"sleep": {Argv: []string{"/bin/sh", "-c", "echo up > up; exec sleep 1000"}, Env: map[string]string{"PATH": "/usr/bin:/bin"}},
	"stubborn": {Argv: []string{"/bin/sh", "-c", "trap '' TERM; echo up > up; while :; do sleep 1000; done"},
		Env: map[string]string{"PATH": "/usr/bin:/bin"}},
	"family": {Argv: []string{"/bin/sh", "-c",
		"sleep 1001 & echo $! > child; setsid sleep 1002 & echo $! > stray; echo up > up; exec sleep 1003"},
		Env: map[string]string{"PATH": "/usr/bin:/bin"}},
	"once": {Argv: []string{"/bin/sh", "-c", "echo done > done"}},
	"none": {Argv: []string{"/nowhere/no-such-program"}},
}

func newWorld(t testing.TB, change ...func(*Config)) *world {
	w := &world{t: t, ctx: t.Context(), root: filepath.Join(t.TempDir(), "guests"), exited: make(chan op.Target, 100),
		now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.cfg = Config{Root: w.root, StopGrace: 5 * time.Second, Commands: testCommands, SingleUser: true,
		Now: w.clock, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		Exited: func(t op.Target) { w.exited <- t }}
	if switches() { // no guest runs under root's uid
		w.cfg.GuestUIDs.First, w.cfg.GuestUIDs.Last = spareuids.Next(t.Cleanup)
	}
	for _, c := range change {
		c(&w.cfg)
	}
	w.open()
	t.Cleanup(w.shutDown)
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.d = must.Get(New(w.cfg))(w.t)
}

// restart closes the driver and opens another, as a restart of the daemon does.
func (w *world) restart() {
	w.t.Helper()
	require.NoError(w.t, w.d.Close())
	w.open()
}

// shutDown ends every process that the test started, through pidfds.
func (w *world) shutDown() {
	w.d.procs.mu.Lock()
	var running []*process
	for _, p := range w.d.procs.byInc {
		running = append(running, p)
	}
	w.d.procs.mu.Unlock()
	for _, p := range running {
		_ = p.Signal(unix.SIGKILL)
		<-p.done
	}
	_ = w.d.Close()
	if w.t.Failed() {
		w.t.Log(w.log.String())
	}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// fakePermit permits everything and remembers the look that it got.
type fakePermit struct {
	step   op.Step
	seen   *op.Observed
	refuse error
	before func() // called inside Use
}

func (p *fakePermit) Step() op.Step { return p.step }

func (p *fakePermit) Use(_ context.Context, now op.Observed) error {
	if p.seen != nil {
		return refusal.New(refusal.Conflict, "used twice")
	}
	p.seen = &now
	if p.before != nil {
		p.before()
	}
	return p.refuse
}

func target(name string) op.Target { return op.Target{Kind: "guest", Name: name} }

// step is the step that the gate would make of an operation on the current target.
func (w *world) step(verb, name string, kv ...any) op.Step {
	p := gateworld.Params(kv...)
	w.births++
	s := op.Step{ID: op.StepID{Job: op.JobID(w.births), Index: 1}, Op: "guest." + verb, Target: target(name), Params: p}
	if verb == "create" {
		s.Birth = fmt.Sprintf("birth-%d", w.births)
	} else if o, err := w.d.Observe(w.ctx, s.Look()); err == nil {
		s.Incarnation, s.Fingerprint = o.Incarnation, o.Fingerprint
	}
	return s
}

func (w *world) try(verb, name string, kv ...any) error {
	return w.d.did(w.ctx, &fakePermit{step: w.step(verb, name, kv...)})
}

func (w *world) do(verb, name string, kv ...any) {
	w.t.Helper()
	require.NoError(w.t, w.try(verb, name, kv...))
}

// refused expects a refusal before the permit is used.
func (w *world) refused(code refusal.Code, verb, name string, kv ...any) *refusal.Refusal {
	w.t.Helper()
	before := w.hash()
	p := &fakePermit{step: w.step(verb, name, kv...)}
	err := w.d.did(w.ctx, p)
	require.ErrorIs(w.t, err, code)
	require.Nil(w.t, p.seen, "the permit was used")
	require.Equal(w.t, before, w.hash(), "a refused step changed something")
	return refusal.As(err)
}

func (w *world) observe(name string) op.Observed {
	w.t.Helper()
	return must.Get(w.d.Observe(w.ctx, op.At(target(name))))(w.t)
}

func (w *world) path(parts ...string) string {
	return filepath.Join(append([]string{w.root}, parts...)...)
}

func (w *world) write(content string, parts ...string) {
	w.t.Helper()
	p := w.path(parts...)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(p), 0o700))
	require.NoError(w.t, os.WriteFile(p, []byte(content), 0o600))
}

func (w *world) content(parts ...string) string {
	w.t.Helper()
	b := must.Get(os.ReadFile(w.path(parts...)))(w.t)
	return string(b)
}

func (w *world) hash() string { return hashTree(w.t, w.root) }

// hashTree digests names, types, modes and contents below a path.
func hashTree(t interface {
	require.TestingT
	Helper()
}, root string) string {
	t.Helper()
	var lines []string
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() == uidsFile { // which only says which uids were given
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		line := strings.TrimPrefix(path, root) + " " + info.Mode().String()
		if info.Size() > 32<<20 { // a sparse file, too large to read
			line += fmt.Sprintf(" %d bytes of %s", info.Size(), info.ModTime())
		} else if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			line += " " + hex.EncodeToString(sum[:])
		}
		lines = append(lines, line)
		return nil
	}))
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// needRoot skips a test that only root can set up.
func needRoot(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("%s needs root", what)
	}
}

// needUIDs skips a test that needs guests with uids of their own.
func needUIDs(t testing.TB) {
	t.Helper()
	if !switches() {
		t.Skipf("%s needs root, or its capabilities", t.Name())
	}
}

// needLandlock skips a test that needs a kernel with Landlock.
func needLandlock(t testing.TB) {
	t.Helper()
	if (&Config{}).landlockABI() == 0 {
		t.Skipf("%s needs a kernel with Landlock", t.Name())
	}
}

// waitFor polls a condition that another process makes true. The only sign of it is that
// process' files.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 5*time.Millisecond, what)
}

func (w *world) waitUp(name string) {
	w.t.Helper()
	waitFor(w.t, name+" is up", func() bool {
		b, err := os.ReadFile(w.path(name, dataDir, "up"))
		return err == nil && string(b) == "up\n"
	})
}

// did is a rehearsal that only returns the error.
func (d *Driver) did(ctx context.Context, p drivertest.Permit) error {
	_, err := drivertest.Rehearse(ctx, p, d.prepare)
	return err
}
