package agent

import (
	"os"
	"testing"

	"gated/internal/base/proc"
)

// BenchmarkWho asks for this process, registered as its own parent's child: two
// steps. A known connection is not walked for again.
func BenchmarkWho(b *testing.B) {
	r, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	parent, err := proc.Read(os.Getppid())
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := r.Restore([]Registration{{Name: "a", Process: proc.ID{PID: parent.PID, Start: parent.Start, Boot: r.cfg.Boot}}}); err != nil {
		b.Fatal(err)
	}
	own, err := proc.OpenPID(os.Getpid())
	if err != nil {
		b.Fatal(err)
	}
	p := &Peer{UID: uint32(os.Geteuid()), PID: os.Getpid(), handle: own}
	for _, known := range []bool{false, true} {
		name := map[bool]string{false: "walk", true: "known"}[known]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !known {
					p.last = lineage{}
				}
				if _, ok := r.Who(p, 0); !ok {
					b.Fatal("not known")
				}
			}
		})
	}
}
