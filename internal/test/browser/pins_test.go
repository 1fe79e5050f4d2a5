package browser

import (
	"regexp"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// TestPins checks that npm can install no other bytes of axe-core than those that were tried,
// and that the lock names no registry.
func TestPins(t *testing.T) {
	t.Parallel()
	var wanted struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	require.NoError(t, json.Unmarshal(must.Get(pins.ReadFile("testdata/axe/package.json"))(t), &wanted))
	require.Len(t, wanted.Dependencies, 1)
	version := wanted.Dependencies["axe-core"]
	require.Regexp(t, regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`), version)
	var lock struct {
		Packages map[string]struct {
			Version   string `json:"version"`
			Integrity string `json:"integrity"`
			Resolved  string `json:"resolved"`
		} `json:"packages"`
	}
	require.NoError(t, json.Unmarshal(must.Get(pins.ReadFile("testdata/axe/package-lock.json"))(t), &lock))
	require.Len(t, lock.Packages, 2, "the list itself, and axe-core")
	axe := lock.Packages["node_modules/axe-core"]
	require.Equal(t, version, axe.Version)
	require.NotEmpty(t, axe.Integrity)
	require.Empty(t, axe.Resolved)
}
