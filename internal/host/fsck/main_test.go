package fsck_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/host/fsck"
	"gated/internal/test/must"
)

// seen has the codes that the tests of this package had reported.
var seen = struct {
	sync.Mutex
	of map[fsck.Code]bool
}{of: map[fsck.Code]bool{}}

func note(r fsck.Report) {
	seen.Lock()
	defer seen.Unlock()
	for _, p := range r.Problems {
		seen.of[p.Code] = true
	}
}

// TestMain fails if every test ran and a code was never reported, because such a
// rule may be impossible to break.
func TestMain(m *testing.M) {
	code := m.Run()
	if flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" &&
		flag.Lookup("test.fuzz").Value.String() == "" && !testing.Short() && code == 0 {
		for c := range fsck.Codes() {
			if !seen.of[c] && c != fsck.CopyBound && c != fsck.LedgerRows { // the tests of daemon and life
				fmt.Println("no test breaks a database so that this is reported:", c)
				code = 1
			}
		}
	}
	os.Exit(code)
}

// TestEveryCodeIsWrittenDown: the page has the rules and codes, because programs
// rely on them.
func TestEveryCodeIsWrittenDown(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/formats/fsck.md"))(t)
	written := map[string]string{} // code → rule
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) == 4 && strings.HasPrefix(line, "| `") {
			for _, code := range strings.Fields(strings.ReplaceAll(cells[3], "`", "")) {
				written[code] = strings.Trim(cells[0], "`")
			}
		}
	}
	var want, got []string
	for code, rule := range fsck.Codes() {
		want = append(want, string(rule)+" "+string(code))
	}
	for code, rule := range written {
		got = append(got, rule+" "+code)
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
}
