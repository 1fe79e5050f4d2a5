package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
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
	now, err := unix.IoctlGetTermios(int(s.tty.Fd()), getTermios)
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
	if err = unix.IoctlSetTermios(int(s.tty.Fd()), setTermios, &raw); err != nil {
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
	b, ok := s.soon(escapeTime)
	switch {
	case !ok:
		return keyNone, nil
	case b == 'O':
		b, _ = s.soon(escapeTime)
		return arrow(string(b)), nil
	case b != '[':
		return keyNone, nil // a letter with Alt
	}
	var seq []byte
	for len(seq) < 16 {
		if b, ok = s.soon(escapeTime); !ok {
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

// soon returns a byte if it comes within so many milliseconds.
func (s *screen) soon(most int) (byte, bool) {
	for {
		fds := []unix.PollFd{{Fd: int32(s.tty.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, most)
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

// settling is how long a new screen takes no key, from when it is drawn and from
// each key that it does not take. It is longer than a key that is held down
// takes to come again, so that one press decides on one request.
const settling = 750 * time.Millisecond

// leastCols is the narrowest screen that text is shown on.
const leastCols = 20

// pager shows a text that may be longer than the screen, part by part.
type pager struct {
	screen  *screen
	heading string // which text this is, below it
	said    string // messages that are too long to stand above the text: they are read as the beginning of it
	text    string
	colours bool
	keys    [2]string // what is asked where the text ends, and before
	top     int       // the first line of the text on the screen
	read    int       // how many lines were shown, from the first one on
	seen    bool      // all of them were
	cols    int       // of the screen as it was drawn last

	now   func() time.Time
	quiet time.Duration // a key counts after so long without one
	since time.Time     // when it was drawn first, or a key came last
	begun bool          // a key counted: from then on only those that decide have to come alone
}

// leastBody is how many lines of the text a message leaves room for. On a small screen, one of shortMessage lines leaves
// less, but always a line.
const (
	leastBody    = 4
	shortMessage = 2
)

// pager begins a new text. What was typed before it shows is dropped.
func (r *review) pager(heading, text string, keys [2]string) *pager {
	r.screen.forget()
	return &pager{screen: r.screen, heading: heading, text: text, keys: keys, now: r.now, quiet: r.settling,
		colours: cli.Colours(r.screen.tty, r.Getenv)}
}

// again goes on with a text at the part that was shown, after another screen.
func (p *pager) again(settling time.Duration) {
	p.screen.forget()
	p.quiet, p.since, p.begun = settling, time.Time{}, false
}

// turn shows another text in the place of this one, from its line top on. The lines
// before that are those of the text before.
func (p *pager) turn(text string, top int) {
	if p.text = text; top > 0 {
		top += len(p.above())
	}
	p.top = top
}

// begin makes a message that is too long to stand above the text the beginning of it, after what stands there already. It
// is shown next, and the text below it is read again. One that comes again stands there once.
func (p *pager) begin(message string) {
	p.said = strings.TrimSuffix(p.said, message)
	top := len(p.above())
	p.said += message
	p.top, p.read = top, min(p.read, top)
}

// above are the lines of the long messages before the text.
func (p *pager) above() []string {
	if p.said == "" {
		return nil
	}
	return cli.Wrapped(p.said, p.cols-1)
}

// key draws the text with the message above it and returns the next key that is
// not for paging. The message is said once.
func (p *pager) key(message *string) (int, error) {
	for {
		bottom, height, lines := p.draw(*message)
		if height > 0 {
			*message = "" // it was shown
		}
		if p.since.IsZero() {
			p.since = p.now()
		}
		key, err := p.typed()
		if err != nil {
			return key, err
		}
		switch forward := key == keyDown || key == ' ' || key == '\n'; {
		case key == keyUp:
			p.top = max(p.top-height, 0)
		case forward && bottom < lines:
			p.top = bottom
		case forward:
			*message += "that is all of it\n"
		default:
			return key, nil
		}
	}
}

// deciding are the keys that approve, reject or mark. One within a pasted word decides nothing.
const deciding = "amry"

// typed returns the next key that counts.
func (p *pager) typed() (int, error) {
	for {
		key, err := p.screen.key()
		if err != nil {
			return key, err
		}
		now := p.now()
		soon := now.Sub(p.since) < p.quiet
		p.since = now // a key that is held down never counts
		if key == keyNone || soon && (!p.begun || strings.ContainsRune(deciding, rune(key))) {
			continue
		}
		p.begun = true
		return key, nil
	}
}

// fits reports whether a screen has room for a heading, a line of the text and
// the keys.
func fits(rows, cols int, keys [2]string) bool {
	return cols >= leastCols && rows >= 2+keyRows(cols-1, keys)
}

// keyRows returns how many lines the keys take, wherever the text ends.
func keyRows(cols int, keys [2]string) int {
	return max(len(cli.Wrapped(keys[0], cols)), len(cli.Wrapped(keys[1], cols)))
}

const wordsTooSmall = "the terminal is too small to review on: make it larger"

// draw shows what fits, and returns the line after it, how much fits, and how
// many lines there are. On a screen of another width the lines are others, and
// are read from the first one. On one that is too small nothing is shown, and
// nothing counts as read.
func (p *pager) draw(message string) (bottom, height, lines int) {
	rows, cols := p.screen.size()
	if !fits(rows, cols, p.keys) {
		p.screen.clear()
		p.screen.write(wordsTooSmall + " ")
		return p.top, 0, p.top + 1
	}
	if cols != p.cols {
		p.cols, p.top, p.read = cols, 0, 0
	}
	cols-- // a terminal may go to the next line by itself after its last column
	keys := cli.Wrapped(p.keys[1], cols)
	var said []string
	if message != "" {
		said = cli.Wrapped(message, cols)
	}
	room := rows - 1 - keyRows(cols, p.keys)
	if len(said) > max(room-leastBody, min(room-1, shortMessage)) {
		said = nil
		p.begin(message)
	}
	text := cli.Wrapped(p.text, cols)
	if p.colours {
		text = cli.Paint(text, op.CannotUndo)
	}
	body := slices.Concat(p.above(), text)
	height = room - len(said)
	p.top = min(p.top, len(body)-1)
	bottom = min(p.top+height, len(body))
	if p.top <= p.read {
		p.read = max(p.read, bottom)
	}
	p.seen = p.seen || p.read >= len(body)
	p.screen.clear()
	p.lines(said)
	p.lines(body[p.top:bottom])
	p.lines([]string{p.status(cols, p.part(bottom, len(body)))})
	if bottom == len(body) {
		keys = cli.Wrapped(p.keys[0], cols)
	}
	p.lines(keys[:len(keys)-1])
	p.screen.write(keys[len(keys)-1] + " ")
	return bottom, height, len(body)
}

// leastHeading is how many columns of a heading stay beside the lines that are shown.
const leastHeading = 12

// status is the line below the text. What does not fit into it is cut, and the line says so.
func (p *pager) status(cols int, part string) string {
	return cutTo(cutTo(p.heading, max(cols-len(part), leastHeading))+part, cols)
}

// cutTo returns a line in so many columns, with dots where it is longer.
func cutTo(line string, cols int) string {
	const dots = "..."
	if lines := cli.Wrapped(line, cols); len(lines) == 1 {
		return lines[0]
	}
	return cli.Wrapped(line, cols-len(dots))[0] + dots
}

// part says which lines are shown where that is not all of them.
func (p *pager) part(bottom, lines int) string {
	if p.top == 0 && bottom == lines {
		return ""
	}
	return fmt.Sprintf(", lines %d to %d of %d", p.top+1, bottom, lines)
}

func (p *pager) lines(lines []string) {
	for _, line := range lines {
		p.screen.write(line + "\n")
	}
}

// maxLine is the longest line that is read from a terminal, in bytes.
const maxLine = 4096

// passphrase returns what asks for the passphrase of a key on the controlling
// terminal, and refuses, as NotAllowed, where there is none.
func (t *tool) passphrase(path string) func() ([]byte, error) {
	words := "Passphrase of %s: "
	return func() ([]byte, error) {
		if t.looks {
			return nil, errLocked
		}
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return nil, nobodyToAsk(path)
		}
		defer func() { _ = tty.Close() }() // what was asked was answered
		question := fmt.Sprintf(words, cli.Inline(path))
		words = "Wrong passphrase. Passphrase of %s: "
		return readHidden(tty, question)
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
	now, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	hidden := *now
	hidden.Lflag = hidden.Lflag&^unix.ECHO | unix.ICANON | unix.ISIG
	hidden.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(fd, setTermiosFlush, &hidden); err != nil {
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
