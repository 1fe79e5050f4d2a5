package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

func quiet() *Tool {
	return &Tool{Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}
}

func TestExplainIsSafeToPrint(t *testing.T) {
	got := explain("gated x", refusal.New(refusal.Conflict, "one\ngated: two \x1b[2J").WithHint("do\u202e this"))
	require.Equal(t, "conflict: one\n    \"gated: two \\x1b[2J\"\n  hint: \"do\\u202e this\"\n", got)
	require.Equal(t, "usage: what\n  hint: gated x --help\n", explain("gated x", Usage("what")))
	require.Equal(t, "internal: disk on fire\n", explain("gated x", errors.New("disk on fire")))
	gone := &client.Unreachable{Tried: []client.Attempt{{Path: "/a", Err: os.ErrNotExist, Hint: "start it"}, {Path: "/b\n", Err: os.ErrNotExist}}}
	require.Equal(t, "the daemon cannot be reached\n  tried /a: file does not exist\n  hint: start it\n  tried \"/b\\n\": file does not exist\n",
		explain("gated x", gone))
}

// Joined errors often have one cause, and it is said once.
func TestExplainSaysACauseOnce(t *testing.T) {
	cause := errors.New("the store is unavailable: file is not a database (26)")
	got := explain("gated x", refusal.New(refusal.Malformed, "%v", errors.Join(fmt.Errorf("read a.db: %w", cause), cause, cause, io.EOF)))
	require.Equal(t, "malformed: read a.db: the store is unavailable: file is not a database (26)\n    EOF\n", got)
}

// A file of this host that the user may not use is no fault of the program: it says whose file, and what to do.
func TestAFileThatTheUserMayNotUse(t *testing.T) {
	said := new(bytes.Buffer)
	tool := &Tool{Stdout: io.Discard, Stderr: said}
	err := fmt.Errorf("look: %w", &fs.PathError{Op: "lstat", Path: "/var/lib/gated/a", Err: syscall.EACCES})
	require.Equal(t, api.ExitRefused, tool.Fail("gated fsck", err))
	require.Equal(t, "not_allowed: look: lstat /var/lib/gated/a: permission denied\n"+
		"  hint: ls -ld /var/lib/gated/a says whose it is: run this as that user, or as root, sudo gated fsck\n", said.String())
	for _, other := range []error{refusal.New(refusal.Conflict, "x"), &client.Unreachable{Tried: []client.Attempt{{Path: "/a", Err: err}}},
		fmt.Errorf("no path: %w", syscall.EACCES), &fs.PathError{Op: "open", Path: "/a", Err: syscall.ENOENT}} {
		require.Equal(t, other, denied("gated fsck", other))
	}
}

// Whoever asked a daemon that then went away is told what is known of it.
func TestUnanswered(t *testing.T) {
	never := &client.Unreachable{Tried: []client.Attempt{{Path: "/a", Err: os.ErrNotExist}}}
	broke := &client.Unreachable{Tried: never.Tried, Asked: true}
	require.NoError(t, Unanswered(nil, "known", "doubtful"))
	refused := refusal.New(refusal.Conflict, "x")
	require.Equal(t, refused, Unanswered(refused, "known", "doubtful"))
	require.Equal(t, never, Unanswered(never, "", "doubtful"), "nothing was asked")
	const tried = "the daemon cannot be reached\n  tried /a: file does not exist\n"
	for _, c := range []struct {
		gone                  error
		known, doubtful, want string
	}{{never, "known", "doubtful", "known"}, {broke, "known", "doubtful", "doubtful"}, {broke, "known", "", "known"}} {
		err := Unanswered(c.gone, c.known, c.doubtful)
		require.Equal(t, tried+"  hint: "+c.want+"\n", explain("x", err))
		require.Equal(t, c.want, failureOf(err).Error.Hint)
		require.Equal(t, api.ExitUnreachable, api.Exit(err))
	}
}

