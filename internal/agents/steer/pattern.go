package steer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gated/internal/base/op"
)

// The bounds of patterns.
const (
	MaxPatterns = 256 // of one gate
	MaxPattern  = 256 // bytes
	maxParts    = 32  // words
)

// Pattern matches commands, word by word. A star inside a word matches any text in that word. A star alone matches any
// number of words. {name} is a hole: it matches one word that is no option, and the line to type can have that word.
type Pattern struct {
	text  string
	parts []part
}

type part struct {
	text string // with stars
	hole string
	many bool // a star alone
}

// ParsePattern reads a pattern. The error says what is wrong, for the operator that wrote it.
func ParsePattern(text string) (Pattern, error) {
	p := Pattern{text: text}
	words := strings.Split(text, " ")
	switch {
	case len(text) > MaxPattern:
		return p, fmt.Errorf("it has more than %d bytes", MaxPattern)
	case len(words) > maxParts:
		return p, fmt.Errorf("it has more than %d words", maxParts)
	case op.CheckText("", text) != nil:
		return p, errors.New("it has a character that does not show as it is")
	case words[0] == "" || strings.ContainsAny(words[0], "/{}") || words[0][0] == '*':
		return p, errors.New("its first word is not the name of a program without a directory: dropdb *")
	}
	for _, w := range words {
		next, err := parsePart(w)
		if err != nil {
			return p, err
		}
		if next.hole != "" && slices.Contains(p.Holes(), next.hole) {
			return p, fmt.Errorf("it has {%s} twice", next.hole)
		}
		if next.many && p.parts[len(p.parts)-1].many {
			return p, errors.New("it has two lone stars side by side")
		}
		p.parts = append(p.parts, next)
	}
	return p, nil
}

func parsePart(w string) (part, error) {
	name, opens := strings.CutPrefix(w, "{")
	name, closes := strings.CutSuffix(name, "}")
	switch {
	case w == "":
		return part{}, errors.New("it has two blanks side by side, or one at its end")
	case w == "*":
		return part{many: true}, nil
	case !strings.ContainsAny(w, "{}"):
		return part{text: w}, nil
	case !opens || !closes || op.CheckName(name) != nil:
		return part{}, fmt.Errorf("the word %s is no hole: a hole is a whole word, as {name}", op.Shown(w))
	}
	return part{hole: name}, nil
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Holes returns the names of the pattern's holes.
func (p Pattern) Holes() []string {
	var out []string
	for _, x := range p.parts {
		if x.hole != "" {
			out = append(out, x.hole)
		}
	}
	return out
}

// Sample returns the words of a command that matches.
func (p Pattern) Sample() []string {
	var out []string
	for _, x := range p.parts {
		switch {
		case x.hole != "":
			out = append(out, "gated-doctor")
		case !x.many:
			out = append(out, strings.ReplaceAll(x.text, "*", "x"))
		}
	}
	return out
}

// Match reports whether a command's words match, and which word each hole binds. A lone star takes as many words as it
// can, the first one first. The program counts without its directory. An unknown word matches a lone star and a hole. A
// hole behind a lone star binds an unknown word if the star's last word is an option: the word may be that option's value.
func (p Pattern) Match(words []Word) (map[string]Word, bool) {
	if len(words) == 0 || !p.parts[0].takes(base(words[0])) {
		return nil, false
	}
	parts, words := p.parts[1:], words[1:]
	fits := table(parts, words)
	if !fits[0][0] {
		return nil, false
	}
	bound := map[string]Word{}
	at := 0
	for i, x := range parts {
		if x.many {
			next := len(words)
			for !fits[i+1][next] {
				next--
			}
			at = next
			continue
		}
		if x.hole != "" {
			bound[x.hole] = words[at]
			if i > 0 && parts[i-1].many && at > 0 && mayTake(words[at-1]) {
				bound[x.hole] = Any
			}
		}
		at++
	}
	return bound, true
}

// mayTake reports whether a word is an option that may have its value in the next word.
func mayTake(w Word) bool {
	return len(w) > 1 && w[0] == '-' && w != "--" && !strings.Contains(string(w), "=")
}

// table says for each i and j whether the parts from i on match the words from j on.
func table(parts []part, words []Word) [][]bool {
	fits := make([][]bool, len(parts)+1)
	for i := len(parts); i >= 0; i-- {
		fits[i] = make([]bool, len(words)+1)
		for j := len(words); j >= 0; j-- {
			switch {
			case i == len(parts):
				fits[i][j] = j == len(words)
			case parts[i].many:
				fits[i][j] = fits[i+1][j] || j < len(words) && fits[i][j+1]
			default:
				fits[i][j] = j < len(words) && parts[i].takes(words[j]) && fits[i+1][j+1]
			}
		}
	}
	return fits
}

// takes reports whether a part matches one word.
func (x part) takes(w Word) bool {
	if x.hole != "" {
		return w != "" && w[0] != '-'
	}
	return globMatches(x.text, string(w), "*")
}
