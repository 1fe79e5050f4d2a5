package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gated/internal/base/spelling"
)

// Programs lists the commands that people type, by their program, because some look for one in the other.
var Programs = map[string][]string{
	"gated": {"setup", "status", "submit", "jobs", "guests", "backup", "docs", "wait", "cancel", "classify", "ops", "commands", "plan", "apply",
		"events", "agent", "reservation", "hook", "doctor", "mcp", "init", "config", "serve", "reload", "notify", "metrics", "time", "trust",
		"canary", "audit", "fsck", "restore", "hub", "member", "help"},
	"opsign": {"list", "show", "approve", "reject", "review", "batch", "sign", "submit", "verify", "keys", "known", "forget", "witness",
		"trust"},
}

// Moved has the words that commands of gated had before they moved below another command. This version takes them, too.
var Moved = map[string]string{
	"reserve": "reservation reserve", "check": "reservation check", "renew": "reservation renew",
	"release": "reservation release", "transfer": "reservation transfer", "reservations": "reservation list",
	"release-all": "reservation release-all", "force-transfer": "reservation force-transfer",
	"join": "member join", "takeover": "member takeover", "ledger": "member ledger", "migrate": "member migrate",
}

// unknownCommand is how cobra begins to say that a command has none of that name below it.
const unknownCommand = "unknown command "

// misused returns the usage error for what cobra says of a command line, at the command where it stopped.
func misused(c *cobra.Command, err error) error {
	quoted, _ := strconv.QuotedPrefix(strings.TrimPrefix(err.Error(), unknownCommand))
	if word, bad := strconv.Unquote(quoted); bad == nil && strings.HasPrefix(err.Error(), unknownCommand) {
		return Misspelt(c, word)
	}
	var flag *pflag.NotExistError
	if errors.As(err, &flag) {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if meant, ok := spelling.Nearest(flag.GetSpecifiedName(), names); ok {
			return Usage(fmt.Sprintf("%v; is --%s meant?", err, meant))
		}
	}
	return Usage(err.Error())
}

// Misspelt returns the usage error for a word that is no command below c. It names the command that is meant: one that
// is spelt almost so, or the other program's. The words of also may be meant, too.
func Misspelt(c *cobra.Command, word string, also ...string) error {
	text := fmt.Sprintf(unknownCommand+"%q for %q", word, c.CommandPath())
	for _, program := range []string{"gated", "opsign"} {
		if !c.HasParent() && program != c.Name() && slices.Contains(Programs[program], word) {
			return Usage(fmt.Sprintf("%s: that is %s %s", text, program, word))
		}
	}
	for _, below := range c.Commands() {
		if !below.Hidden {
			also = append(also, below.Name())
		}
	}
	var old map[string]string
	if !c.HasParent() && c.Name() == "gated" {
		old = Moved
		also = append(also, slices.Sorted(maps.Keys(old))...) // last: a word of today is meant before an old one
	}
	if meant, ok := spelling.Nearest(word, also); ok {
		text += fmt.Sprintf("; is %q meant?", cmp.Or(old[meant], meant))
	}
	return Usage(text)
}
