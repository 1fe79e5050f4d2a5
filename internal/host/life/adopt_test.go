package life

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// The daemon's own uid may replace the signers only where agents have it too.
func TestOnlyRootReplacesTheSigners(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "gated.yaml")
	may := func(uid int) error { _, err := mayChange(dir, uid); return err }
	refused := func(err error, says string) {
		t.Helper()
		require.ErrorIs(t, err, refusal.NotAllowed)
		require.Contains(t, refusal.As(err).Sentence(), says)
	}
	require.NoError(t, os.WriteFile(conf, []byte("host: pve1\nsingle_user: false\n"), 0o600))
	uid := os.Geteuid()
	require.NoError(t, may(0))
	if uid == 0 { // so that there is another owner than root
		uid = 12345
		require.NoError(t, os.Chown(dir, uid, -1))
		defer func() { require.NoError(t, os.Chown(dir, 0, -1)) }()
	}
	refused(may(uid), "gated trust rotate")
	refused(may(uid+1), "root")
	require.NoError(t, os.WriteFile(conf, []byte("host: pve1\nsingle_user: true\n"), 0o600))
	require.NoError(t, may(uid))
	refused(may(uid+1), "root")
	require.NoError(t, may(0))
}
