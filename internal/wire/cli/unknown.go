package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/base/spelling"
)

// Programs lists the commands that people type, by their program, because some look for one in the other.
var Programs = map[string][]string{
	"gated": {"setup", "status", "submit", "jobs", "guests", "backup", "docs", "wait", "cancel", "classify", "ops", "commands", "plan", "apply",
		"events", "agent", "reserve", "check", "renew", "release", "transfer", "reservations", "release-all", "force-transfer", "hook", "doctor",
		"mcp", "init", "config", "serve", "reload", "notify", "metrics", "time", "trust", "canary", "audit", "fsck", "restore", "hub", "join",
		"takeover", "ledger", "migrate"},
	"opsign": {"list", "show", "approve", "reject", "review", "batch", "sign", "submit", "verify", "keys", "known", "forget", "witness"},
}

// unknownCommand is how cobra begins to say that a command has none of that name below it.
const unknownCommand = "unknown command "

// misused returns the usage error for what cobra says of a command line, at the command where it stopped.
func misused(c *cobra.Command, err error) error {
	quoted, _ := strconv.QuotedPrefix(strings.TrimPrefix(err.Error(), unknownCommand))
	if word, bad := strconv.Unquote(quoted); bad == nil && strings.HasPrefix(err.Error(), unknownCommand) {
		return misspelt(c, word)
	}
	return Usage(err.Error())
}

// misspelt returns the usage error for a word that is no command below c. It names the command that is meant: one that
// is spelt almost so, or the other program's.
func misspelt(c *cobra.Command, word string) error {
	text := fmt.Sprintf(unknownCommand+"%q for %q", word, c.CommandPath())
	for _, program := range []string{"gated", "opsign"} {
		if !c.HasParent() && program != c.Name() && slices.Contains(Programs[program], word) {
			return Usage(fmt.Sprintf("%s: that is %s %s", text, program, word))
		}
	}
	var names []string
	for _, below := range c.Commands() {
		if !below.Hidden {
			names = append(names, below.Name())
		}
	}
	if meant, ok := spelling.Nearest(word, names); ok {
		text += fmt.Sprintf("; is %q meant?", meant)
	}
	return Usage(text)
}
