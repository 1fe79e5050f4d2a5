package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"gated/internal/test/must"
	"gated/internal/wire/cli"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onScreen opens a screen of so many rows and columns, and returns its person.
func onScreen(t *testing.T, rows, cols uint16) (*screen, *os.File) {
	person, program := pty(t)
	require.NoError(t, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}))
	return must.Get(openScreen(program, "dumb"))(t), person
}

func modes(t *testing.T, s *screen) unix.Termios {
	m := must.Get(unix.IoctlGetTermios(int(s.tty.Fd()), getTermios))(t)
	return *m
}

func typed(t *testing.T, person *os.File, text string) { must.Get(person.WriteString(text))(t) }

func TestTheTerminalIsLeftAsItWas(t *testing.T) {
	s, person := onScreen(t, 24, 80)
	s.give()
	before := modes(t, s)
	require.NoError(t, s.take())
	require.NotZero(t, before.Lflag&unix.ICANON)
	require.Zero(t, modes(t, s).Lflag&(unix.ICANON|unix.ECHO))
	require.NotZero(t, modes(t, s).Lflag&unix.ISIG, "it can be interrupted")
	require.NoError(t, s.aside(func() error {
		require.Equal(t, before, modes(t, s))
		return nil
	}))
	require.Zero(t, modes(t, s).Lflag&unix.ICANON)
	require.ErrorIs(t, s.aside(func() error { return errLongLine }), errLongLine)
	typed(t, person, "because \n")
	line := must.Get(s.ask("why? "))(t)
	require.Equal(t, "because", line)
	s.close()
	require.Equal(t, before, modes(t, s))
}

// No part of an escape sequence passes for a key, whatever a terminal sends.
func TestKeys(t *testing.T) {
	s, person := onScreen(t, 24, 80)
	defer s.close()
	for text, want := range map[string][]int{
		"a": {'a'}, "\r": {'\n'}, "\n": {'\n'}, "\x01": {keyNone}, "é": {keyNone, keyNone}, "\x7f": {keyNone},
		"\x1b[A": {keyUp}, "\x1bOB": {keyDown}, "\x1b[6~": {keyDown}, "\x1b[5~": {keyUp},
		"\x1b[1;5a": {keyNone}, "\x1b[a": {keyNone}, "\x1bOa": {keyNone}, "\x1ba": {keyNone}, "\x1b[200~a": {keyNone, 'a'},
		"\x1b": {keyNone}, "\x1b[": {keyNone},
	} {
		typed(t, person, text)
		for _, k := range want {
			require.Equal(t, k, must.Get(s.key())(t), "%q", text)
		}
	}
}

// reviewOn is a review that takes every key.
func reviewOn(s *screen) *review {
	return &review{approval: approval{asker: &asker{tool: testTool()}}, screen: s}
}

// A key that is held down decides once: a new screen takes none until the keys
// have been quiet, and every one from then on.
func TestANewScreenTakesNoKeyAtOnce(t *testing.T) {
	s, person := onScreen(t, 24, 80)
	defer s.close()
	r := reviewOn(s)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// What each look at the clock adds: when it is drawn, and at every key.
	steps := []time.Duration{0, settling - 1, settling - 1, 30 * time.Millisecond, settling, 0}
	r.now = func() time.Time {
		at, steps = at.Add(steps[0]), steps[1:]
		return at
	}
	r.settling = settling
	pages := r.pager("head", "text", [2]string{"keys", "more"})
	typed(t, person, "aaa")
	typed(t, person, "bc")
	key := must.Get(pages.key(&r.message))(t)
	require.Equal(t, int('b'), key, "three came too early, each of them after the one before")
	key = must.Get(pages.key(&r.message))(t)
	require.Equal(t, int('c'), key, "the screen is no new one any more")
	require.Empty(t, steps)
	require.Greater(t, settling, 660*time.Millisecond, "a held key comes again after that, by X's default")
}

// A key that decides comes alone: one within a pasted word does not count, whatever stands before it.
func TestAKeyWithinAPastedWordDoesNotCount(t *testing.T) {
	for word, counted := range map[string]string{"via": "vi", "china": "chin", "why": "wh", "beta": "bet", "idea": "ide", "  a": "  ", "\na": "\n", "der": "de"} {
		s, person := onScreen(t, 24, 80)
		r := reviewOn(s)
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		looks := 0
		r.now = func() time.Time {
			if looks++; looks == 2 || looks == len(word)+2 { // the first key, and the one after the word
				at = at.Add(settling)
			}
			return at
		}
		r.settling = settling
		pages := r.pager("head", strings.Repeat("text\n", 100), [2]string{"keys", "more"})
		typed(t, person, word+"q")
		got := ""
		for !strings.HasSuffix(got, "q") {
			got += string(rune(must.Get(pages.key(&r.message))(t)))
		}
		require.Equal(t, strings.Trim(counted, " \n")+"q", got, "%q", word)
		typed(t, person, "a")
		at = at.Add(settling)
		require.Equal(t, int('a'), must.Get(pages.key(&r.message))(t), "alone it counts")
		s.close()
	}
}

