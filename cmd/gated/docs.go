package main

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/docs"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// page is one page of the documentation.
type page struct {
	Page  string `json:"page"` // guides/runbook
	Title string `json:"title"`
	Text  string `json:"text,omitempty"` // Markdown; empty in a list
}

func (t *tool) docsCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:   "docs [PAGE]",
		Short: "List the pages of documentation that this program has, or print one",
		Long: `Messages name pages as gated docs PAGE. A page may be named without its directory: gated docs runbook. It is
Markdown. The program has the pages of its own version, and needs no daemon and no network.`,
		Example: "  gated docs\n" +
			"  gated docs runbook",
	}, cobra.MaximumNArgs(1), func(_ *cobra.Command, args []string) error {
		all, err := pages()
		if err != nil {
			return err
		}
		if len(args) > 0 {
			return t.printPage(all, args[0])
		}
		var rows []string
		for _, p := range all {
			if p.Text = ""; !t.JSON {
				rows = append(rows, cli.Row(p.Page, p.Title))
			} else if err := t.Emit(p); err != nil {
				return err
			}
		}
		return t.Table(rows...)
	})
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) (out []string, _ cobra.ShellCompDirective) {
		if all, err := pages(); err == nil && len(args) == 0 {
			for _, p := range all {
				out = append(out, p.Page+"\t"+p.Title)
			}
		}
		return out, cli.NoFiles
	}
	return c
}

// pages returns every page, sorted by directory and name. The guides come first.
func pages() ([]page, error) {
	var out []page
	err := fs.WalkDir(docs.Pages, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(docs.Pages, file)
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		out = append(out, page{Page: strings.TrimSuffix(file, ".md"), Title: title, Text: string(text)})
		return err
	})
	slices.SortStableFunc(out, func(a, b page) int { return rank(a) - rank(b) })
	return out, err
}

func rank(p page) int {
	return slices.Index([]string{"guides", "formats", "reference", "."}, path.Dir(p.Page))
}

// printPage prints the page of a name. Of pages in several directories with that name, it is the guide.
func (t *tool) printPage(all []page, name string) error {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "docs/"), ".md")
	i := slices.IndexFunc(all, func(p page) bool { return p.Page == name || path.Base(p.Page) == name })
	if i < 0 {
		return refusal.New(refusal.UnknownTarget, "there is no page %.80q", name).WithHint("see the list of them: gated docs")
	}
	return t.Answer(all[i], "%s", all[i].Text)
}
