package main

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/host/daemon"
	"gated/internal/host/hub/hubserver"
	"gated/internal/host/ownlog"
	"gated/internal/wire/cli"
)

func (t *tool) serveCommand() *cobra.Command {
	var dir, level string
	c := t.Command(cli.Words{
		Use:   "serve",
		Short: "Run the daemon in the foreground",
		Long: `Says ready through sd_notify, reads gated.yaml and the revocation file again on SIGHUP, and stops cleanly on
SIGTERM. Logs to standard error. Listens on --socket, else GATED_SOCKET, else what gated.yaml says.`,
		Example: "  gated serve --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		var least slog.Level
		if err := least.UnmarshalText([]byte(level)); err != nil {
			return cli.Usage("--log-level is none of debug, info, warn and error")
		}
		log := ownlog.New(t.Stderr, t.Getenv("JOURNAL_STREAM"))
		defer closed(log)
		o := daemon.ServeOptions{StateDir: stateDir(dir), Socket: t.serves(), Log: log}
		if t.JSON {
			o.LogFormat = ownlog.JSON
		}
		if c.Flags().Changed("log-level") {
			o.LogLevel = &least
		}
		// Until gated.yaml is read, which says more.
		if err := log.Configure(cmp.Or(o.LogFormat, ownlog.Auto), least); err != nil {
			return err
		}
		return daemon.Serve(c.Context(), o)
	})
	stateFlag(c, &dir)
	c.Flags().StringVar(&level, "log-level", "info",
		"log messages from this `LEVEL` on: debug, info, warn or error; counts more than log.level of gated.yaml")
	_ = c.RegisterFlagCompletionFunc("log-level", // the flag was just added
		cobra.FixedCompletions([]string{"debug", "info", "warn", "error"}, cli.NoFiles))
	return c
}

// closed writes what still waits in a log. If the reader of standard error takes
// nothing, the rest is lost.
func closed(log *ownlog.Log) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	log.Close(ctx)
}

// serves is where a daemon of this environment is told to listen, which is where
// its clients look; empty where it is not told.
func (t *tool) serves() string {
	if t.Socket != "" {
		return t.Socket
	}
	return t.Getenv("GATED_SOCKET")
}

// listening is what the hub says with --json when it is ready.
type listening struct {
	URL   string `json:"url"`
	Dir   string `json:"dir"`
	Hosts int    `json:"hosts"`
}

func (t *tool) hubCommand() *cobra.Command {
	var config hubserver.Config
	c := t.Command(cli.Words{
		Use:   "hub --dir DIR",
		Short: "Serve desired state and signed operations to gates, and show what they report",
		Long: `The reference hub. DIR/HOST/*.yaml are the sets of the gate of that host. DIR/HOST/operations/NAME.json and
NAME.json.sig are what opsign sign wrote for it. The hub reads DIR and writes nothing. It keeps reports in memory and
shows them on the page /. An address that other hosts can reach needs a certificate and a token. The hub serves a file
one second after its last change. It logs to standard error.`,
		Example: "  gated hub --dir hub.d\n" +
			"  gated hub --dir hub.d --listen 192.0.2.7:8442 --cert hub.crt --key hub.key --token-file token",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		switch {
		case config.Dir == "":
			return cli.Usage("--dir is missing: the directory to serve")
		case (config.Cert == "") != (config.Key == ""):
			return cli.Usage("--cert and --key belong together")
		}
		logger := slog.New(slog.NewTextHandler(t.Stderr, nil))
		if t.JSON {
			logger = slog.New(slog.NewJSONHandler(t.Stderr, nil))
		}
		config.Now, config.Logger = time.Now, logger
		config.Ready = func(url string, hosts int) {
			if t.JSON {
				_ = t.Emit(listening{url, config.Dir, hosts}) // nobody reads it, then
				return
			}
			t.Print("listening on %s, serving %s from %s\n", url, cli.Count(hosts, "host"), op.Shown(config.Dir))
		}
		h, err := hubserver.New(config)
		if err != nil {
			return err
		}
		return h.Serve(c.Context())
	})
	f := c.Flags()
	f.StringVar(&config.Dir, "dir", "", "the `DIR` with a directory for each host")
	f.StringVar(&config.Listen, "listen", "127.0.0.1:8442", "the `ADDRESS:PORT` to listen on; port 0 is any")
	f.StringVar(&config.Cert, "cert", "", "a `FILE` with the hub's certificate, as PEM")
	f.StringVar(&config.Key, "key", "", "a `FILE` with the key of that, as PEM")
	f.StringVar(&config.TokenFile, "token-file", "",
		"a `FILE`, readable by its owner alone, with what gates have to present")
	_ = c.MarkFlagDirname("dir") // the flags were just added
	for _, name := range []string{"cert", "key", "token-file"} {
		_ = c.MarkFlagFilename(name)
	}
	return c
}
