package life

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gated/internal/host/state"
	"gated/internal/nonce"
)

// eraName is the file that says which era of the ledger this state directory began last. It describes this host alone.
const eraName = "ledger.era"

// RememberEra writes that this state directory began an era, and that nothing is under way elsewhere from before it. So it
// is called late: after a member before can act no more, and after the end of what that member began is known.
func RememberEra(dir string, era uint64) error {
	return state.ReplaceFile(filepath.Join(dir, eraName), []byte(eraText(era)+"\n"))
}

// eraText names the era and this boot of the machine, because a copy of the whole machine has the file, too.
func eraText(era uint64) string { return strconv.FormatUint(era, 10) + " " + nonce.System().Boot }

// Began reports whether this state directory began that era of its ledger since the machine was booted. While its lock is
// held, no other process has it, so nothing that was begun in that era or before is under way elsewhere.
func Began(dir string, era uint64) bool {
	text, err := os.ReadFile(filepath.Join(dir, eraName))
	return err == nil && era > 0 && strings.TrimSpace(string(text)) == strings.TrimSpace(eraText(era))
}

// lastEra is the era that this state directory began last, also before the machine was booted; 0 if there is none.
func lastEra(dir string) uint64 {
	text, err := os.ReadFile(filepath.Join(dir, eraName))
	if err != nil {
		return 0
	}
	number, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	era, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0
	}
	return era
}
