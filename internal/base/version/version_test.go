package version

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/semver"
)

func TestSay(t *testing.T) {
	found := func(revision, modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}}
	}
	for _, c := range []struct {
		tag, commit string
		info        *debug.BuildInfo
		want        string
	}{
		{"", "", nil, "0.3.0-dev"},
		{"", "b964778c1234", nil, "0.3.0-dev+b964778c1234"},
		{"", "b964778c1234.dirty", nil, "0.3.0-dev+b964778c1234.dirty"},
		{"v0.3.0", "b964778c1234", nil, "0.3.0+b964778c1234"},
		{"v0.3.0-rc.1", "b964778c1234", nil, "0.3.0-rc.1+b964778c1234"},
		{"", "", found("b964778c12345678", "false"), "0.3.0-dev+b964778c1234"},
		{"", "", found("b964778c12345678", "true"), "0.3.0-dev+b964778c1234.dirty"},
		{"", "b964778c1234", found("aaaaaaaaaaaaaaaa", "true"), "0.3.0-dev+b964778c1234"},
		{"", "", found("short", "false"), "0.3.0-dev+short"},
	} {
		got := say("0.3.0\n", c.tag, c.commit, c.info)
		require.Equal(t, c.want, got)
		require.True(t, semver.IsValid("v"+got), got)
	}
}

func TestStringIsASemanticVersion(t *testing.T) {
	require.True(t, semver.IsValid("v"+String()), String())
}

var (
	heading  = regexp.MustCompile(`(?m)^## (.*)$`)
	released = regexp.MustCompile(`^(\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$`)
)

// The changelog's newest release is the number of this tree, or an earlier one while
// changes wait under Unreleased.
func TestTheChangelogAgrees(t *testing.T) {
	page, err := os.ReadFile("../../../CHANGELOG.md")
	require.NoError(t, err)
	parts := heading.Split(string(page), -1)
	heads := heading.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, heads)
	require.Equal(t, "Unreleased", heads[0][1], "the first section of CHANGELOG.md")
	waits := strings.TrimSpace(parts[1]) != ""
	v := "v" + strings.TrimSpace(number)
	require.Regexp(t, `^v\d+\.\d+\.\d+$`, v)
	if len(heads) == 1 {
		require.True(t, waits, "CHANGELOG.md says nothing about %s", v)
		return
	}
	m := released.FindStringSubmatch(heads[1][1])
	require.NotNil(t, m, "CHANGELOG.md: %q is not `NUMBER - YYYY-MM-DD`", heads[1][1])
	want := 0 // the release itself
	if waits {
		want = 1
	}
	require.Equal(t, want, semver.Compare(v, "v"+m[1]), "NUMBER %s after the release of %s", v, m[1])
}
