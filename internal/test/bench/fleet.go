package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// fleetHosts is how many hosts the simulated fleet has.
const fleetHosts = "10000"

// fleetRows are the figures of the fleet's test, with the row of each.
var fleetRows = []struct {
	figure, what string
	unit         unit
	budget       float64
	beside       string
}{
	{"limit", "limit: bare rows of 1,500 bytes in PostgreSQL, 16 connections", perSecond, 0, "each committed"},
	{"reports", "hub in PostgreSQL: reports, committed", perSecond, 1000, "10,000 hosts with 3 waiting requests, 2 hubs, 32 callers; each changes 2 requests"},
	{"first page p50", "  first page of 30,000 waiting requests, p50", milliseconds, 50, "10,000 hosts poll every 30 s meanwhile"},
	{"first page p99", "  first page, p99", milliseconds, 50, ""},
	{"first page p50 while all report", "  first page while reports come at the full rate, p50", milliseconds, 50, ""},
	{"memory of hub 1", "  resident memory of a hub, highest", mebibytes, 300, ""},
	{"acknowledged and lost", "  reports that were acknowledged and lost, one hub of two killed", pieces, 0, "none may be"},
}

// fleet runs the test that plays a fleet, in its full size, and reads its figures. The test needs PostgreSQL.
func (b *bench) fleet() error {
	cmd := exec.CommandContext(b.ctx, "go", "test", "-count=1", "-timeout=5m", "-run=^TestFleet$", "-v", "gated/internal/host/hub/hubpg")
	cmd.Env = append(os.Environ(), "GATED_FLEET="+fleetHosts)
	if b.Small {
		cmd.Env = append(os.Environ(), "GATED_FLEET=")
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("the simulated fleet: %w: %s", err, out)
	}
	figures := figuresOf(out)
	for _, r := range fleetRows {
		value, ok := figures[r.figure]
		if !ok {
			return fmt.Errorf("the simulated fleet has no figure %q: scripts/needs.sh installs what it needs", r.figure)
		}
		if r.unit == mebibytes {
			value /= 1024
		}
		b.addf(r.what, value, r.unit, r.budget, "%s", r.beside)
	}
	return nil
}

// figuresOf reads the lines "figure: NAME | VALUE | UNIT" of a test.
func figuresOf(out []byte) map[string]float64 {
	figures := map[string]float64{}
	for line := range bytes.Lines(out) {
		_, rest, found := strings.Cut(string(line), "figure: ")
		parts := strings.Split(rest, " | ")
		if !found || len(parts) != 3 {
			continue
		}
		if value, err := strconv.ParseFloat(parts[1], 64); err == nil {
			figures[parts[0]] = value
		}
	}
	return figures
}
