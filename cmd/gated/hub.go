package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/host/hub/hubpg"
	"gated/internal/host/hub/hubserver"
	"gated/internal/wire/cli"
)

// listening is what the hub says with --json when it is ready.
type listening struct {
	URL   string `json:"url"`
	Dir   string `json:"dir"` // empty with PostgreSQL
	Hosts int    `json:"hosts"`
}

// hubLine is the command line of the hub.
type hubLine struct {
	hubserver.Config
	postgres string
}

func (t *tool) hubCommand() *cobra.Command {
	var l hubLine
	c := t.Command(cli.Words{
		Use:   "hub",
		Short: "Serve desired state and signed operations to gates, and show what they report",
		Long: `The reference hub. DIR/HOST/*.yaml are the sets of the gate of that host. DIR/HOST/operations/NAME.json and
NAME.json.sig are what opsign sign wrote for it. The hub reads DIR and writes nothing. It keeps reports in memory and
shows them on the page /. With --postgres, everything is in PostgreSQL instead: gated hub create makes the tables, gated
hub load reads a directory into them, and any number of hubs serve them. An address that other hosts can reach needs a
certificate and a token. The hub serves a file one second after its last change. It logs to standard error.`,
		Example: "  gated hub --dir hub.d\n" +
			"  gated hub --dir hub.d --listen 192.0.2.7:8442 --cert hub.crt --key hub.key --token-file token\n" +
			"  gated hub --postgres 'host=db1,db2 user=hub dbname=gatedhub' --token-file token --reader-token-file readers",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		switch {
		case (l.Dir == "") == (l.postgres == ""):
			return cli.Usage("say one: --dir, the directory to serve, or --postgres, the database")
		case (l.Cert == "") != (l.Key == ""):
			return cli.Usage("--cert and --key belong together")
		}
		return t.hub(c.Context(), l)
	})
	f := c.Flags()
	f.StringVar(&l.Dir, "dir", "", "the `DIR` with a directory for each host")
	postgresFlag(c, &l.postgres)
	f.StringVar(&l.Listen, "listen", "127.0.0.1:8442", "the `ADDRESS:PORT` to listen on; port 0 is any")
	f.StringVar(&l.Cert, "cert", "", "a `FILE` with the hub's certificate, as PEM")
	f.StringVar(&l.Key, "key", "", "a `FILE` with the key of that, as PEM")
	f.StringVar(&l.TokenFile, "token-file", "",
		"a `FILE`, readable by its owner alone, with what gates have to present, or their part of it: gated hub token")
	f.StringVar(&l.ReaderFile, "reader-token-file", "",
		"a `FILE` like it, with what people have to present: it reads the page, the queue and heads alone")
	_ = c.MarkFlagDirname("dir") // the flags were just added
	for _, name := range []string{"cert", "key", "token-file", "reader-token-file"} {
		_ = c.MarkFlagFilename(name)
	}
	c.AddCommand(t.hubCreateCommand(), t.hubLoadCommand(), t.hubForgetCommand(), t.hubTokenCommand())
	return c
}

func postgresFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "postgres", "",
		"a `CONNECTION` string or URL of the hub's database, as libpq takes it; PGPASSFILE names the file with the password")
}

// hub serves until ctx ends.
func (t *tool) hub(ctx context.Context, l hubLine) error {
	l.Now, l.Logger = time.Now, slog.New(slog.NewTextHandler(t.Stderr, nil))
	if t.JSON {
		l.Logger = slog.New(slog.NewJSONHandler(t.Stderr, nil))
	}
	from := op.Shown(l.Dir)
	if l.postgres != "" {
		s, err := hubpg.Open(ctx, hubpg.Settings{Connection: l.postgres})
		if err != nil {
			return err
		}
		defer s.Close()
		l.Documents, l.Store, from = s, s, "PostgreSQL"
	}
	l.Ready = func(url string, hosts int) {
		if t.JSON {
			_ = t.Emit(listening{url, l.Dir, hosts}) // nobody reads it, then
			return
		}
		t.Print("listening on %s, serving %s from %s\n", url, cli.Count(hosts, "host"), from)
	}
	h, err := hubserver.New(l.Config)
	if err != nil {
		return err
	}
	return h.Serve(ctx)
}

// needPostgres refuses a command line without a database.
func needPostgres(postgres string) error {
	if postgres == "" {
		return cli.Usage("--postgres is missing: the hub's database")
	}
	return nil
}

func (t *tool) hubCreateCommand() *cobra.Command {
	var postgres string
	c := t.Command(cli.Words{
		Use:     "create --postgres CONNECTION",
		Short:   "Make a hub's tables in PostgreSQL",
		Long:    "Makes what is missing in the schema gatedhub. The role needs the right to create a schema.",
		Example: "  gated hub create --postgres 'host=db1 user=postgres dbname=gatedhub'",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if err := needPostgres(postgres); err != nil {
			return err
		}
		if err := hubpg.Create(c.Context(), hubpg.Settings{Connection: postgres}); err != nil {
			return err
		}
		return t.Answer(struct {
			Schema string `json:"schema"`
		}{hubpg.Schema}, "the tables are there, in the schema %s\n", hubpg.Schema)
	})
	postgresFlag(c, &postgres)
	return c
}

