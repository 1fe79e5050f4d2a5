package main

import (
	"fmt"
	"strings"

	"gated/internal/wire/cli"
)

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// list joins patterns.
func list(patterns []string) string {
	out := make([]string, len(patterns))
	for i, p := range patterns {
		out[i] = cli.Inline(p)
	}
	return strings.Join(out, ", ")
}
