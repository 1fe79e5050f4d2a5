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
	products []string
	file     string
	dryRun   bool
}

func (f *mcpFiles) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.products, "for", nil, "the `PRODUCT`: claude, codex, gemini or opencode; may be given again")
	c.Flags().StringVar(&f.file, "file", "", "the product's `FILE` (default: of the checkout; Codex's of $CODEX_HOME or ~/.codex)")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "change nothing, say what would change")
	_ = c.MarkFlagFilename("file") // the flag was just added
	var names []string
	for _, p := range hook.Products {
		names = append(names, string(p))
	}
	_ = c.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(names, cli.NoFiles))
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
				return err
			}
			all = all.And(r)
		}
		if dryRun == f.dryRun || !dryRun {
			return t.showReport(all, f.dryRun)
		}
	}
	return nil
}

func (f *mcpFiles) find(t *tool) ([]hook.ServerFile, error) {
	switch {
	case len(f.products) == 0:
		return nil, cli.Usage("say for which product: --for claude, codex, gemini or opencode")
	case f.file != "" && len(f.products) > 1:
		return nil, cli.Usage("--file is one file: say one --for")
	}
	at, err := checkout.Top(".")
	if err != nil {
		return nil, unlessRefused(err)
	}
	home := t.Getenv("CODEX_HOME")
	if home == "" {
		home = filepath.Join(t.Getenv("HOME"), ".codex")
	}
	var out []hook.ServerFile
	for _, name := range f.products {
		file, err := hook.ServerFileOf(hook.Product(name), at.Path, home)
		if err != nil {
			return nil, cli.Usage(err.Error())
		}
		if f.file != "" {
			file.Path = f.file
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
		Long: `Adds a server with the name gated to each product's file. The rest of the file stays byte for byte. The entry
has --socket if this command has it, or GATED_SOCKET is set.`,
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
				as = string(file.Product)
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
