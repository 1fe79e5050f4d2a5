package main

import (
	"slices"
	"strings"
	"time"

	"gated/internal/authz"
	"gated/internal/cli"
	"gated/internal/op"
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
		text += sprint(wordsAdds, addedKey(line))
	}
	for _, key := range p.Params.Lines("remove") {
		owners := listedAs(key, facts)
		for _, owner := range owners {
			text += sprint(wordsRemoves, cli.Inline(owner))
		}
		if len(owners) == 0 {
			text += sprint(wordsRemovesUnknown, cli.Inline(key))
		}
	}
	return text + sprint(wordsMakesEpoch, p.Params.Int("epoch"))
}

// addedKey describes a line that is to be added as a gate would read it, and
// shows it whole if it cannot be read.
func addedKey(line string) string {
	trust, err := authz.LoadTrust([]byte(line))
	if err != nil || len(trust.Signers()) != 1 {
		return sprint(wordsUnreadable, cli.Inline(line))
	}
	l := trust.Signers()[0]
	about := []string{wordsSecurityKey}
	switch {
	case l.CA:
		about[0] = wordsAuthority
	case l.Software:
		about[0] = wordsSoftwareKey
	}
	if !l.ValidAfter.IsZero() {
		about = append(about, sprint(wordsFrom, l.ValidAfter.UTC().Format(time.RFC3339)))
	}
	if !l.ValidBefore.IsZero() {
		about = append(about, sprint(wordsUntil, l.ValidBefore.UTC().Format(time.RFC3339)))
	}
	return sprint(wordsKeyIs, cli.Inline(strings.TrimSuffix(l.String(), " cert-authority")), strings.Join(about, ", "))
}

// listedAs finds in the facts of a rotation the lines that list a key now:
// whose it is, in which roles, and the key.
func listedAs(key string, facts []op.Fact) (out []string) {
	for _, f := range facts {
		who, rest, ok := strings.Cut(f.Text, " "+key)
		// Nothing of it, or what goes on with a word of its own.
		if whole := rest == "" || strings.HasPrefix(rest, ",") || strings.HasPrefix(rest, " "); f.Name != "key" || !ok || !whole {
			continue
		}
		if line := who + " " + key; !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}
