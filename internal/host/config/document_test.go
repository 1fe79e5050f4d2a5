package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/host/config"
	"gated/internal/test/must"
)

// TestTheDocumentsExamplesAreFiles keeps docs/formats/configuration.md true:
// each example there can be copied.
func TestTheDocumentsExamplesAreFiles(t *testing.T) {
	doc := must.Get(os.ReadFile("../../../docs/formats/configuration.md"))(t)
	rules := 0
	for _, block := range regexp.MustCompile(`(?m)(?:^    .*\n)+`).FindAllString(string(doc), -1) {
		src := strings.ReplaceAll("\n"+block, "\n    ", "\n")
		if !strings.Contains(src, "host: ") {
			src = "host: pve1" + src
		}
		c := must.Get(config.Parse("gated.yaml", []byte(strings.TrimPrefix(src, "\n"))))(t, src)
		require.NoError(t, c.Policy.Validate())
		rules += len(c.Policy.Rules)
	}
	require.Equal(t, 9, rules)
}

func TestTheDocumentHasEveryKeyOfARule(t *testing.T) {
	doc := must.Get(os.ReadFile("../../../docs/formats/configuration.md"))(t)
	for _, key := range []string{"op", "target", "labels", "role", "threshold", "touch", "cool_off", "window", "max_validity",
		"policy.roles", "policy.rules", "revocation_file"} {
		require.Contains(t, string(doc), "\n| `"+key+"` |")
	}
}
