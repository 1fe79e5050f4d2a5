package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// review is a line of the list: why a mutant that no test can kill does not matter.
type review struct {
	id, change, why string
	line            int
	used            bool
}

// readReviewed reads the list. Each line is an id, the change and the reason, with tabs between.
func readReviewed(path string) (map[string]*review, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out := map[string]*review{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if lines.Text() == "" || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		parts := strings.Split(lines.Text(), "\t")
		if len(parts) != 3 || strings.TrimSpace(parts[2]) == "" {
			return nil, fmt.Errorf("%s:%d: a line is an id, the change and the reason, with tabs between", path, n)
		}
		if out[parts[0]] != nil {
			return nil, fmt.Errorf("%s:%d: %s is there twice", path, n, parts[0])
		}
		out[parts[0]] = &review{id: parts[0], change: parts[1], why: parts[2], line: n}
	}
	return out, lines.Err()
}

// change is what the mutant does, on one line.
func (s *site) change() string {
	program, mutant := strings.Join(strings.Fields(s.old), " "), strings.Join(strings.Fields(s.new), " ")
	if mutant == "" {
		mutant = "(nothing)"
	}
	return program + " => " + mutant
}

// report prints survivors, lines of the list that no longer hold, and the counts. It returns how many of the first two
// there are. Of a part of the sample it cannot tell which lines of the list have no mutant.
func report(out io.Writer, units []*unit, verdicts []verdict, reviewed map[string]*review, part bool) (wrong int) {
	type count struct{ killed, listed, survived int }
	counts := map[string]*count{}
	for _, v := range verdicts {
		c := counts[v.pkg]
		if c == nil {
			c = &count{}
			counts[v.pkg] = c
		}
		r := reviewed[v.id]
		if r != nil {
			r.used = true
		}
		switch {
		case r != nil && r.change != v.change():
			fmt.Fprintf(out, "STALE    %s: line %d of the list is about another change; it is now\n         %s\n", v.id, r.line, v.change())
			wrong++
		case v.killed != "" && r == nil:
			c.killed++
		case v.killed != "":
			fmt.Fprintf(out, "STALE    %s: line %d of the list: tests kill it now: %s\n", v.id, r.line, v.killed)
			c.killed++
			wrong++
		case r != nil:
			c.listed++
		default:
			fmt.Fprintf(out, "SURVIVED %s\n         %s:%d\n         %s\n", v.id, v.file, v.line, v.change())
			c.survived++
			wrong++
		}
	}
	for _, r := range reviewed {
		if !r.used && !part {
			fmt.Fprintf(out, "STALE    %s: line %d of the list has no mutant in the sample\n", r.id, r.line)
			wrong++
		}
	}
	var all count
	line := func(name string, c count) {
		fmt.Fprintf(out, "mutants: %-24s killed %3d, listed %2d, survived %2d: %5.1f %% of what is not listed\n", name, c.killed, c.listed, c.survived,
			100*float64(c.killed)/float64(max(c.killed+c.survived, 1)))
	}
	for _, u := range units {
		if c := counts[u.path]; c != nil {
			line(strings.TrimPrefix(u.path, "./internal/"), *c)
			all.killed, all.listed, all.survived = all.killed+c.killed, all.listed+c.listed, all.survived+c.survived
		}
	}
	line("all", all)
	return wrong
}
