package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// figureRow is a row whose figure a test prints.
type figureRow struct {
	figure, what string
	unit         unit
	budget       float64
	beside       string
}

// ofTests runs tests that print figures, in a size that is in an environment variable, and adds their rows. The tests need
// PostgreSQL.
func (b *bench) ofTests(pkg, tests, variable, size string, rows []figureRow) error {
	cmd := exec.CommandContext(b.ctx, "go", "test", "-count=1", "-timeout=5m", "-run=^("+tests+")$", "-v", pkg)
	if b.Small {
		size = ""
	}
	cmd.Env = append(os.Environ(), variable+"="+size)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s of %s: %w: %s", tests, pkg, err, out)
	}
	figures := figuresOf(out)
	for _, r := range rows {
		value, ok := figures[r.figure]
		if !ok {
			return fmt.Errorf("%s of %s print no figure %q: scripts/needs.sh installs what they need", tests, pkg, r.figure)
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