// loadedHost is what gated hub load did with one host.
type loadedHost struct {
	Host    string       `json:"host"`
	Changed bool         `json:"changed"`
	Error   *cli.Problem `json:"error"`
}

func (t *tool) hubLoadCommand() *cobra.Command {
	var postgres, dir string
	c := t.Command(cli.Words{
		Use:   "load --dir DIR --postgres CONNECTION",
		Short: "Read a directory's desired state and signed operations into a hub's database",
		Long: `DIR is as gated hub --dir takes it. The documents of each host change as one. Files that were just written are waited
for. A host that cannot be read keeps what it had, and the exit code is 1. A host that DIR lacks keeps it too: gated hub
forget removes it.`,
		Example: "  gated hub load --dir hub.d --postgres 'host=db1,db2 user=gatedhub dbname=gatedhub'",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if dir == "" {
			return cli.Usage("--dir is missing: the directory to read")
		}
		if err := needPostgres(postgres); err != nil {
			return err
		}
		s, err := hubpg.Open(c.Context(), hubpg.Settings{Connection: postgres})
		if err != nil {
			return err
		}
		defer s.Close()
		return t.hubLoad(c.Context(), s, dir)
	})
	c.Flags().StringVar(&dir, "dir", "", "the `DIR` with a directory for each host")
	_ = c.MarkFlagDirname("dir") // the flag was just added
	postgresFlag(c, &postgres)
	return c
}

// hubLoad loads each host, and ends with the first error.
func (t *tool) hubLoad(ctx context.Context, s *hubpg.Store, dir string) error {
	hosts, changed := 0, 0
	var first error
	err := hubserver.Publish(ctx, dir, time.Now, s.Publish, func(host string, new bool, err error) error {
		hosts++
		if new {
			changed++
		}
		l := loadedHost{Host: host, Changed: new}
		if err != nil {
			l.Error = cli.ProblemOf(err)
			if first == nil {
				first = err
			}
		}
		switch {
		case t.JSON:
			return t.Emit(l)
		case err != nil:
			t.Say("%s: %s: %s\n", cli.Inline(host), l.Error.Code, cli.Inline(l.Error.Detail))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !t.JSON {
		t.Print("%s read, %d changed\n", cli.Count(hosts, "host"), changed)
	}
	return first
}

func (t *tool) hubForgetCommand() *cobra.Command {
	var postgres string
	c := t.Command(cli.Words{
		Use:   "forget HOST --postgres CONNECTION",
		Short: "Remove a host from a hub's database",
		Long: `Removes its documents, its last report and what waits there. Its gate gets nothing from the hub then, and its wishes
rest. The signed heads of its gate stay, as evidence.`,
		Example: "  gated hub forget pve9 --postgres 'host=db1,db2 user=gatedhub dbname=gatedhub'",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if err := needPostgres(postgres); err != nil {
			return err
		}
		s, err := hubpg.Open(c.Context(), hubpg.Settings{Connection: postgres})
		if err != nil {
			return err
		}
		defer s.Close()
		there, err := s.Forget(c.Context(), args[0])
		switch {
		case err != nil:
			return err
		case !there:
			return refusal.New(refusal.UnknownTarget, "the hub's database has nothing of the host %q", op.Shown(args[0]))
		}
		return t.Answer(struct {
			Host string `json:"host"`
		}{args[0]}, "forgot %s\n", cli.Inline(args[0]))
	})
	postgresFlag(c, &postgres)
	return c
}

func (t *tool) hubTokenCommand() *cobra.Command {
	var file string
	c := t.Command(cli.Words{
		Use:   "token HOST --token-file FILE",
		Short: "Print the token of one host",
		Long: `The token of one host follows from the gates' token in FILE. A hub with that FILE takes it for the calls of that
host alone. So a host that is broken into reads and reports for no other. Needs no hub.`,
		Example: "  gated hub token pve1 --token-file token > pve1.token    # umask 077",
	}, cobra.ExactArgs(1), func(_ *cobra.Command, args []string) error {
		if file == "" {
			return cli.Usage("--token-file is missing: the hub's file with the gates' token")
		}
		gates, err := ownfile.ReadToken(file)
		if err != nil {
			return err
		}
		token := hubserver.HostToken(gates, args[0])
		return t.Answer(struct {
			Host  string `json:"host"`
			Token string `json:"token"`
		}{args[0], token}, "%s\n", token)
	})
	c.Flags().StringVar(&file, "token-file", "", "the hub's `FILE` with the gates' token")
	_ = c.MarkFlagFilename("token-file") // the flag was just added
	return c
}
