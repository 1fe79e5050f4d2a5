package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"gated/internal/wire/cli"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// escapeTime is how long the rest of an escape sequence may take, in
// milliseconds. A person's next key takes longer.
const escapeTime = 50

// screen is the controlling terminal while review has it: keys come one by one
// and do not show. What it writes is made of safe lines (see wrapped).
type screen struct {
	tty    *os.File
	plain  bool           // no control sequences: the terminal knows none
	before *term.State    // as it was found
	stop   chan struct{}  // ends the watch for signals
	caught chan os.Signal // what ends the program
}

// openScreen takes the terminal in a file and watches for signals, so that it is
// left as it was found. Whoever calls it closes the screen.
func openScreen(tty *os.File, kind string) (*screen, error) {
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		return nil, err
	}
	s := &screen{tty: tty, plain: kind == "" || kind == "dumb", before: before}
	return s, s.take()
}

// take makes keys come one by one. Output and the keys that interrupt stay as they
// are, which term.MakeRaw would not leave: Ctrl-C ends a wait for the gate, too. There
// is no suspending, which would leave the shell a terminal that does not show what is
// typed.
func (s *screen) take() error {
	now, err := unix.IoctlGetTermios(int(s.tty.Fd()), unix.TCGETS)
	if err != nil {
		return err
	}
	raw := *now
	raw.Lflag = raw.Lflag&^(unix.ICANON|unix.ECHO) | unix.ISIG
	raw.Iflag |= unix.ICRNL
	raw.Oflag |= unix.OPOST | unix.ONLCR
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME], raw.Cc[unix.VSUSP] = 1, 0, 0
	s.caught, s.stop = make(chan os.Signal, 1), make(chan struct{})
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(s.caught, sig)
		}
	}
	go func(caught chan os.Signal, stop chan struct{}) {
		select {
		case sig := <-caught:
			s.restore()
			signal.Reset(sig)
			_ = syscall.Kill(os.Getpid(), sig.(syscall.Signal)) // to end as if it had not been caught
		case <-stop:
		}
	}(s.caught, s.stop)
	if err = unix.IoctlSetTermios(int(s.tty.Fd()), unix.TCSETS, &raw); err != nil {
		s.give()
	}
	return err
}

// give puts the terminal back as it was and watches for signals no more.
func (s *screen) give() {
	s.restore()
	signal.Stop(s.caught)
	close(s.stop)
}

func (s *screen) restore() { _ = term.Restore(int(s.tty.Fd()), s.before) }

// close leaves the terminal as it was found, on a line of its own.
func (s *screen) close() {
	s.write("\n")
	s.give()
}

// aside runs what uses the terminal in the ordinary way: it asks for a line or a
// passphrase, or says to touch a key.
func (s *screen) aside(do func() error) error {
	s.write("\n")
	s.give()
	err := do()
	if again := s.take(); err == nil {
		err = again
	}
	return err
}

// ask reads a line that shows as it is typed.
func (s *screen) ask(question string) (line string, err error) {
	err = s.aside(func() error {
		s.write(question)
		b, err := readLine(s.tty)
		line = strings.TrimSpace(string(b))
		return err
	})
	return line, err
}

// write drops errors: a terminal that is gone shows when a key is read.
func (s *screen) write(text string) { _, _ = s.tty.WriteString(text) }

// size returns the rows and columns of the terminal.
func (s *screen) size() (rows, cols int) { return cli.Size(s.tty) }

// forget drops what was typed before: keys that were meant for another screen
// must not decide on this one.
func (s *screen) forget() { forget(s.tty) }

// clear begins an empty screen.
func (s *screen) clear() {
	if s.plain {
		s.write("\n")
		return
	}
	s.write("\x1b[H\x1b[2J")
}

// The keys that have no letter.
const (
	keyNone = iota // nothing that means anything here
	keyUp   = -iota
	keyDown
)

// key returns the next key: a byte of ASCII, keyUp, keyDown or keyNone. It fails
// when the terminal is gone.
func (s *screen) key() (int, error) {
	b, err := s.read()
	switch {
	case err != nil:
		return keyNone, err
	case b == 0x1b:
		return s.escape()
	case b == '\n' || b >= 0x20 && b < 0x7f:
		return int(b), nil
	}
	return keyNone, nil
}

// escape reads a whole escape sequence (ECMA-48), so that none of its letters
// passes for a key.
func (s *screen) escape() (int, error) {
	b, ok := s.soon()
	switch {
	case !ok:
		return keyNone, nil
	case b == 'O':
		b, _ = s.soon()
		return arrow(string(b)), nil
	case b != '[':
		return keyNone, nil // a letter with Alt
	}
	var seq []byte
	for len(seq) < 16 {
		if b, ok = s.soon(); !ok {
			return keyNone, nil
		}
		if seq = append(seq, b); b >= 0x40 && b < 0x7f {
			break
		}
	}
	return arrow(string(seq)), nil
}

func arrow(seq string) int {
	switch seq {
	case "A", "5~":
		return keyUp
	case "B", "6~":
		return keyDown
	}
	return keyNone
}

// soon returns a byte if it comes within escapeTime.
func (s *screen) soon() (byte, bool) {
	for {
		fds := []unix.PollFd{{Fd: int32(s.tty.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, escapeTime)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return 0, false
		}
		b, err := s.read()
		return b, err == nil
	}
}

func (s *screen) read() (byte, error) {
	one := make([]byte, 1)
	if n, err := s.tty.Read(one); n != 1 {
		return 0, fmt.Errorf("read from the terminal: %w", err)
	}
	return one[0], nil
}
