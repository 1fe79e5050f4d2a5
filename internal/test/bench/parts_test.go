package bench

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// adds is a part that adds one row and then returns err.
func adds(what string, value float64, err error) func(*bench) error {
	return func(b *bench) error { b.table.add(row{what: what, value: value, unit: plain}); return err }
}

// runParts measures these parts instead of the real ones.
func runParts(t *testing.T, o Options, these ...part) (table, progress string, err error) {
	all := parts
	t.Cleanup(func() { parts = all })
	parts = these
	var out, said bytes.Buffer
	o.Dir, o.Out, o.Progress = t.TempDir(), &out, &said
	err = Run(t.Context(), o)
	return out.String(), said.String(), err
}

func TestAPartThatFailsStopsNoOtherPart(t *testing.T) {
	wrong, worse := errors.New("wrong"), errors.New("worse")
	table, progress, err := runParts(t, Options{},
		part{"limits", 1, adds("the machine", 1, wrong), false},
		part{"first", 2, adds("before the error", 1, worse), false},
		part{"second", 1, adds("a figure", 1, nil), false})
	require.ErrorIs(t, err, wrong)
	require.ErrorIs(t, err, worse)
	require.Equal(t, "limits: wrong\nfirst: worse", err.Error())
	require.Equal(t, "measuring: limits\n  limits took 0 s\nfailed: limits: wrong\n"+
		"measuring: first\n  first took 0 s\nfailed: first: worse\n"+
		"measuring: second\n  second took 0 s\nall of it took 0 s\n", regexp.MustCompile(`took \d+ s`).ReplaceAllString(progress, "took 0 s"))
	for _, what := range []string{"the machine", "before the error", "a figure"} {
		require.Contains(t, table, what)
	}
}

func TestAMissingFigureIsAnError(t *testing.T) {
	table, _, err := runParts(t, Options{},
		part{"limits", 2, adds("the machine", 1, nil), false},
		part{"first", 1, adds("divided by zero", math.Inf(1), nil), false},
		part{"second", 1, adds("a figure", 0, nil), false})
	require.EqualError(t, err, "limits: 1 of 2 figures are missing\nfirst: the figure of \"divided by zero\" is +Inf")
	require.Contains(t, table, "a figure")
}

func TestOnlyOnePart(t *testing.T) {
	limits := part{"limits", 1, adds("the machine", 1, nil), false}
	first, second := part{"first", 1, adds("one", 1, nil), false}, part{"second", 1, adds("two", 1, nil), false}
	table, _, err := runParts(t, Options{Only: "second"}, limits, first, second)
	require.NoError(t, err)
	require.Contains(t, table, "the machine")
	require.Contains(t, table, "two")
	require.NotContains(t, table, "one ")
	_, _, err = runParts(t, Options{Only: "third"}, limits, first)
	require.EqualError(t, err, `there is no part "third", but limits first`)
}

func TestAPartThatIsApart(t *testing.T) {
	limits, long := part{"limits", 1, adds("the machine", 1, nil), false}, part{"long", 1, adds("a figure", 1, nil), true}
	for _, c := range []struct {
		o    Options
		want bool
	}{{Options{}, false}, {Options{Only: "long"}, true}, {Options{Only: "limits"}, false}, {Options{Small: true}, true}} {
		table, _, err := runParts(t, c.o, limits, long)
		require.NoError(t, err)
		require.Equal(t, c.want, strings.Contains(table, "a figure"), c.o)
	}
}
