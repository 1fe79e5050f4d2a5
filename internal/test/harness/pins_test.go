package harness_test

import (
	"regexp"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// exact matches one version; a range would install another product tomorrow.
var exact = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)

// pinnedVersions are the versions of package.json, by the name of a package.
func pinnedVersions(t *testing.T) map[string]string {
	var wanted struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	require.NoError(t, json.Unmarshal(must.Get(pin("package.json"))(t), &wanted))
	return wanted.Dependencies
}

// TestPins checks that npm can install no other bytes than those that were tried, and that the lock names no registry.
func TestPins(t *testing.T) {
	var lock struct {
		Packages map[string]struct {
			Version   string `json:"version"`
			Integrity string `json:"integrity"`
			Resolved  string `json:"resolved"`
		} `json:"packages"`
	}
	require.NoError(t, json.Unmarshal(must.Get(pin("package-lock.json"))(t), &lock))
	versions := pinnedVersions(t)
	require.NotEmpty(t, versions)
	for name, version := range versions {
		require.Regexp(t, exact, version, name)
		require.Equal(t, version, lock.Packages["node_modules/"+name].Version, name)
	}
	for name, p := range lock.Packages {
		if name != "" { // the list itself
			require.NotEmpty(t, p.Integrity, name)
		}
		require.Empty(t, p.Resolved, name)
	}
}
