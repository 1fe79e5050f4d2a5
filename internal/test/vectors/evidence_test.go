package vectors

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/evidencereader"
)

// evidenceCase is one that the product reads.
type evidenceCase struct{ EvidenceCase }

// read has scripts/verify-evidence.py verify the evidence, and the reader in Go. Both have to agree.
func (c *evidenceCase) read(t *testing.T) (any, error) {
	t.Helper()
	var args []string
	if c.GateKey != "" {
		args = append(args, "--gate-key", c.GateKey)
	}
	if c.Witness != "" {
		args = append(args, evidencereader.WitnessFile(t, c.Witness)...)
	}
	code, words := evidencereader.Verify(t, c.Evidence, args...)
	if code != 0 {
		require.Equal(t, 1, code, words)
		lines := strings.Split(strings.TrimSpace(words), "\n")
		return nil, refusal.New("", "%s", lines[len(lines)-1])
	}
	said := evidencereader.Said(words)
	require.Len(t, said, 1)
	return map[string]any{"step": said[0].Step, "end": said[0].End}, nil
}