func TestATerminalThatIsTooSmallShowsNothing(t *testing.T) {
	keys := [2]string{wordsReviewKeys, wordsReviewMore}
	require.True(t, fits(3, 80, keys))
	require.False(t, fits(2, 80, keys))
	require.False(t, fits(24, leastCols-1, keys))
	require.False(t, fits(5, leastCols, keys), "the keys alone take more")
	for rows := uint16(1); rows < 5; rows++ {
		s, person := onScreen(t, rows, 80)
		p := reviewOn(s).pager("head", "one\ntwo\nthree", keys)
		message := "said"
		for range 10 {
			bottom, _, _ := p.draw(message)
			p.top, message = bottom, ""
		}
		require.Equal(t, rows >= 3, p.seen, "%d rows", rows)
		if rows == 3 {
			require.Contains(t, shownOn(t, person, "three"), "said\r\nhead, lines 1 to 1 of 4\r\n"+strings.TrimSpace(wordsReviewMore))
		}
		s.close()
	}
	s, person := onScreen(t, 2, 80)
	defer s.close()
	r := reviewOn(s)
	r.message = "said\n"
	p := r.pager("head", "text", keys)
	typed(t, person, " q")
	key := must.Get(p.key(&r.message))(t)
	require.Equal(t, int('q'), key)
	require.Equal(t, "said\n", r.message, "what was not shown is said later")
}

func TestWhatWasTypedBeforeIsForgotten(t *testing.T) {
	s, person := onScreen(t, 24, 80)
	defer s.close()
	typed(t, person, "aaa")
	for limit := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		n := must.Get(unix.IoctlGetInt(int(s.tty.Fd()), unread))(t)
		if n == 3 {
			break // the kernel passes it on in its own time
		}
		require.True(t, time.Now().Before(limit), "what was typed does not arrive")
	}
	r := reviewOn(s)
	pages := r.pager("head", "text", [2]string{"keys", "more"})
	typed(t, person, "q")
	key := must.Get(pages.key(&r.message))(t)
	require.Equal(t, int('q'), key)
}

func TestSizeOfATerminal(t *testing.T) {
	for _, c := range []struct{ says, want []int }{{[]int{0, 0}, []int{24, 80}}, {[]int{4, 10}, []int{4, 10}}, {[]int{50, 0}, []int{24, 80}}} {
		s, _ := onScreen(t, uint16(c.says[0]), uint16(c.says[1]))
		rows, cols := s.size()
		require.Equal(t, c.want, []int{rows, cols})
		s.close()
	}
}

func TestWrapped(t *testing.T) {
	require.Equal(t, []string{"abcdefghij", cli.Cont + "kl", "m"}, cli.Wrapped("abcdefghijkl\nm\n", 10))
	require.Equal(t, []string{"the quick ", cli.Cont + "fox"}, cli.Wrapped("the quick fox", 11), "after a space")
	require.Equal(t, []string{"字字", cli.Cont + "字"}, cli.Wrapped("字字字", 5), "two columns each")
	require.Equal(t, []string{""}, cli.Wrapped("", 10))
	require.Equal(t, []string{`"\x1b[2J"`}, cli.Wrapped("\x1b[2J", 20))

	// Nothing is lost, no line is too long, and what goes on says so.
	text := strings.Repeat("reason with words, ", 60)
	lines := cli.Wrapped(text, 79)
	whole := lines[0]
	for _, l := range lines[1:] {
		rest, ok := strings.CutPrefix(l, cli.Cont)
		require.True(t, ok)
		whole += rest
	}
	require.Equal(t, strings.TrimRight(text, " "), whole)
	for _, l := range lines {
		require.LessOrEqual(t, len(l), 79)
	}
}

func TestEverythingHasToBeShown(t *testing.T) {
	s, _ := onScreen(t, 10, 40)
	defer s.close()
	text := strings.TrimSuffix(strings.Repeat("line\n", 20), "\n")
	p := reviewOn(s).pager("head", text, [2]string{"all", "more"})
	bottom, height, lines := p.draw("")
	require.Equal(t, []int{8, 8, 20}, []int{bottom, height, lines})
	require.False(t, p.seen)
	p.top = 12
	p.draw("")
	require.False(t, p.seen, "lines 9 to 12 were not")
	p.top = 8
	p.draw("")
	p.top = 16
	p.draw("")
	require.True(t, p.seen)

	p = reviewOn(s).pager("head", text, [2]string{"all", "more"})
	p.draw("")
	p.top = 8
	bottom, _, _ = p.draw(strings.Repeat("said\n", 4))
	require.Equal(t, 12, bottom, "a message leaves room")
	require.NoError(t, unix.IoctlSetWinsize(int(s.tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 30}))
	p.draw("")
	require.Zero(t, p.top, "another width, other lines")
	require.True(t, p.seen)
}

