package catalogue

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// EndOfOptions is the word after which a value may begin with a dash. Programs that follow
// POSIX (Utility Syntax Guidelines, 10) take no later word for an option.
const EndOfOptions = "--"

// part is a piece of a word: fixed text, or the name of a parameter.
type part struct {
	text        string
	placeholder bool
}

// split splits a word of a template into parts. {name} is a placeholder, alone or inside other
// text. {{ and }} stand for braces.
func split(word string) ([]part, string) {
	var parts []part
	var text strings.Builder
	for i := 0; i < len(word); i++ {
		c := word[i]
		switch {
		case c != '{' && c != '}':
			text.WriteByte(c)
		case i+1 < len(word) && word[i+1] == c:
			text.WriteByte(c)
			i++
		case c == '}':
			return nil, "a } closes nothing; one that is meant as it is is doubled: }}"
		default:
			end := strings.IndexByte(word[i:], '}')
			if end < 0 {
				return nil, "a { is not closed; one that is meant as it is is doubled: {{"
			}
			name := word[i+1 : i+end]
			if op.CheckName(name) != nil {
				return nil, "{" + op.Shown(name) + "} does not name a parameter; a brace that is meant as one is doubled: {{"
			}
			if text.Len() > 0 {
				parts = append(parts, part{text: text.String()})
				text.Reset()
			}
			parts = append(parts, part{name, true})
			i += end
		}
	}
	if text.Len() > 0 {
		parts = append(parts, part{text: text.String()})
	}
	return parts, ""
}

// checkTemplate checks everything that needs no parameters. The program must be one absolute
// path. An interpreter must not read a value as a program.
func checkTemplate(words []string) *Fault {
	switch {
	case len(words) == 0:
		return &Fault{-1, "there is no program"}
	case len(words) > MaxWords:
		return &Fault{-1, "there are too many words"}
	}
	from, until := programText(words)
	for i, word := range words {
		parts, why := split(word)
		if why != "" {
			return &Fault{i, why}
		}
		if op.CheckText("", strings.NewReplacer("\n", "", "\t", "").Replace(word)) != nil {
			return &Fault{i, "it has a character that does not show as it is"}
		}
		filled := slices.ContainsFunc(parts, func(p part) bool { return p.placeholder })
		switch {
		case i == 0 && filled:
			return &Fault{0, "the program is not for a parameter to say"}
		case i == 0 && (!filepath.IsAbs(word) || filepath.Clean(word) != word):
			return &Fault{0, "the program is not an absolute path without . and .. and double slashes"}
		case filled && from <= i && i < until:
			return &Fault{i, "it would be read as a program, or could be: " + words[from-1] + ` comes before it; right after that stands a script's ` +
				`absolute path, or -c and a program without parameters: [/bin/sh, -c, 'echo "$1"', sh, "{name}"]`}
		}
	}
	return nil
}

func placeholders(words []string) []string {
	var out []string
	for _, word := range words {
		parts, _ := split(word)
		for _, p := range parts {
			if p.placeholder {
				out = append(out, p.text)
			}
		}
	}
	return out
}

// Fill puts values into a template's words. A value never splits a word. A value before
// EndOfOptions that begins with a dash is refused with BadParams, because a program could take
// it for an option.
func Fill(words []string, values map[string]string) ([]string, error) {
	out := make([]string, len(words))
	literal := false
	for i, word := range words {
		parts, why := split(word)
		if why != "" {
			return nil, refusal.New(refusal.Internal, "word %d of a template: %s", i, why)
		}
		var b strings.Builder
		for _, p := range parts {
			if !p.placeholder {
				b.WriteString(p.text)
				continue
			}
			v := values[p.text]
			if strings.HasPrefix(v, "-") && !literal {
				return nil, refusal.New(refusal.BadParams, "%s is %q: what begins with a dash could be taken for an option",
					p.text, v).
					WithHint("where the catalogue has the word -- before it, it may")
			}
			b.WriteString(v)
		}
		out[i] = b.String()
		literal = literal || word == EndOfOptions
	}
	return out, nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
