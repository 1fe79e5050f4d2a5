package main

import (
	"fmt"
	"strings"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/op"
)

// What is said where a reservation cannot be taken from somebody is in this
// file.

// mostNamed is how many scopes are named of those that are no part of one.
const mostNamed = 10

func noAgent(name string) error {
	return op.Refuse(op.UnknownTarget, "no agent %q is registered", name).WithHint("gated agent list shows who is")
}

func hasItAlready(r api.Reservation) error {
	return op.Refuse(op.BadParams, "%s has %s already", r.Agent, r.ID).WithHint("say with --to who else gets it")
}

// cannotBeSeparated says which reservations of its holder's keep r with it.
func cannotBeSeparated(r api.Reservation, tied []api.Reservation) error {
	names := make([]string, len(tied))
	for i, o := range tied {
		names[i] = fmt.Sprintf("%s (%s)", o.ID, list(o.Patterns))
	}
	return op.Refuse(op.Conflict, "%s (%s) cannot be taken from %s alone: it overlaps %s, which is %s's too, and two agents would have the same paths",
		r.ID, list(r.Patterns), r.Agent, strings.Join(names, " and "), r.Agent).
		WithHint("%s releases that first; or all of the directory is taken away: gated release-all --scope %s", r.Agent, argument(r.Scope))
}

// nothingReserved refuses to ask for nothing.
func nothingReserved(path string, below []string) error {
	refusal := op.Refuse(op.UnknownTarget, "nothing is reserved in %s", path)
	if len(below) == 0 {
		return refusal.WithHint("gated reservations --all shows what is")
	}
	shown := below[:min(len(below), mostNamed)]
	lines := make([]string, len(shown))
	for i, path := range shown {
		lines[i] = "gated release-all --scope " + argument(path)
	}
	text := strings.Join(lines, "; ")
	if n := len(below) - len(shown); n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return refusal.WithHint("what is reserved in scopes below it is no part of it: %s", text)
}

// reservedBefore says that what is reserved is of a directory that is gone.
func reservedBefore(path string, of []api.Reservation) error {
	names := make([]string, len(of))
	for i, r := range of {
		names[i] = r.ID
	}
	return op.Refuse(op.UnknownTarget, "nothing is reserved in %s as it is now: %s is of another directory that was there before", path,
		strings.Join(names, ", ")).WithHint("it ends by its time, or its holder releases it")
}

// argument writes a path as a shell takes it.
func argument(path string) string {
	if shown := cli.Inline(path); shown != path {
		return shown // for the eyes alone
	}
	if path != "" && strings.Trim(path, shellPlain) == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// shellPlain are characters that no shell does anything with.
const shellPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%"
