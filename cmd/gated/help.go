package main

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"gated/docs"
	"gated/internal/wire/cli"
)

// term is one entry of docs/concepts.md.
type term struct {
	Topic string   `json:"topic"` // the heading that it stands below
	Names []string `json:"names"`
	Text  string   `json:"text"` // begins with the names
}

const wordsTopics = `gated help WORD explains a word. What belongs together is below gate, target, data, request, rule, signature, signer,
reservation and records.`

func (t *tool) helpCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:     "help [COMMAND|WORD]",
		Short:   "Explain a command, or a word such as gate, incarnation or role",
		Long:    wordsTopics + " The words are those of gated docs concepts.",
		Example: "  gated help submit\n  gated help incarnation",
	}, nil, func(c *cobra.Command, args []string) error { return t.help(c.Root(), args) })
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) (out []string, _ cobra.ShellCompDirective) {
		if len(args) == 0 {
			out = wordsOfHelp(c.Root(), glossary())
		}
		return out, cli.NoFiles
	}
	return c
}

// help explains a topic, else a command, else a term.
func (t *tool) help(root *cobra.Command, args []string) error {
	word, terms := strings.ToLower(strings.Join(args, " ")), glossary()
	found, rest, err := root.Find(args)
	command := err == nil && found != root
	below := slices.DeleteFunc(slices.Clone(terms), func(e term) bool { return e.Topic != word })
	named := slices.DeleteFunc(slices.Clone(terms), func(e term) bool {
		return !slices.ContainsFunc(e.Names, func(n string) bool { return strings.HasPrefix(strings.ToLower(n)+" ", word+" ") })
	})
	switch {
	case len(args) == 0:
		return root.Help()
	case len(below) > 0 && command:
		return t.explain(below, found.CommandPath()+" --help shows the commands; gated docs concepts has all words")
	case len(below) > 0:
		return t.explain(below, "gated docs concepts has all words")
	case command && len(rest) > 0 && found.HasSubCommands():
		return cli.Misspelt(found, rest[0])
	case command:
		found.InitDefaultHelpFlag()
		return found.Help()
	case len(named) > 0:
		return t.explain(named, "gated help "+named[0].Topic+" has what goes with it")
	}
	return cli.Misspelt(root, word, wordsOfHelp(root, terms)...)
}

// explain prints terms, and where more is.
func (t *tool) explain(terms []term, more string) error {
	if t.JSON {
		return cli.Each(&t.Tool, nil, terms...)
	}
	for _, e := range terms {
		t.Print("%s\n", strings.Join(cli.Hanging(e.Text, 78, "    "), "\n"))
	}
	t.Print("%s\n", more)
	return nil
}

var (
	linkInDocs  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`) })
	marksInDocs = strings.NewReplacer("**", "", "`", "")
)

// glossary returns the terms of docs/concepts.md: the items of the sections that have nothing else.
func glossary() (out []term) {
	page, _ := fs.ReadFile(docs.Pages, "concepts.md") // it is part of the program
	for section := range strings.SplitSeq(string(page), "\n## ") {
		topic, body, _ := strings.Cut(section, "\n")
		if !strings.HasPrefix(body, "\n- **") {
			continue
		}
		for _, item := range strings.Split(body, "\n- ")[1:] {
			text := marksInDocs.Replace(linkInDocs().ReplaceAllString(strings.Join(strings.Fields(item), " "), "$1"))
			names, _, _ := strings.Cut(text, ": ")
			out = append(out, term{Topic: strings.ToLower(topic), Names: strings.Split(names, ", "), Text: text})
		}
	}
	return out
}

// wordsOfHelp returns what gated help explains, without the commands of the program, which are in its tree.
func wordsOfHelp(root *cobra.Command, terms []term) (out []string) {
	for _, e := range terms {
		out = append(append(out, e.Topic), e.Names...)
	}
	for _, c := range root.Commands() {
		if !c.Hidden {
			out = append(out, c.Name())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
