package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
	"gated/internal/wire/desired"
)

func (t *tool) planCommand() *cobra.Command {
	var from, set string
	c := t.Command(cli.Words{
		Use:   "plan -f FILE|DIR|- [--set NAME]",
		Short: "Show what desired state would change, and which steps wait for a signature",
		Long: `Changes nothing. A directory stands for every .yaml and .yml file in it, - for standard input. The set that
asks can decide whether a step waits. Each file is planned as the set of its base name unless --set says another.`,
		Example: "  gated plan -f guests.yaml",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if from == "" {
			return cli.Usage(wordsNoFile)
		}
		docs, err := t.documents(from, set)
		if err != nil {
			return err
		}
		return t.With(func(cl *client.Client) error {
			code := api.ExitDone
			for _, d := range docs {
				p, err := cl.Plan(c.Context(), d.asked(), d.body)
				if err != nil {
					return err
				}
				if err := t.showPlan(p); err != nil {
					return err
				}
				for _, g := range p.Guests {
					if g.Action == api.ActionError {
						code = api.ExitRefused
					}
				}
			}
			return cli.Ended(code)
		})
	})
	fileFlag(c, &from)
	t.setFlag(c, &set)
	return c
}

// setFlag adds --set, which completes with the sets that were put.
func (t *tool) setFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "set", "", flagSet)
	_ = c.RegisterFlagCompletionFunc("set", // the flag was just added
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return cli.CompleteList(&t.Tool, (*client.Client).Sets, func(s api.Set) string { return s.Name })
		})
}

// fileFlag adds -f.
func fileFlag(c *cobra.Command, to *string) {
	c.Flags().StringVarP(to, "file", "f", "", "the `FILE` or directory with desired state, - for standard input")
	_ = c.MarkFlagFilename("file", "yaml", "yml") // the flag was just added
}

// showPlan prints what a document would change: a guest a line, and below it
// why a step has to be signed.
func (t *tool) showPlan(p api.Plan) error {
	if t.JSON {
		return t.Emit(p)
	}
	var rows []string
	for _, g := range p.Guests {
		action := planWords[g.Action]
		if action == "" {
			action = g.Action
		}
		if g.Error != nil {
			rows = append(rows, cli.Row(g.Name, action, string(g.Error.Code)+": "+g.Error.Detail))
		} else if len(g.Steps) == 0 {
			rows = append(rows, cli.Row(g.Name, action, ""))
		}
		for _, s := range g.Steps {
			text := s.Op
			if p := shownParams(s.Params); p != "" {
				text += " " + p
			}
			if s.Class == op.Destructive {
				text += ": " + s.Why
			}
			rows = append(rows, cli.Row(g.Name, stepAction(g, s, action), text))
			if s.Class != op.Destructive && s.Op != "guest.create" {
				continue
			}
			for _, f := range s.Facts {
				rows = append(rows, "\t\t    "+op.Shown(f.Name)+": "+op.Shown(f.Text))
			}
		}
	}
	return t.Table(rows...)
}

// stepAction says of one step of several whether it waits; the guest's own
// action is that of the step that a reader has to know of first.
func stepAction(g api.PlannedGuest, s api.PlannedStep, action string) string {
	if g.Action == api.ActionWaits && s.Class != op.Destructive {
		return planWords[api.ActionChange]
	}
	return action
}

// planWords name the actions of a plan.
var planWords = map[string]string{
	api.ActionNone:   "as wished",
	api.ActionCreate: "create",
	api.ActionChange: "change",
	api.ActionWaits:  "waits for a signature",
	api.ActionError:  "ERROR",
}

// maxDocument is the largest desired-state document that a daemon takes, in
// bytes (protocol section 4).
const maxDocument = 16 << 20

// document is a desired-state document that was found well formed.
type document struct {
	path string
	set  string // the name of its set
	body []byte
	desired.Document
}

