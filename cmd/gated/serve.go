package main

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/host/daemon"
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
