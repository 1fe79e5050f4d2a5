package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/daemon"
)

func (t *tool) serveCommand() *cobra.Command {
	var dir, level string
	c := t.command("serve", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		var least slog.Level
		if err := least.UnmarshalText([]byte(level)); err != nil {
			return cli.Usage(wordsLogLevel)
		}
		options := &slog.HandlerOptions{Level: least}
		logger := slog.New(slog.NewTextHandler(t.Stderr, options))
		if t.JSON {
			logger = slog.New(slog.NewJSONHandler(t.Stderr, options))
		}
		socket := t.Socket
		if socket == "" {
			socket = t.Getenv("GATED_SOCKET") // where the clients of this environment look
		}
		return daemon.Serve(c.Context(), daemon.ServeOptions{StateDir: stateDir(dir), Socket: socket, Logger: logger})
	})
	stateFlag(c, &dir)
	c.Flags().StringVar(&level, "log-level", "info", flagLogLevel)
	return c
}