// documents reads what -f names: a file, every .yaml and .yml file of a
// directory, or "-" for standard input. All of them are checked here first, so
// that what is wrong is shown with its file, line and column, and so that a
// directory is taken whole or not at all.
func (t *tool) documents(from, set string) ([]document, error) {
	paths, err := documentPaths(from)
	if err != nil {
		return nil, err
	}
	if set != "" && len(paths) > 1 {
		return nil, cli.Usage("--set names one set, the directory has several files")
	}
	out := make([]document, 0, len(paths))
	for _, p := range paths {
		d := document{path: p, set: set}
		if d.set == "" {
			base := filepath.Base(p)
			d.set = strings.TrimSuffix(base, filepath.Ext(base))
		}
		if d.body, err = t.readDocument(p); err != nil {
			return nil, err
		}
		if d.Document, err = desired.Parse(p, d.body); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// asked is the set as which a plan is asked for: none where no set can have the
// name of the file, as with standard input.
func (d document) asked() string {
	if op.CheckName(d.set) != nil {
		return ""
	}
	return d.set
}

func documentPaths(from string) ([]string, error) {
	if from == "-" {
		return []string{from}, nil
	}
	info, err := os.Stat(from)
	if err != nil {
		return nil, cli.Usage(err.Error())
	}
	if !info.IsDir() {
		return []string{from}, nil
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, cli.Usage(err.Error())
	}
	var out []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (ext == ".yaml" || ext == ".yml") {
			out = append(out, filepath.Join(from, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, cli.Usage("the directory has no .yaml file")
	}
	slices.Sort(out)
	return out, nil
}

func (t *tool) readDocument(path string) ([]byte, error) {
	if path == "-" {
		return cli.Read(t.stdin, path, maxDocument)
	}
	return cli.ReadFile(path, maxDocument)
}

// applied is what became of one document.
type applied struct {
	Set     api.Set       `json:"set"`
	Plan    *api.Plan     `json:"plan"`    // what is left to do; null without --wait
	Waiting []string      `json:"waiting"` // requests that wait for a signature
	Failed  []failedGuest `json:"failed"`
}

type failedGuest struct {
	Target string    `json:"target"`
	Error  api.Error `json:"error"`
}

const wordsNoFile = "say with -f which file, directory or - (standard input)"

const flagSet = "the `NAME` of the set (default the file's base name)"

func (t *tool) applyCommand() *cobra.Command {
	var from, set string
	var wait bool
	c := t.Command(cli.Words{
		Use:   "apply -f FILE|DIR|- [--set NAME]",
		Short: "Put desired state as a named set",
		Long: `Each file becomes the set of its base name unless --set says another. With --wait, it ends when every guest
is as wished (0), when only signatures are missing (3), or when a step failed (1).`,
		Example: "  gated apply -f guests.yaml --wait",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if from == "" {
			return cli.Usage(wordsNoFile)
		}
		if from == "-" && set == "" {
			return cli.Usage("standard input has no name: say --set NAME")
		}
		docs, err := t.documents(from, set)
		if err != nil {
			return err
		}
		return t.With(func(cl *client.Client) error { return t.apply(c.Context(), cl, docs, wait) })
	})
	fileFlag(c, &from)
	t.setFlag(c, &set)
	c.Flags().BoolVar(&wait, "wait", false, "wait until everything is as wished or waits for a signature")
	return c
}

// apply puts every document before it waits for the first one, so that they are
// worked on together.
func (t *tool) apply(ctx context.Context, cl *client.Client, docs []document, wait bool) error {
	head, err := cl.AuditHead(ctx)
	if err != nil {
		return err
	}
	out := make([]applied, len(docs))
	for i, d := range docs {
		out[i] = applied{Waiting: []string{}, Failed: []failedGuest{}}
		if out[i].Set, err = cl.PutSet(ctx, d.set, "", d.body); err != nil {
			return err
		}
		if !t.JSON {
			t.Print("set %s: %s\n", op.Shown(out[i].Set.Name), cli.Count(len(d.Guests), "guest"))
		}
	}
	code := api.ExitDone
	for i, d := range docs {
		if wait {
			if err := t.settle(ctx, cl, d, head.Seq, &out[i]); err != nil {
				return err
			}
			code = worseExit(code, out[i].exit())
		}
		if err := t.showApplied(out[i]); err != nil {
			return err
		}
	}
	return cli.Ended(code)
}

func (a applied) exit() int {
	switch {
	case len(a.Failed) > 0:
		return api.ExitRefused
	case len(a.Waiting) > 0:
		return api.ExitWaits
	default:
		return api.ExitDone
	}
}

// worseExit prefers what was refused to what waits, and that to what is done.
func worseExit(a, b int) int {
	if a == api.ExitRefused || b == api.ExitDone {
		return a
	}
	return b
}

func (t *tool) showApplied(a applied) error {
	if t.JSON {
		if err := t.Emit(a); err != nil {
			return err
		}
	}
	for _, f := range a.Failed {
		t.Say("%s: %s", op.Shown(f.Target), cli.Why("", f.Error.Err()))
	}
	for _, id := range a.Waiting {
		t.Say("%s waits for a signature: opsign approve %s\n", op.Shown(id), op.Shown(id))
	}
	if !t.JSON && a.Plan != nil && a.exit() == api.ExitDone {
		t.Print("set %s: everything is as wished\n", op.Shown(a.Set.Name))
	}
	return nil
}
