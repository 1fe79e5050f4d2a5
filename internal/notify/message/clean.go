package message

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"gated/client/api"
	"gated/internal/base/op"
)

// cut ends a text that was longer than its bound.
const cut = "…"

// Clean returns others' text as one line of at most that many runes: no controls, no characters that are invisible or
// change the direction of their neighbours, no line ends. Blanks that follow each other become one. A text that is too
// long ends with "…".
func Clean(s string, runes int) string {
	var b strings.Builder
	n, blank := 0, false
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !validAt(s, i):
			r = '\ufffd'
		case r == '\n', r == '\r', r == '\t', r == '\u2028', r == '\u2029', r == '\u00a0', r == ' ':
			blank = b.Len() > 0
			continue
		case op.Hidden(r):
			continue
		}
		if blank {
			if n++; n >= runes {
				b.WriteString(cut)
				return b.String()
			}
			b.WriteByte(' ')
			blank = false
		}
		if n++; n > runes-1 && longer(s[i:]) {
			b.WriteString(cut)
			return b.String()
		}
		b.WriteRune(r)
	}
	return b.String()
}

// longer reports whether a text has more than one rune that Clean keeps.
func longer(s string) bool {
	n := 0
	for _, r := range s {
		if r == '\ufffd' || !op.Hidden(r) && r != ' ' {
			if n++; n > 1 {
				return true
			}
		}
	}
	return false
}

func validAt(s string, i int) bool {
	_, size := utf8.DecodeRuneInString(s[i:])
	return size > 1
}

// CleanLines is Clean for a text of several lines, which stay lines.
func CleanLines(s string, runes int) string {
	var out []string
	left := runes
	for line := range strings.Lines(s) {
		line = Clean(line, left)
		if left -= utf8.RuneCountInString(line) + 1; left <= 0 {
			out = append(out, line, cut)
			break
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// host matches what a chat program could take for the name of a host, and so make a link of.
var host = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([\pL\pN_-])\.([\pL]{2})`) })

// Defang returns a text of which no product makes a link or a mention: "https://a.example" becomes
// "https[:]//a[.]example", "@channel" becomes "(at)channel", and "<!channel>" becomes "< !channel>".
func Defang(s string) string {
	s = strings.ReplaceAll(s, "://", "[:]//")
	s = strings.NewReplacer("@", "(at)", "\uff20", "(at)", "\ufe6b", "(at)", "<!", "< !", "<#", "< #").Replace(s)
	for host().MatchString(s) { // a match takes the letters before the next one's dot
		s = host().ReplaceAllString(s, "$1[.]$2")
	}
	return operations().Replace(s)
}

// operations gives the names of operations their dot back: guest.destroy is no host.
var operations = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for _, spec := range op.Catalogue() {
		pairs = append(pairs, strings.ReplaceAll(spec.Name, ".", "[.]"), spec.Name)
	}
	return strings.NewReplacer(pairs...)
})

// Quote returns others' words as data: in quotes, so that they cannot continue a sentence, and defanged.
func Quote(s string) string {
	return `"` + strings.ReplaceAll(Defang(s), `"`, "'") + `"`
}

// params lists parameters as they would be typed, by name.
func params(p api.Params) []Words {
	var out []Words
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if len(out) == maxList {
			break
		}
		text, ok := p[name].(string)
		if !ok {
			b, err := api.Encode(p[name])
			if err != nil {
				continue
			}
			text = string(b)
		}
		out = append(out, Words{Clean(name, maxPerson), Clean(text, maxSaid)})
	}
	return out
}
