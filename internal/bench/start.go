package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"gated/internal/store"
)

// historyTime is how long a history may take to write. A machine that does not
// manage all rows in it measures with fewer, and the table says how many.
const historyTime = 45 * time.Second

const (
	startRuns   = 3
	inFlight    = 1000
	rowsPerStep = 10 // that one signed operation leaves behind, see history
)

// start measures the real daemon: from its first instruction until it answers,
// with a long history and with steps under way that it has to resolve first.
func (b *bench) start() error {
	dir, err := b.state("start")
	if err != nil {
		return err
	}
	began := now()
	h, err := openHistory(b.ctx, dir)
	if err != nil {
		return err
	}
	jobs, err := h.past(b.Rows/rowsPerStep, began.Add(historyTime))
	if err = errors.Join(err, h.close()); err != nil {
		return err
	}
	fmt.Fprintf(b.Progress, "  %d rows of history in %.0f s\n", jobs*rowsPerStep, now().Sub(began).Seconds())
	took, err := median(startRuns, func() (float64, error) { return b.startOnce(dir) })
	if err != nil {
		return err
	}
	empty, err := b.emptyStart()
	if err != nil {
		return err
	}
	b.table.add(row{fmt.Sprintf("start with %d journal rows, 1,000 in flight", jobs*rowsPerStep), took, milliseconds, 1000,
		fmt.Sprintf("whole process, gated serve; an empty gate starts in %.0f ms", empty)})
	return b.soundState(dir)
}

func (b *bench) startOnce(dir string) (float64, error) {
	h, err := openHistory(b.ctx, dir)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(h.underWay(inFlight), h.close()); err != nil {
		return 0, err
	}
	return b.serveOnce(dir)
}

func (b *bench) emptyStart() (float64, error) {
	dir, err := b.state("start-empty")
	if err != nil {
		return 0, err
	}
	return median(startRuns, func() (float64, error) { return b.serveOnce(dir) })
}

func (b *bench) serveOnce(dir string) (float64, error) {
	p, took, err := startProcess(b.ctx, socketIn(dir), b.program("gated"), "serve", "--state", dir, "--socket", socketIn(dir))
	if err != nil {
		return 0, err
	}
	return inMillis(took), p.stop()
}

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

// soundState checks that nothing is under way and that the journal has as many
// ends as there were steps.
func (b *bench) soundState(dir string) error {
	h, err := openHistory(b.ctx, dir)
	if err != nil {
		return err
	}
	var open int
	err = h.store.View(b.ctx, func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM steps WHERE state IN ('planned', 'pending_signature', 'authorized', 'dispatched')`).Scan(&open)
	})
	if err == nil && open != 0 {
		err = errors.New(strconv.Itoa(open) + " steps are still open after the start")
	}
	return errors.Join(err, h.close())
}
