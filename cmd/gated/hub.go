package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/hub/hubserver"
	"gated/internal/op"
)

// listening is what the hub says with --json when it is ready.
type listening struct {
	URL   string `json:"url"`
	Dir   string `json:"dir"`
	Hosts int    `json:"hosts"`
}

func (t *tool) hubCommand() *cobra.Command {
	var config hubserver.Config
	c := t.command("hub", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		switch {
		case config.Dir == "":
			return cli.Usage(wordsHubDir)
		case (config.Cert == "") != (config.Key == ""):
			return cli.Usage(wordsHubPair)
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
			t.Print(wordsHubReady, url, count(hosts, "host"), op.Shown(config.Dir))
		}
		h, err := hubserver.New(config)
		if err != nil {
			return err
		}
		return h.Serve(c.Context())
	})
	f := c.Flags()
	f.StringVar(&config.Dir, "dir", "", flagHubDir)
	f.StringVar(&config.Listen, "listen", "127.0.0.1:8442", flagHubListen)
	f.StringVar(&config.Cert, "cert", "", flagHubCert)
	f.StringVar(&config.Key, "key", "", flagHubKey)
	f.StringVar(&config.TokenFile, "token-file", "", flagHubToken)
	_ = c.MarkFlagDirname("dir") // the flags were just added
	for _, name := range []string{"cert", "key", "token-file"} {
		_ = c.MarkFlagFilename(name)
	}
	return c
}
