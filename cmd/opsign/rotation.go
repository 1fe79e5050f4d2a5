package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// rotationText says what a rotation's bytes would do to the list of signers: a
// line for each key that comes or goes. Whose a key is that goes, the bytes do
// not say; it is what the gate says in the facts. It is empty of what is no
// rotation.
func rotationText(p op.Payload, facts []op.Fact) string {
	if p.Op != op.Rotate {
		return ""
	}
	text := ""
	for _, line := range p.Params.Lines("add") {
		text += fmt.Sprintf("    adds %s\n", addedKey(line))
	}
	for _, key := range p.Params.Lines("remove") {
		owners := listedAs(key, facts)
		for _, owner := range owners {
			text += fmt.Sprintf("    removes %s\n", cli.Inline(owner))
		}
		if len(owners) == 0 {
			text += fmt.Sprintf("    removes %s (the gate does not say who has it)\n", cli.Inline(key))
		}
	}
	return text + fmt.Sprintf("    makes epoch %d of the list of signers\n", p.Params.Int("epoch"))
}

// addedKey describes a line that is to be added as a gate would read it, and
// shows it whole if it cannot be read.
func addedKey(line string) string {
	trust, err := authz.LoadTrust([]byte(line))
	if err != nil || len(trust.Signers()) != 1 {
		return fmt.Sprintf("a line that cannot be read: %s", cli.Inline(line))
	}
	l := trust.Signers()[0]
	about := []string{"security key"}
	switch {
	case l.CA:
		about[0] = "certificate authority"
	case l.Software:
		about[0] = "software key"
	}
	if !l.ValidAfter.IsZero() {
		about = append(about, fmt.Sprintf("from %s", l.ValidAfter.UTC().Format(time.RFC3339)))
	}
	if !l.ValidBefore.IsZero() {
		about = append(about, fmt.Sprintf("until %s", l.ValidBefore.UTC().Format(time.RFC3339)))
	}
	return fmt.Sprintf("%s (%s)", cli.Inline(strings.TrimSuffix(l.String(), " cert-authority")), strings.Join(about, ", "))
}

// listedAs finds in the facts of a rotation the lines that list a key now:
// whose it is, in which roles, and the key.
func listedAs(key string, facts []op.Fact) (out []string) {
	for _, f := range facts {
		who, rest, ok := strings.Cut(f.Text, " "+key)
		// Nothing of it, or what goes on with a word of its own.
		if whole := rest == "" || strings.HasPrefix(rest, ",") || strings.HasPrefix(rest, " "); f.Name != "key" || !ok ||
			!whole {
			continue
		}
		if line := who + " " + key; !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}
