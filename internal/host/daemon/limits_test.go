package daemon

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/host/server"
	"gated/internal/reconcile"
	"gated/internal/test/must"
)

// sources calls fn with every Go file of the module.
func sources(t *testing.T, fn func(path, text string)) {
	t.Helper()
	for _, top := range []string{"../..", "../../../cmd", "../../../client"} {
		require.NoError(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			fn(path, string(text))
			return err
		}))
	}
}

// Each test that the page of limits names is there.
func TestTheLimitsPageNamesTests(t *testing.T) {
	page := must.Get(os.ReadFile("../../../docs/design/limits.md"))(t)
	have := map[string]bool{}
	sources(t, func(path, text string) {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(text, -1) {
			have[m[1]] = true
		}
	})
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(named), 40)
	for _, m := range named {
		require.True(t, have[m[1]], "there is no %s", m[1])
	}
}

// The parts of a stop fit into the whole, and that into what systemd waits.
func TestTheStopFits(t *testing.T) {
	require.Less(t, server.DefaultLimits().Drain, stopDeadline)
	require.Less(t, reconcile.DefaultStopGrace, doubtDeadline)
	require.Less(t, doubtDeadline, stopDeadline)
	require.Less(t, stopDeadline, 90*time.Second)
}

// The unit bounds the daemon's own memory and not that of guests, which live in
// its cgroup; and nothing in the program overrides what it sets.
func TestTheUnit(t *testing.T) {
	unit := must.Get(os.ReadFile("../../../contrib/systemd/gated.service"))(t)
	require.Regexp(t, `(?m)^Environment=GOMEMLIMIT=\d+MiB$`, string(unit))
	require.NotRegexp(t, `(?m)^Memory(Max|High)=`, string(unit))
	require.NotRegexp(t, `(?m)^TimeoutStopSec=`, string(unit), "the default is long enough")
	sources(t, func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") {
			require.NotContains(t, text, "SetMemory"+"Limit", path)
		}
	})
}
