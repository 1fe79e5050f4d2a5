// Package cli is what the command line tools have in common: the flags that
// every command takes, answers for people and for programs, refusals with their
// exit codes, and completion. What a tool is for is none of its business, nor
// are the words for that.
package cli

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/hostgate"
)

// Tool is one run of a command line. Answers go to Stdout; what is said beside
// them (warnings, what to do next, refusals) goes to Stderr. With JSON Stdout
// has JSON only, one document a line.
type Tool struct {
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	ReadToken      func(path string) (string, error) // of tools that agents call (client.Options)

	JSON   bool   // --json
	Socket string // --socket
	Remote string // --remote, of tools that reach gates of other hosts

	remotes bool                   // such a tool
	named   func(flag string) bool // whether a flag was given, if only as ""
	started bool                   // the command line was understood, a command runs
}

// Words are the help text of a command.
type Words struct{ Use, Short, Long, Example string }

// Root returns the command that has all others. It has the flags that every
// command takes.
func (t *Tool) Root(w Words, commands ...*cobra.Command) *cobra.Command {
	root := t.Group(w, "a command is missing", commands...)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.DisableSuggestions = true
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		var text strings.Builder
		c.SetOut(&text)
		help(c, args)
		c.SetOut(t.Stdout)
		t.Print("%s", helpIn(text.String(), Width(t.Stdout)))
	})
	root.PersistentFlags().BoolVar(&t.JSON, "json", false, "answer with JSON on standard output, one document a line")
	root.PersistentFlags().StringVar(&t.Socket, "socket", "", "the daemon's `PATH`")
	t.named = root.PersistentFlags().Changed
	return root
}

// helpIn lays the text of a help out in so many columns, 0 for as it is: paragraphs are filled, and what goes on from a line of
// a list stands below its last column. A command stays in one line, because half of it may be a command, too.
func helpIn(text string, cols int) string {
	if cols == 0 {
		return text
	}
	var out []string
	filled := false // the line before is of a paragraph
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		ours := line != "" && line[0] != ' '
		if ours && filled {
			out[len(out)-1] += " " + line
		} else {
			out = append(out, line)
		}
		filled = ours
	}
	var b strings.Builder
	for _, line := range out {
		cont := listItem().FindString(line)
		if strings.HasPrefix(line[len(cont):], "#") { // a command with a comment
			cont = ""
		}
		if cont == "" && strings.HasPrefix(line, " ") {
			b.WriteString(line + "\n")
			continue
		}
		if len(cont) > cols/2 {
			cont = "      "
		}
		for _, part := range Hanging(line, cols, strings.Repeat(" ", len(cont))) {
			b.WriteString(strings.TrimRight(part, " ") + "\n")
		}
	}
	return b.String()
}

// listItem is what stands before the words of an item of a list: its name, and the blanks around that.
var listItem = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^ +\S.*?  +`) })

// Headings has the help text of a command list those below it, which name one of the headings as their group, under these, and
// what cobra adds after them. The order of the commands stays.
func Headings(c *cobra.Command, headings ...string) {
	cobra.EnableCommandSorting = false
	const others = "Others:"
	for _, h := range append(headings, others) {
		c.AddGroup(&cobra.Group{ID: h, Title: h})
	}
	c.SetHelpCommandGroupID(others)
	c.SetCompletionCommandGroupID(others)
}

// Group returns a command that does nothing but have others. Alone it is a
// usage error with the text missing; the root shows its help in the place of that.
func (t *Tool) Group(w Words, missing string, commands ...*cobra.Command) *cobra.Command {
	// Without a rule for arguments, an unknown command is called that.
	c := t.Command(w, nil, func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Misspelt(c, args[0])
		}
		if !c.HasParent() && !t.JSON {
			return errors.Join(c.Help(), Ended(api.ExitUsage))
		}
		return Usage(missing)
	})
	c.AddCommand(commands...)
	return c
}

// Command returns a command with its words. Only what fails before run is
// called is a usage error, unless run returns one.
func (t *Tool) Command(w Words, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{
		Use: w.Use, Short: w.Short, Long: w.Long, Example: w.Example, Args: args,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			t.started = true
			return run(c, args)
		},
	}
}

// Asking is Command for one that needs a client of the daemon before anything else.
func (t *Tool) Asking(w Words, args cobra.PositionalArgs,
	run func(*cobra.Command, *client.Client, []string) error) *cobra.Command {
	return t.Command(w, args, func(c *cobra.Command, args []string) error {
		return t.With(func(cl *client.Client) error { return run(c, cl, args) })
	})
}

// Run runs a command line and returns its exit code (protocol section 6).
func (t *Tool) Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetOut(t.Stdout)
	root.SetErr(t.Stderr)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) { // also the one without descriptions
		noFilesForText(root)
	}
	c, err := root.ExecuteContextC(ctx)
	if err != nil && !t.started {
		err = misused(c, err)
	}
	return t.Fail(c.CommandPath(), err)
}

// Remotes gives every command of a tree the flag for a gate of another host.
func (t *Tool) Remotes(root *cobra.Command) {
	t.remotes = true
	root.PersistentFlags().StringVarP(&t.Remote, "remote", "H", "",
		"the gate of another host, `ssh://[USER@]HOST[:PORT][/PATH]`, through the system's ssh")
	_ = root.RegisterFlagCompletionFunc("remote", cobra.NoFileCompletions) // the flag was just added
}

