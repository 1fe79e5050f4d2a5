package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/host/metrics"
	"gated/internal/wire/cli"
)

func (t *tool) metricsCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:   "metrics",
		Short: "Print the gate's metrics for Prometheus, or write them for node_exporter",
		Long: `Prints Prometheus' text format. With --textfile it replaces DIR/gated.prom as a whole, for node_exporter's
textfile collector. If the gate does not answer, the file then says gated_up 0, and the exit code is 4.`,
		Example: "  gated metrics\n" +
			"  gated metrics --textfile /var/lib/prometheus/node-exporter",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if dir != "" {
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return cli.Usage("--textfile is no directory: " + op.Shown(dir))
			}
		}
		text, err := t.metrics(c.Context())
		switch {
		case err != nil && dir == "":
			return err
		case err != nil:
			return errors.Join(err, textfile(dir, metrics.Down()))
		case dir != "":
			return textfile(dir, text)
		case t.JSON:
			return t.Emit(struct {
				Text string `json:"text"`
			}{string(text)})
		}
		_, err = t.Stdout.Write(text)
		return err
	})
	c.Flags().StringVar(&dir, "textfile", "", "write gated.prom in `DIR`, and print nothing")
	_ = c.MarkFlagDirname("textfile") // the flag was just added
	return c
}

func (t *tool) metrics(ctx context.Context) ([]byte, error) {
	cl, err := t.Client()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return cl.Metrics(ctx)
}

// textfileName is the file in the collector's directory. The collector reads what ends in .prom, whenever it likes.
const textfileName = "gated.prom"

// textfile replaces the file of the collector, so that every reader sees a whole one. The collector may be another
// user: the file is for all to read.
func textfile(dir string, text []byte) error {
	f, err := os.CreateTemp(dir, "."+textfileName+"-")
	if err != nil {
		return cli.Usage(err.Error())
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, textfileName))
	}
	if err != nil {
		return errors.Join(err, removed(f.Name()))
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
