package hook

import (
	"path"
	"strings"
	"unicode/utf8"

	"gated/internal/agents/glob"
	"gated/internal/base/op"
)

// notPrintable is the class for a character that a pattern cannot spell: a byte that is not UTF-8, or a newline. It
// also matches every character that is not ASCII, so it matches too much rather than too little.
const notPrintable = "[! -~]"

// change is a path that differs between two trees.
type change struct {
	path      string // as git has it: any bytes but NUL
	submodule bool   // on at least one side
}

// pattern returns the narrowest pattern that surely matches the path, relative to the top level. For a submodule it
// also matches everything below, because all its files change with its commit. A class replaces a name that a pattern
// cannot spell. If that is too long for a pattern, it matches all below the parent.
func (c change) pattern(o glob.Options) string {
	below := ""
	if c.submodule {
		below = "/**"
	}
	for _, p := range []string{glob.Quote(c.path), spell(c.path)} {
		if matches(p+below, c.path, o) {
			return p + below
		}
	}
	for dir := path.Dir(c.path); dir != "."; dir = path.Dir(dir) {
		for _, p := range []string{glob.Quote(dir), spell(dir)} {
			if matches(p+"/**", c.path, o) {
				return p + "/**"
			}
		}
	}
	return everything
}

// everything is the pattern of a whole scope.
const everything = "**"

func matches(pattern, path string, o glob.Options) bool {
	p, err := glob.Parse(pattern, o)
	return err == nil && p.Match(path)
}

// spell quotes what a pattern can spell, and writes a class for the rest.
func spell(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == utf8.RuneError && n == 1, op.CheckText("", string(r)) != nil:
			b.WriteString(notPrintable)
		default:
			b.WriteString(glob.Quote(name[i : i+n]))
		}
		i += n
	}
	return b.String()
}
