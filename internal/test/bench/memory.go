package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/convert"
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
	b.addf(fmt.Sprintf("resident memory, %d guests, idle", b.size.idleGuests), max(made, found), mebibytes, 32,
		"%.1f MiB after making them, %.1f after a new start", made, found)
	return b.afterDecisions()
}

// afterDecisions measures a gate that decided many steps and executed none. They make
// guests that are not there, so that the driver in memory keeps nothing of them.
func (b *bench) afterDecisions() error {
	var done atomic.Int64
	var resident, peak float64
	_, err := b.onGate("decisions", Served{}, func(p *process, _ string) error {
		conns := make([]*conn, clients)
		for i := range conns {
			var err error
			if conns[i], err = dial(p.socket); err != nil {
				return err
			}
			defer conns[i].Close()
		}
		end := now().Add(decisionTime)
		_, _, err := share(clients, b.size.decisions/jobSteps, func(client, k int) error {
			if now().After(end) {
				return nil
			}
			request, err := post("/v1/jobs", creates(k))
			if err == nil {
				_, err = conns[client].do(request)
				done.Add(jobSteps)
			}
			return err
		})
		if err != nil {
			return err
		}
		if peak, err = p.resident("VmHWM"); err == nil {
			resident, err = b.whenIdle(p)
		}
		return err
	})
	if err != nil {
		return err
	}
	b.addf(fmt.Sprintf("resident memory, after %d decisions", done.Load()), resident, mebibytes, 64,
		"%d wanted, for %.0f s at most, in jobs of %d steps; %.1f MiB at the most", b.size.decisions,
		decisionTime.Seconds(), jobSteps, peak)
	return nil
}

// decisionTime is how long the bench makes decisions at most before it measures the
// memory, and jobSteps how many of them are one job.
const (
	decisionTime = 30 * time.Second
	jobSteps     = 32
)

// creates is the k-th job of steps that make new guests.
func creates(k int) api.Submit {
	asks := make([]op.Ask, jobSteps)
	for i := range asks {
		asks[i] = op.Ask{Op: "guest.create", Target: op.Target{Kind: "guest", Name: guestName(k*jobSteps + i)},
			Params: op.Params{}}
	}
	return convert.SubmitOf("", asks...)
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
