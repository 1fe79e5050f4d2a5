package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/wire/cli"
)

// moved has the words that commands had before they moved below another command. This version takes them, too.
var moved = map[string]string{
	"reserve": "reservation reserve", "check": "reservation check", "renew": "reservation renew", "release": "reservation release",
	"transfer": "reservation transfer", "reservations": "reservation list", "release-all": "reservation release-all",
	"force-transfer": "reservation force-transfer",
	"join":           "member join", "takeover": "member takeover", "ledger": "member ledger", "migrate": "member migrate",
}

// withNewWord returns a command line with the new word of its command in the place of an old one, and says the new one.
func (t *tool) withNewWord(args []string) []string {
	at := 0
	for at < len(args) && (strings.HasPrefix(args[at], "-") || at == 0 && args[0] == "help") {
		if args[at] == "--socket" {
			at++
		}
		at++
	}
	if at >= len(args) || moved[args[at]] == "" {
		return args
	}
	now := moved[args[at]]
	t.Say("note: gated %s is gated %s now, and the next version takes only that\n", args[at], now)
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
