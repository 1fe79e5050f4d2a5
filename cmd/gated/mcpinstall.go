package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gated/internal/agents/checkout"
	"gated/internal/agents/hook"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// mcpFiles are the flags that say which files of products are changed.
type mcpFiles struct {
	products products
	file     string
	dryRun   bool
}

func (f *mcpFiles) add(c *cobra.Command) {
	f.products.add(c)
	c.Flags().StringVar(&f.file, "file", "", "the product's `FILE` (default: of the checkout; Codex's and Copilot's in your home)")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "change nothing, say what would change")
	_ = c.MarkFlagFilename("file") // the flag was just added
}

// each changes the file of each product, and says what was changed. If one is refused, no file is changed.
func (f *mcpFiles) each(t *tool, change func(hook.ServerFile) (hook.Report, error)) error {
	files, err := f.find(t)
	if err != nil {
		return err
	}
	for _, dryRun := range []bool{true, false} {
		var all hook.Report
		for _, file := range files {
			file.DryRun = dryRun
			r, err := change(file)
			if err != nil {
				return butOthers(err, file.For, dialects(files))
			}
			all = all.And(r)
		}
		if dryRun == f.dryRun || !dryRun {
			return t.showReport(all, f.dryRun)
		}
	}
	return nil
}

// dialects returns whose the files are.
func dialects(files []hook.ServerFile) []hook.Dialect {
	var out []hook.Dialect
	for _, f := range files {
		out = append(out, f.For)
	}
	return out
}

func (f *mcpFiles) find(t *tool) ([]hook.ServerFile, error) {
	if len(f.products) == 0 {
		return nil, cli.Usage("say for which product: --for PRODUCT, or --for auto")
	}
	at, err := checkout.Top(".")
	if err != nil {
		return nil, unlessRefused(err)
	}
	products, err := f.products.find(at.Path, t.Getenv)
	switch {
	case err != nil:
		return nil, err
	case f.file != "" && len(products) > 1:
		return nil, cli.Usage("--file is one file: say one --for")
	}
	var out []hook.ServerFile
	for _, d := range products {
		file := hook.ServerFileOf(d, at.Path, t.Getenv)
		if f.file != "" {
			file.Path = f.file
		}
		if file.Path == "" {
			return nil, cli.Usage("HOME names no directory: say --file for " + d.Product())
		}
		if !filepath.IsAbs(file.Path) {
			if file.Path, err = filepath.Abs(file.Path); err != nil {
				return nil, cli.Usage(err.Error())
			}
		}
		out = append(out, file)
	}
	return out, nil
}

func (t *tool) mcpInstallCommand() *cobra.Command {
	var f mcpFiles
	var name string
	c := t.Command(cli.Words{
		Use:   "install --for PRODUCT...",
		Short: "Make agent products start gated mcp",
		Long: `Adds a server with the name gated to each product's file. Of an entry that is gated's it changes the program and
its arguments alone. The rest of the file stays byte for byte. The entry has --socket if this command has it, or
GATED_SOCKET is set.`,
		Example: "  gated mcp install --for codex --for gemini",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if name != "" {
			if err := op.CheckName(name); err != nil {
				return cli.Usage(err.Error())
			}
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		rest, err := t.mcpSocket()
		if err != nil {
			return err
		}
		return f.each(t, func(file hook.ServerFile) (hook.Report, error) {
			as := name
			if as == "" {
				as = file.For.Name()
			}
			return file.Install(program, append([]string{"mcp", "--as", as}, rest...)...)
		})
	})
	f.add(c)
	c.Flags().StringVar(&name, "as", "", "the `NAME` of the agent (default: the product's)")
	return c
}

// mcpSocket returns the flag for the socket that is named here: a product need not pass on this environment.
func (t *tool) mcpSocket() ([]string, error) {
	o, err := t.Where()
	if err != nil {
		return nil, err
	}
	socket := o.Socket
	if socket == "" {
		socket = t.Getenv("GATED_SOCKET")
	}
	if socket == "" {
		return nil, nil
	}
	abs, err := filepath.Abs(socket)
	if err != nil {
		return nil, cli.Usage(err.Error())
	}
	return []string{"--socket", abs}, nil
}

func (t *tool) mcpUninstallCommand() *cobra.Command {
	var f mcpFiles
	c := t.Command(cli.Words{
		Use:     "uninstall --for PRODUCT...",
		Short:   "Remove what mcp install added",
		Example: "  gated mcp uninstall --for codex",
	}, cobra.NoArgs, func(*cobra.Command, []string) error {
		return f.each(t, hook.ServerFile.Uninstall)
	})
	f.add(c)
	return c
}
