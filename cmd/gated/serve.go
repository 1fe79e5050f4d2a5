package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"gated/internal/host/daemon"
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
		options := &slog.HandlerOptions{Level: least}
		logger := slog.New(slog.NewTextHandler(t.Stderr, options))
		if t.JSON {
			logger = slog.New(slog.NewJSONHandler(t.Stderr, options))
		}
		return daemon.Serve(c.Context(), daemon.ServeOptions{StateDir: stateDir(dir), Socket: t.serves(), Logger: logger})
	})
	stateFlag(c, &dir)
	c.Flags().StringVar(&level, "log-level", "info", "log messages from this `LEVEL` on: debug, info, warn or error")
	return c
}

// serves is where a daemon of this environment is told to listen, which is where
// its clients look; empty where it is not told.
func (t *tool) serves() string {
	if t.Socket != "" {
		return t.Socket
	}
	return t.Getenv("GATED_SOCKET")
}
