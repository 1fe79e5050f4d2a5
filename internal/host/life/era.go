package life

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gated/internal/host/state"
)

// eraName is the file that says which era of the ledger this state directory began last. It describes this host alone.
const eraName = "ledger.era"

// rememberEra writes which era this state directory began.
func rememberEra(dir string, era uint64) error {
	return state.ReplaceFile(filepath.Join(dir, eraName), []byte(strconv.FormatUint(era, 10)+"\n"))
}

// Began reports whether this state directory began that era of its ledger. While its lock is held, no other process has
// it, so nothing that was begun in that era is under way elsewhere.
func Began(dir string, era uint64) bool { return era > 0 && lastEra(dir) == era }

// lastEra is the era that this state directory began last, 0 if there is none.
func lastEra(dir string) uint64 {
	text, err := os.ReadFile(filepath.Join(dir, eraName))
	if err != nil {
		return 0
	}
	era, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return era
}
