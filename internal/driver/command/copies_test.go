package command_test

import (
	"context"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/command"
	"gated/internal/driver/command/catalogue"
	"gated/internal/test/must"
)

// The copies of all looks together have a bound. A look above the bound waits, until its
// context ends.
func TestCopiesTogetherAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gate := b.path("work", "gate")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	b.give(gate)
	b.entry("slow", []string{"/bin/true"}, func(e *catalogue.Entry) { e.Probe = []string{"/bin/cat", gate} })
	b.entry("quick", []string{"/bin/true"}, nil)
	b.Driver = b.driver()
	size := func(path string) int64 { return must.Get(os.Stat(path))(t).Size() }
	all := size("/bin/true") + size("/bin/cat")
	b.Room(all)

	slow := make(chan error, 1)
	go func() { _, err := b.Observe(t.Context(), asking("slow")); slow <- err }()
	letGo, err := os.OpenFile(gate, os.O_WRONLY, 0) // the probe runs when this returns
	require.NoError(t, err)
	held, _, _ := b.Held()
	require.Equal(t, all, held)

	b.look(op.At(target("slow"))) // takes no copy
	gone, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { must.Fail(b.Observe(gone, asking("quick")))(t, refusal.Unavailable) })
	b.waiting(1)
	cancel()
	wg.Wait()
	for range 16 {
		wg.Go(func() { must.Get(b.Observe(t.Context(), asking("quick")))(t) })
	}
	b.waiting(16)
	held, _, _ = b.Held()
	require.Equal(t, all, held)
	require.NoError(t, letGo.Close())
	require.NoError(t, <-slow)
	wg.Wait()
	looks, runs, waiting := b.Held()
	require.Zero(t, looks)
	require.Zero(t, runs)
	require.Zero(t, waiting)

	b.Room(size("/bin/true") - 1)
	must.Fail(b.Observe(t.Context(), asking("quick")))(t, refusal.Unavailable, "what never fits does not wait")
}

// waiting returns when n looks wait for room.
func (b *bench) waiting(n int) {
	b.t.Helper()
	for _, _, now := b.Held(); now != n; _, _, now = b.Held() {
		require.NoError(b.t, b.t.Context().Err())
		runtime.Gosched()
	}
}

// A program that is too large is refused before it is copied.
func TestProgramsAreNotLarge(t *testing.T) {
	b := newBench(t)
	b.entry("large", []string{b.script("large", "#!/bin/sh\n")}, nil)
	require.NoError(t, os.Truncate(b.path("large"), 128<<20+1))
	for _, l := range []op.Look{asking("large"), op.At(target("large"))} {
		_, err := b.Observe(t.Context(), l)
		require.ErrorIs(t, err, refusal.Unavailable)
		require.ErrorContains(t, err, "more than 134217728")
	}
	held, _, _ := b.Held()
	require.Zero(t, held)
}

// A list remembers the digests of unchanged files. A step's look never uses them.
func TestAListRemembersDigests(t *testing.T) {
	b := newBench(t)
	path := b.script("does", "#!/bin/sh\necho one\n")
	made := must.Get(os.Stat(path))(t)
	now := made.ModTime()
	b.entry("does", []string{path}, nil)
	b.Driver = command.New(command.Config{Entries: b.entries, SingleUser: b.own, Now: func() time.Time { return now }})
	at := op.At(target("does"))
	one := b.look(at).Incarnation
	require.Equal(t, 1, b.Remembered(), "the shell; the script is new, and may change without a trace")
	now = now.Add(time.Hour)
	require.Equal(t, one, b.look(at).Incarnation)
	require.Equal(t, 2, b.Remembered())
	require.Equal(t, one, b.look(at).Incarnation)
	require.Equal(t, one, b.look(asking("does")).Incarnation, "by memory and by a copy it is the same")

	b.script("does", "#!/bin/sh\necho two\n")
	require.NotEqual(t, one, b.look(asking("does")).Incarnation)
	b.script("does", "#!/bin/sh\necho three\n")
	require.Equal(t, b.look(asking("does")).Incarnation, b.look(at).Incarnation)
}
