package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// onTiny tries every mutant of testdata/tiny with a list of reviewed equivalents. It returns how many lines ask for work,
// and the report.
func onTiny(t *testing.T, reviewed ...string) (wrong int, report string) {
	t.Helper()
	list := filepath.Join(t.TempDir(), "list")
	require.NoError(t, os.WriteFile(list, []byte("# a comment\n"+strings.Join(reviewed, "\n")+"\n"), 0o600))
	var out strings.Builder
	c := config{root: "../../..", packages: []string{"./internal/test/mutants/testdata/tiny"}, size: 1000, equivalent: list, workers: 2, out: &out}
	return must.Get(c.run())(t), out.String()
}

// found returns the ids in the lines of a report that begin with a word.
func found(report, word string) (ids []string) {
	for _, m := range regexp.MustCompile(`(?m)^`+word+` +(\S+)`).FindAllStringSubmatch(report, -1) {
		ids = append(ids, strings.TrimSuffix(m[1], ":"))
	}
	slices.Sort(ids)
	return ids
}

// survivors are the mutants of tiny that its tests do not find.
var survivors = []string{
	"tiny.Class.boundary.2\tn > 100 => (n) >= (100)\t",
	"tiny.Total.remove.2\tnote(\"added\") => (nothing)\t",
	"tiny.Yes.bool.1\ttrue => false\t",
	"tiny.Yes.bool.2\tfalse => true\t",
	"tiny.Yes.case.1\t\"yes\" => string(\"\\x00no such case\")\t",
}

func TestSurvivorsAreReported(t *testing.T) {
	wrong, report := onTiny(t)
	var want []string
	for _, s := range survivors {
		id, rest, _ := strings.Cut(s, "\t")
		change, _, _ := strings.Cut(rest, "\t")
		want = append(want, id)
		require.Contains(t, report, change)
	}
	require.Equal(t, want, found(report, "SURVIVED"), report)
	require.Equal(t, len(want), wrong)
	require.Contains(t, report, "tiny.go:14\n")
}

// TestTheListIsHeldToItsWord: what is listed is no survivor, and a line that does not hold is an error.
func TestTheListIsHeldToItsWord(t *testing.T) {
	var reviewed []string
	for _, s := range survivors {
		reviewed = append(reviewed, s+"a reason")
	}
	wrong, report := onTiny(t, reviewed...)
	require.Zero(t, wrong, report)
	require.Contains(t, report, fmt.Sprintf("listed %2d, survived  0: 100.0 %%", len(survivors)))

	reviewed[0] = strings.Replace(reviewed[0], "n > 100", "n > 7", 1)
	reviewed = append(reviewed, "tiny.Total.remove.1\tsum += n => (nothing)\tit is killed", "tiny.Gone.bool.1\ttrue => false\tthe function is gone")
	wrong, report = onTiny(t, reviewed...)
	require.Equal(t, []string{"tiny.Class.boundary.2", "tiny.Gone.bool.1", "tiny.Total.remove.1"}, found(report, "STALE"), report)
	require.Equal(t, 3, wrong, report)
}

func TestAListThatCannotBeRead(t *testing.T) {
	for name, text := range map[string]string{"no reason": "a.b.bool.1\ttrue => false", "an empty reason": "a.b.bool.1\ttrue => false\t ",
		"twice": "a.b.bool.1\ttrue => false\tx\na.b.bool.1\ttrue => false\tx"} {
		list := filepath.Join(t.TempDir(), "list")
		require.NoError(t, os.WriteFile(list, []byte(text), 0o600))
		_, err := readReviewed(list)
		require.ErrorContains(t, err, list+":", name)
	}
	_, err := readReviewed(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestAChangeElsewhereLeavesTheSample: a new site takes the place of at most one.
func TestAChangeElsewhereLeavesTheSample(t *testing.T) {
	chosen := func(sites int) map[string]bool {
		u := &unit{}
		for i := range sites {
			u.sites = append(u.sites, &site{id: fmt.Sprintf("p.f%d.bool.1", i)})
		}
		ids := map[string]bool{}
		for _, s := range sample([]*unit{u}, 30) {
			ids[s.id] = true
		}
		require.Len(t, ids, 30)
		return ids
	}
	for n := range 50 {
		before, after := chosen(100+n), chosen(101+n)
		lost := 0
		for id := range before {
			if !after[id] {
				lost++
			}
		}
		require.LessOrEqual(t, lost, 1)
	}
}
