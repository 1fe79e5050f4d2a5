package main

import (
	"context"
	"encoding/csv"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gated/internal/base/op"
	"gated/internal/host/life"
	"gated/internal/log/evidence"
	"gated/internal/wire/cli"
)

// evidenceReport writes which steps ended, and how many by person, operation and target.
func (t *tool) evidenceReport(ctx context.Context, f evidenceFlags, since, until time.Time) error {
	if f.out != "" {
		return cli.Usage("--report goes to standard output: leave -o away")
	}
	steps, err := life.EvidenceReport(ctx, f.from, since, until)
	if err != nil {
		return err
	}
	if f.csv {
		return t.reportCSV(steps)
	}
	to := tabwriter.NewWriter(t.Stdout, 0, 0, 2, ' ', 0)
	say := func(cells ...string) {
		for i, c := range cells {
			cells[i] = cli.Inline(c)
		}
		_, _ = to.Write([]byte(strings.Join(cells, "\t") + "\n")) // Flush reports the error
	}
	say("STEP", "ENDED", "HOW", "OPERATION", "TARGET", "ASKED BY", "SIGNED BY")
	for _, s := range steps {
		say(s.ID.String(), s.Ended, s.End, s.Op, s.Target, s.By, strings.Join(signersOf(s), ", "))
	}
	people, ops, targets := map[string]int{}, map[string]int{}, map[string]int{}
	for _, s := range steps {
		ops[s.Op+" "+s.End]++
		targets[s.Target]++
		for _, who := range signersOf(s) {
			people[who+" "+s.End]++
		}
	}
	for _, group := range []struct {
		name   string
		counts map[string]int
	}{{"PERSON", people}, {"OPERATION", ops}, {"TARGET", targets}} {
		say()
		say(group.name, "STEPS")
		for _, name := range slices.Sorted(maps.Keys(group.counts)) {
			say(name, cli.Count(group.counts[name], "step"))
		}
	}
	return to.Flush()
}

// signersOf returns the principals, each once.
func signersOf(s evidence.Step) (out []string) {
	for _, words := range s.Signers {
		if who, _ := op.WhoSigned(words); !slices.Contains(out, who) {
			out = append(out, who)
		}
	}
	return out
}

func (t *tool) reportCSV(steps []evidence.Step) error {
	w := csv.NewWriter(t.Stdout)
	_ = w.Write([]string{"step", "asked", "decided", "ended", "how", "class", "operation", "target", "asked_by", "signed_by", "reason"}) // Error says it
	for _, s := range steps {
		row := []string{s.ID.String(), s.Asked, s.Decided, s.Ended, s.End, s.Class, s.Op, s.Target, s.By, strings.Join(signersOf(s), ";"), s.Reason}
		for i := range row {
			row[i] = cell(row[i])
		}
		_ = w.Write(row) // Error says it
	}
	w.Flush()
	return w.Error()
}

// cell keeps a spreadsheet from reading a requester's words as a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
