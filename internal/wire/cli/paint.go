package cli

import (
	"io"
	"os"
	"strings"
)

// Dash stands between the parts of a headline: a dot where the locale has one, else
// plain ASCII.
func Dash(getenv func(string) string) string {
	if utf8Locale(getenv) {
		return " · "
	}
	return " - "
}

// Ellipsis stands where a cell was cut.
func Ellipsis(getenv func(string) string) string {
	if utf8Locale(getenv) {
		return "…"
	}
	return "..."
}

// utf8Locale reports whether the locale's characters are UTF-8. The first variable
// that is set decides (setlocale(3)).
func utf8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// Colours reports whether a terminal may be sent colours: it is one, knows control
// sequences, and NO_COLOR (no-color.org) is not set.
func Colours(to io.Writer, getenv func(string) string) bool {
	f, ok := to.(*os.File)
	return ok && IsTerminal(f) && getenv("NO_COLOR") == "" && getenv("TERM") != "" && getenv("TERM") != "dumb"
}

// The control sequences of colours (ECMA-48, 8.3.117).
const (
	bold  = "\x1b[1m"
	alarm = "\x1b[1;31m"
	plain = "\x1b[0m"
)

// Paint colours lines that Wrapped made of a text. Only whole lines are coloured, by
// where they begin: headlines at the left edge, where no words of others stand, and the
// titles of parts below them. A headline that ends with alarming words is an alarm.
func Paint(lines []string, alarming string) []string {
	out := make([]string, 0, len(lines))
	for i := 0; i < len(lines); {
		next := i + 1
		for next < len(lines) && strings.HasPrefix(lines[next], Cont) {
			next++
		}
		whole, colour := strings.ReplaceAll(strings.Join(lines[i:next], ""), Cont, ""), ""
		switch title := strings.HasPrefix(whole, "  ") && !strings.HasPrefix(whole, "   ") && strings.HasSuffix(whole, ":"); {
		case !strings.HasPrefix(whole, " ") && strings.HasSuffix(whole, alarming):
			colour = alarm
		case title || !strings.HasPrefix(whole, " "):
			colour = bold
		}
		for _, line := range lines[i:next] {
			if colour != "" {
				line = colour + line + plain
			}
			out = append(out, line)
		}
		i = next
	}
	return out
}
