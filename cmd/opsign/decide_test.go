package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/wire/cli"
)

// asking returns an asker on a terminal of so many columns, and its person.
func asking(t *testing.T, cols uint16) (*asker, *os.File) {
	person, program := pty(t)
	require.NoError(t, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: cols}))
	tl := testTool()
	tl.Stdout, tl.Stderr = nil, nil // nothing is shown elsewhere
	return &asker{tool: tl, tty: program}, person
}

// What was typed before the question is no answer to it, also if it says yes.
func TestTypeAheadConfirmsNothing(t *testing.T) {
	a, person := asking(t, 80)
	typed(t, person, "yes\n")
	require.Equal(t, "yes\r\n", shownOn(t, person, "\n"), "it arrived")
	answer := make(chan error, 1)
	go func() { answer <- a.confirm(wordsConfirmApprove, "guest.destroy", "guest/web-1", op.Operational) }()
	require.Equal(t, "Sign guest.destroy of guest/web-1 as operational? Type yes: ", shownOn(t, person, "yes: "))
	typed(t, person, "no\n")
	require.ErrorIs(t, <-answer, refusal.Cancelled)
}

// TestTheQuestionIsBelowTheHeadline: on 24 rows, what a request holds pushes its first line off the screen. The question says it again.
func TestTheQuestionIsBelowTheHeadline(t *testing.T) {
	q := questionOf(t, payload(t, func(*op.Payload) {}))
	for _, asks := range []string{wordsConfirmApprove, wordsConfirmReject} {
		a, person := asking(t, 80)
		answer := make(chan error, 1)
		go func() { answer <- a.decides(q, asks, op.Operational) }()
		require.Contains(t, shownOn(t, person, "Type yes: "), "DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE\r\n")
		typed(t, person, "yes\n")
		require.NoError(t, <-answer)
		require.NoError(t, (&asker{}).decides(q, asks, op.Operational), "with --yes")
	}
}

func TestConfirm(t *testing.T) {
	for text, yes := range map[string]bool{"yes\n": true, " yes \n": true, "y\n": false, "YES\n": false, "\n": false, "yes please\n": false,
		"\x04": false} {
		a, person := asking(t, 80)
		answer := make(chan error, 1)
		go func() { answer <- a.confirm(wordsConfirmReject, "guest.wipe", "guest/web-1", "manager") }()
		shownOn(t, person, "Type yes: ")
		typed(t, person, text)
		if err := <-answer; yes {
			require.NoError(t, err, "%q", text)
		} else {
			require.ErrorIs(t, err, refusal.Cancelled, "%q", text)
		}
	}
	require.NoError(t, (&asker{}).confirm(wordsConfirmApprove, "guest.wipe", "guest/web-1", op.Operational), "with --yes")
}

// Nobody can be asked without a terminal, and nothing is shown then.
func TestNobodyIsAskedWithoutATerminal(t *testing.T) {
	r, w := must.Two(os.Pipe())(t)
	defer func() { require.NoError(t, r.Close()) }()
	require.NoError(t, w.Close())
	tl := testTool()
	tl.stdin = r
	_, err := tl.asker(false, keyFlags{})
	require.Equal(t, api.ExitUsage, api.Exit(err))
	a := must.Get(tl.asker(true, keyFlags{}))(t)
	require.Nil(t, a.tty)
	a.close()
}

// A reason can be as long as it likes: no line of it passes for one of ours,
// wherever a request is shown.
func TestAReasonForgesNoLine(t *testing.T) {
	fill := func(text string) string { return text + strings.Repeat(" ", 80-len(text)) }
	for _, blank := range []string{" ", "\u00a0", "\u2800", "\u3164", "\u3000", "x", "x "} {
		reason := strings.ReplaceAll(fill("cleanup")+fill("  goes, as the gate saw it at 03:04:05Z:")+"    bytes  0", " ", blank)
		if len(reason) > op.MaxReason {
			continue
		}
		q := question{bytes: payload(t, func(p *op.Payload) { p.Reason = reason })}
		q.payload = must.Get(op.DecodePayload(q.bytes))(t)
		q.request = api.Request{ID: "j1.1", State: op.StatePending, Why: reason, Facts: []op.Fact{{Name: "bytes", Text: "38 GiB"}, {Name: "files", Text: reason}}}
		text := q.text(view{now: time.Time{}})
		begins := map[string]bool{}
		for line := range strings.Lines(text) {
			begins[strings.TrimRight(line[:min(len(line), 40)], " \n")] = true
		}
		a, person := asking(t, 80)
		shown := make(chan string, 1)
		go func() { shown <- shownOn(t, person, "end\r\n") }()
		require.NoError(t, a.show(text+"end\n"))
		for line := range strings.Lines(strings.ReplaceAll(<-shown, "\r", "")) {
			require.LessOrEqual(t, len([]rune(line)), 80)
			if !strings.HasPrefix(line, cli.Cont) && line != "end\n" {
				require.Contains(t, begins, strings.TrimRight(line[:min(len(line), 40)], " \n"), "%q", line)
			}
		}
		require.Equal(t, text, cli.Told(text, io.Discard), "lines of a file are not cut")
	}
}

// A terminal gets colours, but not if it is dumb or NO_COLOR is set; the words are the same.
func TestColoursOfARequest(t *testing.T) {
	q := questionOf(t, payload(t, func(*op.Payload) {}))
	sequence := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	for _, c := range []struct {
		env     map[string]string
		colours bool
	}{
		{map[string]string{"TERM": "xterm"}, true}, {map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		{map[string]string{"TERM": "dumb"}, false}, {nil, false},
	} {
		a, person := asking(t, 80)
		a.Getenv = func(name string) string { return c.env[name] }
		shown := make(chan string, 1)
		go func() { shown <- shownOn(t, person, "more facts\r\n") }()
		require.NoError(t, a.showRequest(q, a.view(false)))
		text := <-shown
		require.Equal(t, c.colours, strings.HasPrefix(text, "\x1b[1;31mDESTROY guest/web-1 on pve1 - CANNOT BE UNDONE\x1b[0m\r\n"), "%q", text)
		require.Equal(t, c.colours, sequence.MatchString(text), "%q", text)
		require.Contains(t, sequence.ReplaceAllString(text, ""), "DESTROY guest/web-1 on pve1 - CANNOT BE UNDONE\r\n  request j1.1: ")
	}
}
