package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// memory measures the real daemon with guests on disk and nothing to do: after it
// made them, and after a start that found them.
func (b *bench) memory() error {
	dir, err := b.state("memory")
	if err != nil {
		return err
	}
	var made, found float64
	err = b.whileServed(dir, socketIn(dir), func(p *process) (err error) { made, err = b.afterMaking(p, dir); return err })
	if err != nil {
		return err
	}
	err = b.whileServed(dir, socketIn(dir), func(p *process) (err error) { found, err = b.whenIdle(p); return err })
	if err != nil {
		return err
	}
	b.addf(fmt.Sprintf("resident memory, %d guests, idle", b.size.idleGuests), max(made, found), mebibytes, 40,
		"%.1f MiB after making them, %.1f after a new start", made, found)
	return nil
}

func (b *bench) afterMaking(p *process, dir string) (float64, error) {
	file := filepath.Join(dir, "wished.yaml")
	text := bytes.ReplaceAll(document(b.size.idleGuests), []byte("tier"), []byte("layer"))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(b.ctx, b.program("gated"), "--socket", p.socket, "apply", "--wait", "-f", file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("gated apply: %w: %s", err, out)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "guests"))
	if err != nil {
		return 0, err
	}
	there := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "g") {
			there++
		}
	}
	if there != b.size.idleGuests {
		return 0, fmt.Errorf("%d of %d guests were made", there, b.size.idleGuests)
	}
	return b.whenIdle(p)
}

// whenIdle returns the resident memory in MiB after a while without work.
func (b *bench) whenIdle(p *process) (float64, error) {
	if err := idle(b.ctx, b.size.idleTime); err != nil {
		return 0, err
	}
	return p.resident("VmRSS")
}
