package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	idleGuests = 100
	idleTime   = 3 * time.Second
)

// memory measures the real daemon with 100 guests on disk and nothing to do:
// after it made them, and after a start that found them.
func (b *bench) memory() error {
	dir, err := b.state("memory")
	if err != nil {
		return err
	}
	serve := []string{"serve", "--state", dir, "--socket", socketIn(dir)}
	p, _, err := startProcess(b.ctx, socketIn(dir), b.program("gated"), serve...)
	if err != nil {
		return err
	}
	made, err := b.afterMaking(p, dir)
	if err = errors.Join(err, p.stop()); err != nil {
		return err
	}
	if p, _, err = startProcess(b.ctx, socketIn(dir), b.program("gated"), serve...); err != nil {
		return err
	}
	found, err := b.whenIdle(p)
	if err = errors.Join(err, p.stop()); err != nil {
		return err
	}
	b.table.add(row{"resident memory, 100 guests, idle", max(made, found), mebibytes, 40,
		fmt.Sprintf("%.1f MiB after making them, %.1f after a new start", made, found)})
	return nil
}

func (b *bench) afterMaking(p *process, dir string) (float64, error) {
	file := filepath.Join(dir, "wished.yaml")
	text := bytes.ReplaceAll(document(idleGuests), []byte("tier"), []byte("layer"))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(b.ctx, b.program("gated"), "--socket", p.socket, "apply", "--wait", "-f", file).CombinedOutput()
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
	if there != idleGuests {
		return 0, fmt.Errorf("%d of %d guests were made", there, idleGuests)
	}
	return b.whenIdle(p)
}

// whenIdle returns the resident memory in MiB after a while without work.
func (b *bench) whenIdle(p *process) (float64, error) {
	if err := idle(b.ctx, idleTime); err != nil {
		return 0, err
	}
	status, err := os.ReadFile("/proc/" + p.pid() + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[1] != "kB" {
		return 0, errors.New("the kernel does not say VmRSS")
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib / 1024, err
}
