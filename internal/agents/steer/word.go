package steer

import "strings"

// Word is a word of a command, as far as it is known before the command runs.
type Word string

// What stands in a Word for text that only the shell will know.
const (
	Any  = "\x01" // any text: the value of a variable, the output of a command
	Glob = "\x02" // any text without a slash: a pattern over the names of files
)

// Known reports whether the whole word is known.
func (w Word) Known() bool { return !strings.ContainsAny(string(w), Any+Glob) }

// Command is one program that a shell would run.
type Command struct {
	Words []Word // the program first; at least one
	Dir   string // in which it would run, absolute; empty if that is not known
}

// base returns the name of a program without its directory.
func base(w Word) Word {
	if at := strings.LastIndexByte(string(w), '/'); at >= 0 {
		return w[at+1:]
	}
	return w
}

// globMatches reports whether text matches a pattern in which each star matches any text. Characters that stand for
// unknown text match a star alone.
func globMatches(pattern, text, star string) bool {
	first, rest, more := strings.Cut(pattern, star)
	if !more {
		return text == first
	}
	text, ok := strings.CutPrefix(text, first)
	for ok && more {
		first, rest, more = strings.Cut(rest, star)
		if !more {
			return strings.HasSuffix(text, first)
		}
		at := strings.Index(text, first)
		if ok = at >= 0; ok {
			text = text[at+len(first):]
		}
	}
	return ok
}
