package loss

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gated/internal/test/forker"
)

// forks is a program of a bed that forks from parent to child without pause, until somebody ends it.
type forks struct {
	program string
	seen    bool
	over    error // its own time was over, so that a stop may have waited for nothing but that
}

// in reports whether one forks in a directory.
func (f *forks) in(dir string) bool {
	if !forker.Up(dir) {
		return false
	}
	f.seen = true
	alive, err := forker.Alive(dir)
	f.over = errors.Join(f.over, err)
	return alive
}

// end ends what forks in directories that match a pattern, before they are deleted.
func (f *forks) end(patterns ...string) error {
	for _, pattern := range patterns {
		dirs, _ := filepath.Glob(pattern)
		for _, dir := range dirs {
			for limit := time.Now().Add(patience); f.in(dir); {
				if err := forker.End(dir); err != nil || time.Now().After(limit) {
					return fmt.Errorf("a forker in %s does not end: %w", dir, err)
				}
				runtime.Gosched()
			}
		}
	}
	return nil
}

// TestNoForkerIsLeft plays what leaves a process with a program that no look at one process after the other finds.
func TestNoForkerIsLeft(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "gl-forker-") // a guest's own uid runs the program in it
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	program, err := forker.Program(dir)
	must(t, err)
	for _, b := range beds {
		if b.name != "command" && (b.name != "local" || os.Geteuid() != 0) { // no stop can prove that a guest without its own uid left nothing
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			b := b.make(t)
			name, left := "a stop leaves a process that no look finds", (*forks)(nil)
			switch b := b.(type) {
			case *localBed:
				b.forks.program, left = program, &b.forks
			case *commandBed: // where it may, it does so behind a mount of its own
				forks := strings.Join(forker.Command(program, false), " ")
				b.leaves(`if unshare -Urm true 2> /dev/null; then exec unshare -Urm sh -c 'mount -t tmpfs none . && exec ` + forks + `'; fi; exec ` + forks)
				name, left = "a command leaves a process", &b.forks
			}
			playHole(t, b, holes[slices.IndexFunc(holes, func(h hole) bool { return h.name == name })])
			if !left.seen || left.over != nil {
				t.Fatalf("it did not fork, or not long enough: %v", left.over)
			}
		})
	}
}
