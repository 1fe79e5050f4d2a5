package ha

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/postgres"
)

// suites is for make ledger ENGINE=pg.
var suites = flag.String("suites", "gated/internal/nonce", "which packages TestSuitesOnPostgreSQL tests")

// TestSuitesOnPostgreSQL runs suites that decide with a ledger in PostgreSQL below their stores: a primary that waits for
// its standby. Each of their tests ends with a replay in an empty store, which must have the same rows.
func TestSuitesOnPostgreSQL(t *testing.T) {
	pair := postgres.NewPair(t, "max_connections = 600") // each store of a test has two until the test ends
	c := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-timeout=2h", "-p=1", "-tags=ledgerpg"}, strings.Fields(*suites)...)...)
	c.Dir = "../../.." // a package may be named by its directory
	c.Env = append(os.Environ(), "GATED_TEST_LEDGER=pg:"+pair.First.DSN())
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	kept := pair.Second.Exec(t, `SELECT count(DISTINCT gate), count(*) FROM gated.groups`)[0]
	require.NotEqual(t, "0", kept[1], "no test had a ledger")
	t.Logf("%s ledgers with %s groups", kept[0], kept[1])
}
