package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gated/internal/test/plant"
)

// What the programs under test find in their environment.
const (
	chosenEnv  = "GATED_MUTANT"         // the number of the mutant that is on
	reachedEnv = "GATED_MUTANT_REACHED" // the file that gets the number of each switch that is reached
)

// switches is added to each package that has mutants.
const switches = `package %s

import (
	"os"
	"strconv"
	"sync"
)

var gatedChosen, gatedReached = func() (int, *os.File) {
	n, _ := strconv.Atoi(os.Getenv(%q))
	f, err := os.OpenFile(os.Getenv(%q), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		f = nil
	}
	return n, f
}()

var gatedNoted sync.Map

func gatedMutant(n int) bool {
	if gatedReached != nil {
		if _, again := gatedNoted.LoadOrStore(n, true); !again {
			gatedReached.WriteString(strconv.Itoa(n) + "\n")
		}
	}
	return n == gatedChosen
}

func gatedPick[T any](n int, mutant, program T) T {
	if gatedMutant(n) {
		return mutant
	}
	return program
}
`

// overlay writes the changed files into dir, and the list of them that go build takes. Every mutant is compiled in, behind
// a switch.
func overlay(dir string, units []*unit, chosen []*site) (string, error) {
	texts := map[string]string{}
	for _, u := range units {
		for name, source := range u.sources {
			here := slices.Clone(chosen)
			here = slices.DeleteFunc(here, func(s *site) bool { return s.file != name })
			if len(here) == 0 {
				continue
			}
			// What contains another comes before it.
			slices.SortFunc(here, func(a, b *site) int { return cmp.Or(a.lo-b.lo, b.hi-a.hi, a.number-b.number) })
			texts[name] = rewrite(source, 0, len(source), here)
		}
		added := filepath.Join(filepath.Dir(u.GoFiles[0]), "gated_mutant_switches.go")
		texts[added] = fmt.Sprintf(switches, u.Name, chosenEnv, reachedEnv)
	}
	return plant.Overlay(dir, texts)
}

// rewrite returns the source between two offsets with the switches of the sites in it.
func rewrite(source []byte, lo, hi int, sites []*site) string {
	var out strings.Builder
	for len(sites) > 0 {
		s := sites[0]
		inside := 1
		for inside < len(sites) && sites[inside].lo < s.hi {
			inside++
		}
		out.Write(source[lo:s.lo])
		out.WriteString(s.behind(rewrite(source, s.lo, s.hi, sites[1:inside])))
		lo, sites = s.hi, sites[inside:]
	}
	out.Write(source[lo:hi])
	return out.String()
}

// behind returns the site with its mutant behind a switch. program is what stands there, with the switches inside it.
func (s *site) behind(program string) string {
	switch s.form {
	case boolean:
		return fmt.Sprintf("(gatedMutant(%d) && (%s) || !gatedMutant(%[1]d) && (%[3]s))", s.number, s.new, program)
	case value:
		return fmt.Sprintf("gatedPick[%s](%d, %s, %s)", s.typ, s.number, s.new, program)
	}
	if s.new == "" {
		return fmt.Sprintf("if !gatedMutant(%d) { %s }", s.number, program)
	}
	return fmt.Sprintf("if gatedMutant(%d) { %s }; %s", s.number, s.new, program)
}
