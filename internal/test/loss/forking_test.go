package loss

import (
	"os"
	"slices"
	"strings"
	"testing"

	"gated/internal/test/forker"
)

// forks is a program of a bed that forks from parent to child without pause, until somebody ends it.
type forks struct {
	program string
	seen    bool
}

// in reports whether one forks in a directory.
func (f *forks) in(dir string) bool {
	f.seen = f.seen || forker.Up(dir)
	alive, _ := forker.Alive(dir)
	return alive
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
			name, forks := "a stop leaves a process that no look finds", (*forks)(nil)
			switch b := b.(type) {
			case *localBed:
				b.forks.program, forks = program, &b.forks
			case *commandBed: // it mounts where it may, too
				b.leaves(`unshare -Urm mount -t tmpfs none . 2> /dev/null; ` + strings.Join(forker.Command(program, false), " "))
				name, forks = "a command leaves a process", &b.forks
			}
			playHole(t, b, holes[slices.IndexFunc(holes, func(h hole) bool { return h.name == name })])
			if !forks.seen {
				t.Fatal("it did not fork")
			}
		})
	}
}