// Whoever waits for what a daemon accepted is told so, also if the next daemon cannot start.
func TestUnheard(t *testing.T) {
	require.NoError(t, Unheard(nil, "known"))
	refused := refusal.New(refusal.Conflict, "x")
	require.Equal(t, refused, Unheard(refused, "known"))
	require.Equal(t, "the daemon cannot be reached\n  hint: known\n", explain("x", Unheard(&client.Unreachable{}, "known")))
	down := refusal.New(refusal.Unavailable, "the daemon cannot start: x").WithHint("mend it")
	require.Equal(t, "unavailable: the daemon cannot start: x\n  hint: mend it\n    known\n", explain("x", Unheard(down, "known")))
	require.Equal(t, "mend it", down.Hint, "the refusal is the caller's")
	require.Equal(t, api.ExitInternal, api.Exit(Unheard(down, "known")))
}

// No code leaves whoever meets it without a next step, unless that hangs on what it is about: then a hint that is the same
// everywhere leads astray.
func TestEveryCodeHasANextStep(t *testing.T) {
	for _, m := range api.Codes {
		if slices.Contains([]refusal.Code{refusal.Malformed, refusal.UnknownTarget, refusal.Conflict, refusal.TooComplex, refusal.NotAllowed}, m.Code) {
			require.Equal(t, string(m.Code)+": x\n", explain("x", refusal.New(m.Code, "x")))
			continue
		}
		text := explain("opsign approve", refusal.New(m.Code, "what was wrong"))
		first, hint, ok := strings.Cut(text, "\n  hint: ")
		require.True(t, ok, m.Code)
		require.Equal(t, string(m.Code)+": what was wrong", first)
		require.Greater(t, len(hint), 20, m.Code)
		require.NoError(t, op.CheckText("hint", strings.TrimSuffix(hint, "\n")), m.Code)
		require.Equal(t, api.HintOf(m.Code), failureOf(refusal.New(m.Code, "x")).Error.Hint, "JSON says it too")
		require.Contains(t, explain("x", refusal.New(m.Code, "x").WithHint("do this")), "  hint: do this\n", "its own comes first")
	}
	require.NotContains(t, explain("x", refusal.New("of_next_year", "x")), "hint")
	require.Equal(t, "of_next_year\n", explain("x", refusal.New("of_next_year", "")), "no colon before nothing")
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {refusal.New(refusal.StaleTarget, "x"), 1}, {Usage("x"), 2}, {exit(3), 3}, {&client.Unreachable{}, 4},
		{refusal.New(refusal.Unavailable, "x"), 5}, {errors.New("x"), 5}, {context.Canceled, 1},
	} {
		require.Equal(t, c.want, quiet().Fail("gated x", c.err), "%v", c.err)
	}
	require.NoError(t, Ended(0))
	require.Equal(t, exit(3), Ended(3))
}

func TestAFailureIsOneJSONDocument(t *testing.T) {
	var out bytes.Buffer
	tl := quiet()
	tl.Stdout, tl.JSON = &out, true
	tl.Fail("gated x", refusal.New(refusal.Replayed, "was\nused").At(refusal.StageNonce).About(op.StepID{Job: 3, Index: 1}, op.StateSucceeded))
	require.Equal(t, `{"error":{"code":"replayed","detail":"was\nused","hint":"it counts once: opsign show ID says what became of it; to do it again, ask again","stage":"nonce","request":"j3.1","state":"succeeded"}}`+"\n",
		out.String())
	out.Reset()
	tl.Fail("gated x", &client.Unreachable{Tried: []client.Attempt{{Path: "/a", Err: os.ErrNotExist}}})
	require.Contains(t, out.String(), `{"error":{"code":"unavailable","detail":`)
	out.Reset()
	tl.Fail("gated x", context.Canceled)
	require.Equal(t, `{"error":{"code":"cancelled","detail":"interrupted"}}`+"\n", out.String())
	out.Reset()
	tl.Fail("gated x", Usage("x"))
	tl.Fail("gated x", exit(3))
	require.Empty(t, out.String())
}

func TestRowCannotBreakATable(t *testing.T) {
	require.Equal(t, "a\t-\t\"b\\tc\"", Row("a", "", "b\tc"))
}
