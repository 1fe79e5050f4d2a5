package hook

import (
	"path"
	"strings"
	"unicode/utf8"

	"gated/internal/glob"
	"gated/internal/op"
)

// notPrintable is a character that a pattern cannot spell: a byte that is no
// UTF-8, a newline. It is also each that is not ASCII, which is more than is
// meant and never less.
const notPrintable = "[! -~]"

// change is a path that differs between two trees.
type change struct {
	path      string // as git has it: any bytes but NUL
	submodule bool   // on one side at least
}

// pattern returns the narrowest pattern that surely matches the path, relative
// to the top level. Of a submodule it is also everything below: with its commit,
// all of its files become others. A name that a pattern cannot spell becomes
// one with a class in its place, and if that is too much for a pattern, all that
// is below its parent.
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

// spell quotes what can be spelled, and writes a class for what cannot.
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
