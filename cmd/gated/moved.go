package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/wire/cli"
)

// withNewWord returns a command line with the new word of its command in the place of an old one, and says the new one.
// A shell that completes is told nothing, and its last word is still being typed.
func (t *tool) withNewWord(args []string) []string {
	at, end := 0, len(args)
	completes := end > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
	if completes {
		at, end = 1, end-1
	}
	for at < end && (strings.HasPrefix(args[at], "-") || at == 0 && args[0] == "help") {
		if args[at] == "--socket" {
			at++
		}
		at++
	}
	if at >= end || cli.Moved[args[at]] == "" {
		return args
	}
	now := cli.Moved[args[at]]
	if !completes {
		t.Say("note: gated %s is gated %s now, and the next version takes only that\n", args[at], now)
	}
	return slices.Replace(slices.Clone(args), at, at+1, strings.Fields(now)...)
}

func (t *tool) reservationCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:   "reservation",
		Short: "Reserve paths of a directory for an agent, and see who has which",
		Long:  "gated help reservation says what one is.",
		Example: "  gated reservation reserve 'src/**' --reason \"a new parser\"\n" +
			"  gated reservation list",
	}, "say reserve, check, list, renew, release, transfer, release-all or force-transfer",
		t.reserveCommand(), t.checkCommand(), t.reservationsCommand(), t.renewCommand(), t.releaseCommand(), t.transferCommand(),
		t.releaseAllCommand(), t.forceTransferCommand())
}

func (t *tool) memberCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "member",
		Short:   "Have a gate outlive its host: its ledger, and the hosts that may decide for it",
		Long:    "gated docs high-availability says how to set that up.",
		Example: "  gated member ledger status\n  gated member takeover",
	}, "say join, takeover, migrate or ledger", t.joinCommand(), t.takeoverCommand(), t.migrateCommand(), t.ledgerCommand())
}
