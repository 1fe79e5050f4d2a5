package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"gated/internal/host/life"
)

func (b *bench) program(name string) string { return filepath.Join(b.Programs, name) }

// state makes a state directory with the real program.
func (b *bench) state(name string) (string, error) {
	dir, pub := filepath.Join(b.Dir, name), filepath.Join(b.Dir, name+".pub")
	if err := os.WriteFile(pub, []byte(b.keys.plain.public()), 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(b.ctx, b.program("gated"), "init", "--state", dir, "--host", host, "--operator",
		pub+":"+b.keys.plain.principal).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("gated init: %w: %s", err, out)
	}
	return dir, nil
}

// whileServed has the real daemon serve a state directory while work runs. Afterwards
// fsck has to find the directory sound.
func (b *bench) whileServed(dir, socket string, work func(*process) error) error {
	p, _, err := b.daemon(dir, socket)
	if err != nil {
		return err
	}
	if err = errors.Join(work(p), p.stop()); err != nil {
		return err
	}
	return b.consistent(dir)
}

// consistent is an error if fsck finds a problem in a state directory.
func (b *bench) consistent(dir string) error {
	r, err := life.Fsck(b.ctx, dir)
	if err == nil && len(r.Problems) > 0 {
		err = fmt.Errorf("fsck finds %d problems, the first of them: %v", len(r.Problems), r.Problems[0])
	}
	return err
}
