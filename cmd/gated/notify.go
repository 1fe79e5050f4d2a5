package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/notify"
	"gated/internal/notify/outbox"
	"gated/internal/notify/settings"
	"gated/internal/notify/sink"
	"gated/internal/wire/cli"
)

func (t *tool) notifyCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "notify",
		Short:   "Tell people what waits for a signature, how it ended, and what is wrong",
		Example: "  gated notify test ops-chat",
	}, "say run, test, status, replay or check", t.notifyRunCommand(), t.notifyTestCommand(), t.notifyStatusCommand(),
		t.notifyReplayCommand(), t.notifyCheckCommand())
}

// notifyFile is the flag for the settings, and what reads them.
type notifyFile struct{ path string }

func (f *notifyFile) add(c *cobra.Command) {
	c.Flags().StringVar(&f.path, "config", "",
		"the settings `FILE` (default ~/.config/gated/notify.yaml if it exists, else /etc/gated/notify.yaml)")
	_ = c.MarkFlagFilename("config", "yaml") // the flag was just added
}

// load reads the settings, with the default for their state directory.
func (f *notifyFile) load(t *tool) (settings.Settings, error) {
	path := f.path
	if path == "" {
		path = settings.DefaultPath(t.Getenv)
	}
	s, err := settings.Load(path)
	if s.State == "" {
		s.State = settings.DefaultState(t.Getenv)
	}
	if err == nil && s.State == "" {
		err = refusal.New(refusal.BadParams, "there is no directory for what is not sent yet: neither XDG_STATE_HOME nor HOME is an absolute path").
			WithHint("say state in %s", path)
	}
	return s, err
}

func (t *tool) notifyRunCommand() *cobra.Command {
	var file notifyFile
	c := t.Command(cli.Words{
		Use:   "run",
		Short: "Follow the gate's events and send messages, in the foreground",
		Long: `A process of its own, with a uid of its own: it reads what every user who may connect can read, holds no key and
decides nothing. What is not sent yet is kept on disk and survives a kill. It logs to standard error.`,
		Example: "  gated notify run --config /etc/gated/notify.yaml",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) (err error) {
		s, err := file.load(t)
		if err != nil {
			return err
		}
		sinks, err := notify.OpenSinks(s)
		if err != nil {
			return err
		}
		o, err := t.Where()
		if err != nil {
			return err
		}
		if o.Socket == "" {
			o.Socket = s.Socket
		}
		cl, err := client.New(o)
		if err != nil {
			return err
		}
		defer cl.Close()
		unlock, err := notify.Lock(c.Context(), s.State)
		if err != nil {
			return err
		}
		defer unlock()
		logger := slog.New(slog.NewTextHandler(t.Stderr, nil))
		if t.JSON {
			logger = slog.New(slog.NewJSONHandler(t.Stderr, nil))
		}
		box, err := outbox.Open(c.Context(), notify.DatabaseIn(s.State), logger)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, box.Close()) }()
		return notify.New(notify.Options{Settings: s, Dir: s.State, Gate: cl, Logger: logger, Now: time.Now, Sinks: sinks, Outbox: box}).
			Run(c.Context())
	})
	file.add(c)
	return c
}

// sent is what gated notify test says with --json.
type sent struct {
	Sink   string `json:"sink"`
	ID     string `json:"id"`
	Taken  bool   `json:"taken"`
	Answer string `json:"answer"` // the receiver's, or why it did not take the message
}

