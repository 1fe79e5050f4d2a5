package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// asker is where a decision is shown and asked for. Both are on the one
// controlling terminal, wherever standard error goes, so that nobody confirms
// what they were not shown. With --yes nobody is asked, and it shows beside the
// answer.
type asker struct {
	*tool
	tty *os.File // nil with --yes
}

const wordsNeedsYes = "there is no terminal to ask on: read opsign show ID, then say --yes"

// asker refuses, before anything is shown, a run in which nobody can be asked,
// or whose flags are wrong. Whoever calls it closes the asker.
func (t *tool) asker(yes bool, k keyFlags) (*asker, error) {
	if err := t.check(k); err != nil {
		return nil, err
	}
	t.unasked = yes
	if yes {
		return &asker{tool: t}, nil
	}
	if !cli.IsTerminal(t.stdin) {
		return nil, cli.Usage(wordsNeedsYes)
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, cli.Usage(wordsNeedsYes)
	}
	return &asker{tool: t, tty: tty}, nil
}

func (a *asker) close() {
	if a.tty != nil {
		_ = a.tty.Close() // what was asked was answered
	}
}

// show shows text of several lines.
func (a *asker) show(text string) error { return a.write(text, cli.Told) }

// showRequest shows a request, whose parts are coloured where the terminal has
// colours.
func (a *asker) showRequest(q question, details bool) error {
	return a.write(q.text(a.view(details)), a.painted)
}

func (a *asker) write(text string, layout func(string, io.Writer) string) error {
	if a.tty == nil {
		a.Say("%s", layout(text, a.Stderr))
		return nil
	}
	_, err := a.tty.WriteString(layout(text, a.tty))
	return err
}

// painted is cli.Told with colours where the terminal has them.
func (t *tool) painted(text string, to io.Writer) string {
	if !cli.Colours(to, t.Getenv) {
		return cli.Told(text, to)
	}
	return strings.Join(cli.Paint(cli.Wrapped(text, cli.Width(to)), cannotUndo), "\n") + "\n"
}

// confirm asks whether to sign; only "yes", typed after the question is there,
// is one.
func (a *asker) confirm(question, name, target string, role op.Role) error {
	if a.tty == nil {
		return nil
	}
	forget(a.tty)
	asked := cli.Told(fmt.Sprintf(question, cli.Inline(name), cli.Inline(target), cli.Inline(string(role))), a.tty)
	if _, err := a.tty.WriteString(strings.TrimSuffix(asked, "\n") + " "); err != nil {
		return err
	}
	line, err := readLine(a.tty)
	defer clear(line)
	if err != nil || !bytes.Equal(bytes.TrimSpace(line), []byte("yes")) {
		return notConfirmed()
	}
	return nil
}

// forget drops what was typed into a terminal and not read yet.
func forget(tty *os.File) { _ = unix.IoctlSetInt(int(tty.Fd()), unix.TCFLSH, unix.TCIFLUSH) }

func notConfirmed() error {
	return refusal.New(refusal.Cancelled, "not confirmed, nothing was signed").
		WithHint("to sign, run it again and type yes")
}
