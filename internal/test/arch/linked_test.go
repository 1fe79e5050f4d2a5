package arch_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// linked returns what the test program of each package links: all packages, of other modules, too.
func linked(t *testing.T) map[string][]string {
	cmd := exec.Command("go", "list", "-test", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")
	cmd.Dir = "../../.."
	all := map[string][]string{}
	for line := range strings.Lines(string(must.Get(cmd.Output())(t))) {
		words := strings.Fields(line)
		if name, test := strings.CutSuffix(words[0], ".test"); test {
			all[strings.TrimPrefix(strings.TrimPrefix(name, "gated/"), "internal/")] = words[1:]
		}
	}
	return all
}

// retested returns the packages that a change of one tests again.
func retested(all map[string][]string, changed string) (out []string) {
	for name, deps := range all {
		if slices.Contains(deps, "gated/internal/"+changed) {
			out = append(out, name)
		}
	}
	return out
}

// The tests of what decides are run with each change of what they link. So they link no PostgreSQL, no reservations, no back
// end of a machine, and a change of one of these tests few packages again.
func TestWhatTestsLink(t *testing.T) {
	all := linked(t)
	require.Greater(t, len(all), 60)
	for _, name := range []string{"authz", "classify", "nonce", "gate", "log/journal", "log/audit"} {
		require.NotEmpty(t, all[name], name)
		for _, d := range all[name] {
			for _, never := range []string{"github.com/jackc/", "gated/internal/ledger/pg", "gated/internal/agents/", "gated/internal/driver/local",
				"gated/internal/driver/libvirt", "gated/internal/host/daemon", "github.com/digitalocean/"} {
				require.False(t, strings.HasPrefix(d, never), "the tests of %s link %s", name, d)
			}
		}
	}
	for changed, most := range map[string]int{"ledger/pg": 22, "agents/reserve": 22, "agents/glob": 23} {
		again := retested(all, changed)
		require.NotEmpty(t, again, changed)
		require.LessOrEqual(t, len(again), most, "a change of %s tests %v again", changed, again)
	}
}
