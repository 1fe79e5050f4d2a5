package cli

import "gated/internal/op"

// The words that people read of both tools are in this file, words_refusal.go and
// words_request.go.

// What the flags do.
const (
	flagJSON   = "answer with JSON on standard output, one document a line"
	flagSocket = "the daemon's `PATH`"
	flagRemote = "the gate of another host, `ssh://[USER@]HOST[:PORT][/PATH]`, through the system's ssh"
	flagParam  = "a parameter of the operation; may be given again"
)

// What is wrong with a command line.
const (
	wordsUsage        = "usage: %s\n  hint: %s --help\n"
	wordsNoCommand    = "a command is missing"
	wordsTwoGates     = "--remote and --socket each name a gate: say one"
	wordsEmptyRemote  = "--remote is empty: name the gate's host, ssh://HOST, or leave the flag away for the gate of this host"
	wordsEmptySocket  = "--socket is empty: name the daemon's path, or leave the flag away"
	wordsTwoVariables = "GATED_HOST and GATED_SOCKET each name a gate: unset one, or say which with --remote or --socket"
	wordsNotPair      = "not NAME=VALUE"
)

// Refusals. Those that end a line have its end.
const (
	wordsInterrupted = "interrupted"
	wordsRefused     = "%s: %s\n"
	wordsHint        = "  hint: %s\n"
	wordsUnreachable = "the daemon cannot be reached\n"
	wordsTried       = "  tried %s: %s\n"
	wordsLost        = "note: the daemon went away; it is waited for, half a minute at most\n"
	wordsBack        = "note: the daemon is back\n"
)

// wordsPrinted comes between a step and what it printed.
const wordsPrinted = " printed:\n"

func fileExists(path string) error {
	return op.Refuse(op.Conflict, "%s exists", path).WithHint("name a new file")
}

func fileTooLarge(path string, limit int64) error {
	return op.Refuse(op.Oversized, "%s has more than %d bytes", path, limit)
}
