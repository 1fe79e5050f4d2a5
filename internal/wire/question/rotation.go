package question

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// RotationText is Rotation in lines of a text.
func RotationText(p op.Payload, facts []op.Fact) string {
	text := ""
	for _, line := range Rotation(p, facts) {
		text += "    " + line + "\n"
	}
	return text
}

// Rotation says what a rotation's bytes would do to the list of signers: a
// line for each key that comes or goes. Whose a key is that goes, the bytes do
// not say; it is what the gate says in the facts. There are none of what is no
// rotation.
func Rotation(p op.Payload, facts []op.Fact) (out []string) {
	if p.Op != op.Rotate {
		return nil
	}
	for _, line := range p.Params.Lines("add") {
		out = append(out, "adds "+addedKey(line))
	}
	for _, key := range p.Params.Lines("remove") {
		owners := listedAs(key, facts)
		for _, owner := range owners {
			out = append(out, "removes "+cli.Inline(owner))
		}
		if len(owners) == 0 {
			out = append(out, fmt.Sprintf("removes %s (the gate does not say who has it)", cli.Inline(key)))
		}
	}
	return append(out, fmt.Sprintf("makes epoch %d of the list of signers", p.Params.Int("epoch")))
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
	case l.Passkey != "":
		about[0] = "passkey of " + l.Passkey
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
