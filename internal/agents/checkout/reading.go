package checkout

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"gated/client/api"
	"gated/internal/agents/glob"
	"gated/internal/base/refusal"
)

// Reading is how a caller's text is read: as a pattern, as the name of what is there, or as both.
type Reading struct {
	Sent  []string       // the patterns as the gate is asked for them, relative to the place
	globs []glob.Pattern // of Sent
	// Note says why Sent has another meaning than the text has as a pattern; empty if it has that one.
	Note string
}

// Read reads a text that a caller wrote for paths in a place. Tools for the web give files names such as [slug].tsx and
// {-$lang}.tsx, which are patterns that do not match these names. So a name that exists is read as a name, in any segment
// of the text, and a name that does not exist yet is read as both. show makes text fit to stand in a sentence. BadParams,
// Malformed and TooComplex are as of Pattern and glob.Parse; errors of the file system are passed on.
func Read(p api.Place, text string, show func(string) string) (Reading, error) {
	out := Reading{}
	pattern, name := readings(p, text)
	texts := []string{pattern}
	if name != pattern {
		texts = append(texts, name)
	}
	for _, t := range texts {
		sent, err := Pattern(p, t)
		if err != nil {
			return Reading{}, err
		}
		parsed, err := glob.Parse(sent, glob.Options{Scope: p.Path, FoldCase: p.Fold})
		if err != nil {
			return Reading{}, err
		}
		out.Sent, out.globs = append(out.Sent, sent), append(out.globs, parsed)
	}
	switch {
	case len(texts) > 1:
		out.Note = fmt.Sprintf("%s may be a name or a pattern: it is read as both, and the name is %s", show(text), show(out.Sent[1]))
	case pattern != text:
		out.Note = fmt.Sprintf("%s is read as a name, not as a pattern: %s", show(text), show(out.Sent[0]))
	}
	return out, nil
}

// readings returns a text with each name that exists quoted, and the same with each segment quoted that may be a name.
// They are equal if there is one reading.
func readings(p api.Place, text string) (pattern, name string) {
	if len(text) > glob.MaxBytes {
		return text, text
	}
	at, known := p.Path, true // the names before a segment; whether they exist
	if strings.HasPrefix(text, "/") {
		at = ""
	}
	segments := strings.Split(text, "/")
	patterns, names := make([]string, len(segments)), make([]string, len(segments))
	for i, s := range segments {
		patterns[i], names[i] = s, s
		spelled, plain := literal(s)
		if !plain {
			spelled = s
		}
		there, quoted := exists(known, at, spelled), glob.Quote(s)
		switch {
		case s == quoted || plain && there && spelled != "." && spelled != "..": // \. may be a name, and . always exists
		case exists(known, at, s):
			spelled, there = s, true
			if !matchesItself(s) {
				patterns[i], names[i] = quoted, quoted
			}
		case plain:
		case !balanced(s):
			copy(patterns[i:], segments[i:]) // alternatives over several segments
			copy(names[i:], segments[i:])
			return strings.Join(patterns, "/"), strings.Join(names, "/")
		case mayBeName(s):
			names[i] = quoted
			if _, err := glob.Parse(s, glob.Options{}); refusal.CodeOf(err) == refusal.BadParams {
				patterns[i] = quoted
			}
		}
		at, known = at+"/"+spelled, there
	}
	return strings.Join(patterns, "/"), strings.Join(names, "/")
}

// exists reports whether a directory that is known has a name.
func exists(known bool, dir, name string) bool {
	if !known {
		return false
	}
	_, err := os.Lstat(dir + "/" + name)
	return err == nil
}

// matchesItself reports whether a segment matches the name that it is without its meaning.
func matchesItself(segment string) bool {
	g, err := glob.Parse(segment, glob.Options{})
	return err == nil && g.Match(segment)
}

// balanced reports whether each bracket and each brace of a segment has its counterpart in it.
func balanced(segment string) bool {
	var open []rune
	for _, r := range segment {
		switch r {
		case '[', '{':
			open = append(open, r)
		case ']', '}':
			last := len(open) - 1
			if last < 0 || (open[last] == '[') != (r == ']') {
				return false
			}
			open = open[:last]
		}
	}
	return len(open) == 0
}

// sure finds what is in no name that a tool gives: classes of ranges alone and of what is left out, and groups with a comma.
var sure = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[([!^][^\]]*|(.-.)+)\]|\{[^}]*,[^}]*\}`) })

// mayBeName reports whether a segment that is balanced may be meant as a name: it has brackets or braces, and nothing that
// only a pattern has.
func mayBeName(segment string) bool {
	return !strings.ContainsAny(segment, `*?\`) && !sure().MatchString(segment) && strings.ContainsAny(segment, "[{")
}