// TestALongMessageIsReadWhole: what differs of a request is read page by page, as the request is, before that one counts as read.
func TestALongMessageIsReadWhole(t *testing.T) {
	for _, size := range [][2]uint16{{24, 80}, {10, 40}, {3, 80}} {
		s, person := onScreen(t, size[0], size[1])
		var message, text string
		for i := range 60 {
			message += fmt.Sprintf("was m%02d\n", i)
			text += fmt.Sprintf("is t%02d\n", i)
		}
		r, shown := reviewOn(s), ""
		r.message = message
		p := r.pager("head", text, [2]string{"ALL", "MORE"})
		for pages := 0; ; pages++ {
			require.Less(t, pages, 121)
			bottom, _, lines := p.draw(r.message)
			r.message = ""
			require.Equal(t, 120, lines)
			require.Equal(t, bottom == lines, p.seen, "at %d", bottom)
			if bottom == lines {
				break
			}
			shown += shownOn(t, person, "MORE")
			p.top = bottom
		}
		shown += shownOn(t, person, "ALL")
		for i := range 60 {
			require.Contains(t, shown, fmt.Sprintf("was m%02d\r\n", i))
			require.Contains(t, shown, fmt.Sprintf("is t%02d\r\n", i))
		}
		p.turn(text+"details\n", 60)
		p.draw("")
		require.Contains(t, shownOn(t, person, "ALL"), "details", "they begin below the message")
		s.close()
	}
}

// TestAMessageIsShownOnEveryScreen: whatever the size of the screen, when it comes, and how long it is, each line of a message is shown,
// and each line of the text. What is not on the screen is told of: by its lines, or by dots.
func TestAMessageIsShownOnEveryScreen(t *testing.T) {
	text := ""
	for i := range 9 {
		text += fmt.Sprintf("t%d\n", i)
	}
	keys := [2]string{"ALL", "MORE"}
	heading := "Approve these 12, each with a signature of its own?"
	for _, cols := range []uint16{leastCols, 40, 80} {
		for rows := uint16(3); rows <= 9; rows++ {
			for long := 1; long <= 8; long++ {
				for when := range 4 { // pages that were read before the message comes
					s, person := onScreen(t, rows, cols)
					p, message, at := reviewOn(s).pager(heading, text, keys), "", fmt.Sprintf("%d by %d, %d lines after %d pages", rows, cols, long, when)
					for i := range long {
						message += fmt.Sprintf("m%d\n", i)
					}
					want, shown := strings.Fields(message+text), ""
					for page := 0; ; page++ {
						require.Less(t, page, 60, at)
						say := ""
						if page == when {
							say = message
						}
						bottom, height, lines := p.draw(say)
						require.Positive(t, height, at)
						end := keys[1]
						if bottom == lines {
							end = keys[0]
						}
						now := shownOn(t, person, end)
						shown += now
						whole := strings.Contains(now, heading)
						require.True(t, whole || strings.Contains(now, "..."), "%s: %s", at, now)
						require.True(t, cols < 80 || whole, "%s: %s", at, now)
						require.True(t, cols < 80 || height >= lines || strings.Contains(now, fmt.Sprintf("lines %d to %d of %d", p.top+1, bottom, lines)), "%s: %s", at, now)
						if bottom == lines && page >= when {
							break
						}
						p.top = bottom % lines
					}
					require.True(t, p.seen, at)
					for _, line := range want {
						require.Contains(t, shown, line+"\r\n", at)
					}
					s.close()
				}
			}
		}
	}
}

// TestAMessageThatComesAgainStandsOnce: a small screen shows it each time, and is none the longer for it.
func TestAMessageThatComesAgainStandsOnce(t *testing.T) {
	s, person := onScreen(t, 3, 80)
	defer s.close()
	p := reviewOn(s).pager("head", "t0\nt1", [2]string{"ALL", "MORE"})
	p.draw("first\n")
	for range 3 {
		_, _, lines := p.draw(wordsUnknownKey)
		require.Equal(t, 4, lines)
	}
	require.Equal(t, 3, strings.Count(shownOn(t, person, "shows the keys\r\nhead, lines 2 to 2 of 4\r\nMORE")+shownOn(t, person, "shows the keys\r\nhead, lines 2 to 2 of 4\r\nMORE")+
		shownOn(t, person, "shows the keys\r\nhead, lines 2 to 2 of 4\r\nMORE"), "? shows the keys"))
}