func (t *tool) notifyTestCommand() *cobra.Command {
	var file notifyFile
	c := t.Command(cli.Words{
		Use:   "test SINK",
		Short: "Send one test message now, and print the receiver's answer",
		Long: `The message says that it is a test. It goes directly to the receiver, without the outbox and without a daemon.
Exits 1 if the receiver did not take it.`,
		Example: "  gated notify test ops-chat",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		s, err := file.load(t)
		if err != nil {
			return err
		}
		of := s.Find(args[0])
		if of == nil {
			return noSink(args[0])
		}
		to, err := sink.Open(*of)
		if err != nil {
			return err
		}
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		m := notify.TestMessage(*of, host, time.Now)
		answer, err := to.Send(c.Context(), m, time.Now())
		if err != nil {
			answer = err.Error()
		}
		switch {
		case t.JSON:
			if emit := t.Emit(sent{of.Name, m.ID, err == nil, answer}); emit != nil {
				return emit
			}
		case err == nil && answer == "":
			t.Print("the sink %s took it, and said nothing\n", of.Name)
		case err == nil:
			t.Print("the sink %s took it: %s\n", of.Name, cli.Inline(answer))
		default:
			t.Say("the sink %s did not take it: %s\n", of.Name, cli.Inline(answer))
		}
		if err != nil {
			return cli.Ended(api.ExitRefused)
		}
		return nil
	})
	file.add(c)
	c.ValidArgsFunction = file.complete(t)
	return c
}

// complete completes the names of sinks.
func (f *notifyFile) complete(t *tool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		s, err := f.load(t)
		if err != nil || len(args) > 0 {
			return nil, cli.NoFiles
		}
		var out []string
		for _, one := range s.Sinks {
			out = append(out, one.Name+"\t"+one.Type())
		}
		return out, cli.NoFiles
	}
}

func noSink(name string) error {
	return refusal.New(refusal.UnknownTarget, "the settings have no sink %s", cli.Quoted(name)).
		WithHint("gated notify check lists them")
}

// told is what gated notify check says with --json.
type told struct {
	Name       string    `json:"name"`
	Type       string    `json:"type"`
	Roles      []op.Role `json:"roles"`
	Principals []string  `json:"principals"`
	For        []string  `json:"for"`
	Alarms     bool      `json:"alarms"`
	Details    string    `json:"details"`
	EscalateTo string    `json:"escalate_to"`
}

func (t *tool) notifyCheckCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:   "check [FILE]",
		Short: "Check the settings and the files that they name, and say who is told what",
		Long:  "Sends nothing and asks no receiver: gated notify test does. No secret is printed.",
		Example: "  gated notify check\n" +
			"  gated notify check ./notify.yaml",
	}, cobra.MaximumNArgs(1), func(_ *cobra.Command, args []string) error {
		file := notifyFile{}
		if len(args) == 1 {
			file.path = args[0]
		}
		s, err := file.load(t)
		if err != nil {
			return err
		}
		if _, err := notify.OpenSinks(s); err != nil {
			return err
		}
		if err := s.CheckPrograms(); err != nil {
			return err
		}
		var sinks []told
		rows := []string{cli.Row("SINK", "TYPE", "ASKED AS", "TELLS", "ALARMS", "DETAILS", "THEN")}
		for _, one := range s.Sinks {
			d := told{one.Name, one.Type(), one.Roles, one.Principals, one.For, one.Alarms, string(one.Details), ""}
			then := ""
			if one.Escalate != nil {
				d.EscalateTo = one.Escalate.To
				then = fmt.Sprintf("%s after %s", one.Escalate.To, cli.Span(one.Escalate.After))
			}
			sinks = append(sinks, d)
			rows = append(rows, cli.Row(one.Name, one.Type(), joined(one.Roles, one.Principals), list(one.For), yesNo(one.Alarms),
				string(one.Details), then))
		}
		if t.JSON {
			return cli.Each(&t.Tool, nil, sinks...)
		}
		return t.Table(rows...)
	})
	c.ValidArgsFunction = nil // files
	return c
}

func joined(roles []op.Role, people []string) string {
	var all []string
	for _, r := range roles {
		all = append(all, string(r))
	}
	return list(append(all, people...))
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// noOutbox says what a missing outbox means.
func noOutbox(err error, dir string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return refusal.New(refusal.UnknownTarget, "there is no outbox in %s: gated notify never ran with these settings", op.Shown(dir)).
			WithHint("run it: gated notify run, or systemctl start gated-notify")
	}
	if errors.Is(err, fs.ErrPermission) {
		return refusal.New(refusal.NotAllowed, "the outbox in %s is another user's", op.Shown(dir)).
			WithHint("ask as that user: runuser -u gated-notify -- gated notify status")
	}
	return err
}
