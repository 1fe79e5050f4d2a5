package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// maxLine is the longest line that is read from a terminal, in bytes.
const maxLine = 4096

// passphrase returns what asks for the passphrase of a key on the controlling
// terminal, and refuses, as NotAllowed, where there is none.
func (t *tool) passphrase(path string) func() ([]byte, error) {
	return func() ([]byte, error) {
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return nil, nobodyToAsk(path)
		}
		defer func() { _ = tty.Close() }() // what was asked was answered
		return readHidden(tty, fmt.Sprintf("Passphrase of %s: ", cli.Inline(path)))
	}
}

// readHidden asks for a line that is not shown, and drops what was typed before, which
// term.ReadPassword would take for an answer.
// The terminal shows what is typed again afterwards, also when a signal ends the
// program.
func readHidden(tty *os.File, question string) ([]byte, error) {
	fd := int(tty.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	now, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	hidden := *now
	hidden.Lflag = hidden.Lflag&^unix.ECHO | unix.ICANON | unix.ISIG
	hidden.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(fd, unix.TCSETSF, &hidden); err != nil {
		return nil, err
	}
	restore := func() { _ = term.Restore(fd, before) }
	defer restore()
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer close(done)
	defer signal.Stop(signals)
	go func() {
		select {
		case s := <-signals:
			restore()
			signal.Reset(s)
			_ = syscall.Kill(os.Getpid(), s.(syscall.Signal)) // to end as if it had not been caught
		case <-done:
		}
	}()
	if _, err := io.WriteString(tty, question); err != nil {
		return nil, err
	}
	line, err := readLine(tty)
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(tty, "\n") // the one that was typed did not show
	return line, err
}

// readLine reads a line without its end, byte by byte so that the next line
// stays for the next reader.
func readLine(f *os.File) ([]byte, error) {
	line := make([]byte, 0, maxLine) // never grown, so that no copy of a secret stays behind
	for one := make([]byte, 1); ; {
		n, err := f.Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return line, nil
		case n == 1 && len(line) == maxLine:
			return nil, errLongLine
		case n == 1:
			line = append(line, one[0])
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case err != nil:
			return nil, err
		}
	}
}

var errLongLine = errors.New("the line is too long")

func nobodyToAsk(path string) error {
	return refusal.New(refusal.NotAllowed, "%s needs a passphrase and there is no terminal to ask on", path).
		WithHint("load it with ssh-add and use --agent")
}