// Renamed has a command take a flag also under the name that it had in earlier versions.
func Renamed(c *cobra.Command, old, now string) {
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == old {
			name = now
		}
		return pflag.NormalizedName(name)
	})
}

// Where returns where the gate is that the flags and the environment name:
// --remote or --socket, else GATED_HOST or GATED_SOCKET, else what a client
// searches. It is a usage error to name two, and a flag that is empty, as of a
// variable that is not set: to go on to some other gate would sign for another
// one than was meant.
func (t *Tool) Where() (client.Options, error) {
	o := client.Options{Socket: t.Socket, Remote: t.Remote, Getenv: t.Getenv, ReadToken: t.ReadToken}
	switch {
	case t.given("remote") && o.Remote == "":
		return o, Usage(
			"--remote is empty: name the gate's host, ssh://HOST, or leave the flag away for the gate of this host")
	case t.given("socket") && o.Socket == "":
		return o, Usage("--socket is empty: name the daemon's path, or leave the flag away")
	case o.Socket != "" && o.Remote != "":
		return o, Usage("--remote and --socket each name a gate: say one")
	case !t.remotes || o.Socket != "" || o.Remote != "":
		return o, nil
	}
	o.Remote = t.Getenv("GATED_HOST")
	if o.Remote != "" && t.Getenv("GATED_SOCKET") != "" {
		return o, Usage("GATED_HOST and GATED_SOCKET each name a gate: unset one, or say which with --remote or --socket")
	}
	return o, nil
}

func (t *Tool) given(flag string) bool { return t.named != nil && t.named(flag) }

// Client returns a client of the daemon that the flags and the environment name. If they name several, with commas
// between them, it is the member that decides. Errors are those of Where and of client.New.
func (t *Tool) Client() (*client.Client, error) {
	o, err := t.Where()
	if err != nil {
		return nil, err
	}
	o = active(context.Background(), members(o))
	o.Lost = func() { t.Say("note: the daemon went away; it is waited for, half a minute at most\n") }
	o.Back = func() { t.Say("note: the daemon is back\n") }
	if !t.JSON { // also without a terminal: what a job of cron's prints is read by people
		o.Slow = func(socket string) { t.slow(hostgate.Host{}, socket) }
	}
	return client.New(o)
}

// With calls use with a client, see Client, and closes it after that.
func (t *Tool) With(use func(*client.Client) error) error {
	cl, err := t.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	return use(cl)
}

// slow says that the host's own gate does not answer, and what says why. Of another gate this program knows no unit.
func (t *Tool) slow(h hostgate.Host, socket string) {
	if socket != client.SystemSocket {
		return
	}
	t.Say("note: connected; the daemon does not answer yet\n")
	if why := h.LookWhy(); why != "" {
		t.Say("  %s\n", strings.ReplaceAll(why, "\n", "\n  "))
	}
}
