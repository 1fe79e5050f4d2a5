package main

import (
	"fmt"
	"strconv"
	"strings"

	"gated/internal/cli"
)

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// quoted shows another agent's words as data: always between quotes, in one
// line. "" stays empty.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	if shown := cli.Inline(s); shown != s {
		return shown
	}
	return strconv.Quote(s)
}

// list joins patterns.
func list(patterns []string) string {
	out := make([]string, len(patterns))
	for i, p := range patterns {
		out[i] = cli.Inline(p)
	}
	return strings.Join(out, ", ")
}
