package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"gated/internal/api"
	"gated/internal/client"
	"gated/internal/op"
)

// emit writes one JSON document as a line.
func (t *tool) emit(v any) error {
	b, err := api.Encode(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = t.stdout.Write(append(b, '\n'))
	return err
}

// say writes words for people beside the answer.
func (t *tool) say(format string, args ...any) { _, _ = fmt.Fprintf(t.stderr, format, args...) }

// print writes words for people that are the answer.
func (t *tool) print(format string, args ...any) { _, _ = fmt.Fprintf(t.stdout, format, args...) }

// table writes rows of tab-separated cells in columns.
func (t *tool) table(rows ...string) error {
	w := tabwriter.NewWriter(t.stdout, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		if _, err := fmt.Fprintln(w, r); err != nil {
			return err
		}
	}
	return w.Flush()
}

// row joins cells; those that are empty show as a dash.
func row(cells ...string) string {
	for i, c := range cells {
		if c == "" {
			cells[i] = "-"
		}
		cells[i] = op.Shown(cells[i])
	}
	return strings.Join(cells, "\t")
}

// failure is how a program sees why a command failed.
type failure struct {
	Error problem `json:"error"`
}

type problem struct {
	Code    op.Code  `json:"code"`
	Detail  string   `json:"detail"`
	Hint    string   `json:"hint,omitempty"`
	Stage   op.Stage `json:"stage,omitempty"`
	Request string   `json:"request,omitempty"`
	State   op.State `json:"state,omitempty"`
}

func failureOf(err error) failure {
	var gone *client.Unreachable
	if errors.As(err, &gone) {
		return failure{problem{Code: op.Unavailable, Detail: gone.Error()}}
	}
	p := api.ProblemOf(err)
	return failure{problem{Code: p.Code, Detail: p.Detail, Hint: p.Hint, Stage: p.Stage, Request: p.Request, State: p.State}}
}

// explain words how the command of that path failed. A refusal is "code:
// detail" and, on lines of its own, what to do.
func explain(path string, err error) string {
	var usage usageError
	var gone *client.Unreachable
	var r *op.Refusal
	switch {
	case errors.As(err, &usage):
		return fmt.Sprintf(wordsUsage, lines(usage.text), path)
	case errors.As(err, &gone):
		text := wordsUnreachable
		for _, a := range gone.Tried {
			text += fmt.Sprintf(wordsTried, op.Shown(a.Path), a.Err)
			if a.Hint != "" {
				text += fmt.Sprintf(wordsHint, lines(a.Hint))
			}
		}
		return text
	case errors.As(err, &r):
		text := fmt.Sprintf("%s: %s\n", op.Shown(string(r.Code)), lines(r.Detail))
		if r.Hint != "" {
			text += fmt.Sprintf(wordsHint, lines(r.Hint))
		}
		return text
	default:
		return fmt.Sprintf("%s: %s\n", op.Internal, lines(err.Error()))
	}
}

// lines makes text safe to print line by line. Lines after the first are
// indented, so that none can pass for one of ours.
func lines(s string) string {
	parts := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, p := range parts {
		parts[i] = op.Shown(p)
	}
	return strings.Join(parts, "\n    ")
}
