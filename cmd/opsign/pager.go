package main

import (
	"fmt"
	"time"

	"gated/internal/wire/cli"
)

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
	text    string
	colours bool
	keys    [2]string // what is asked where the text ends, and before
	top     int       // the first line of the text on the screen
	read    int       // how many lines were shown, from the first one on
	seen    bool      // all of them were
	cols    int       // of the screen as it was drawn last

	now   func() time.Time
	quiet time.Duration // a key counts after so long without one; nothing after the first that did
	since time.Time     // when it was drawn first, or a key was not taken
}

// leastBody is how many lines of the text a long message leaves room for.
const leastBody = 4

// pager begins a new text. What was typed before it shows is dropped.
func (r *review) pager(heading, text string, keys [2]string) *pager {
	r.screen.forget()
	return &pager{screen: r.screen, heading: heading, text: text, keys: keys, now: r.now, quiet: r.settling,
		colours: cli.Colours(r.screen.tty, r.Getenv)}
}

// again goes on with a text at the part that was shown, after another screen.
func (p *pager) again(settling time.Duration) {
	p.screen.forget()
	p.quiet, p.since = settling, time.Time{}
}

// turn shows another text in the place of this one, from its line top on. The lines
// before that are those of the text before.
func (p *pager) turn(text string, top int) { p.text, p.top = text, top }

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
			*message = "that is all of it\n"
		default:
			return key, nil
		}
	}
}

// typed returns the next key that counts.
func (p *pager) typed() (int, error) {
	for {
		key, err := p.screen.key()
		now := p.now()
		switch {
		case err != nil:
			return key, err
		case now.Sub(p.since) < p.quiet:
			p.since = now // a key that is held down never counts
		case key != keyNone:
			p.quiet = 0
			return key, nil
		}
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
	body, keys := cli.Wrapped(p.text, cols), cli.Wrapped(p.keys[1], cols)
	var said []string
	if message != "" {
		said = cli.Wrapped(message, cols)
	}
	room := rows - 1 - keyRows(cols, p.keys)
	said = said[:min(len(said), max(room-leastBody, 0))]
	height = room - len(said)
	p.top = min(p.top, len(body)-1)
	bottom = min(p.top+height, len(body))
	if p.top <= p.read {
		p.read = max(p.read, bottom)
	}
	p.seen = p.seen || p.read >= len(body)
	shown := body
	if p.colours {
		shown = cli.Paint(body, cannotUndo)
	}
	p.screen.clear()
	p.lines(said)
	p.lines(shown[p.top:bottom])
	p.lines(cli.Wrapped(p.heading+p.part(bottom, len(body)), cols)[:1])
	if bottom == len(body) {
		keys = cli.Wrapped(p.keys[0], cols)
	}
	p.lines(keys[:len(keys)-1])
	p.screen.write(keys[len(keys)-1] + " ")
	return bottom, height, len(body)
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
