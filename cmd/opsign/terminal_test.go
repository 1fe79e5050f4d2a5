package main

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
	"gated/internal/test/story"
	"gated/internal/wire/cli"
)

// pty opens a pseudo-terminal: what a person has, and what a program sees.
func pty(t *testing.T) (person, program *os.File) {
	person, program, err := story.NewTerminal()
	for _, side := range []*os.File{person, program} {
		if side != nil {
			t.Cleanup(func() { require.NoError(t, side.Close()) })
		}
	}
	if err != nil {
		t.Skip("a terminal: ", err)
	}
	return person, program
}

// shownOn returns what a terminal shows next, up to and with some text.
func shownOn(t *testing.T, person *os.File, end string) string {
	require.NoError(t, person.SetReadDeadline(time.Now().Add(30*time.Second)))
	shown := ""
	for one := make([]byte, 1); !strings.HasSuffix(shown, end); {
		must.Get(person.Read(one))(t, "%q", shown)
		shown += string(one)
	}
	return shown
}

func TestAPassphraseDoesNotShow(t *testing.T) {
	person, program := pty(t)
	echoes := func() bool {
		return must.Get(unix.IoctlGetTermios(int(program.Fd()), getTermios))(t).Lflag&unix.ECHO != 0
	}
	require.True(t, echoes())
	must.Get(person.WriteString("hasty\n"))(t)
	require.Equal(t, "hasty\r\n", shownOn(t, person, "\n"))
	type result struct {
		line []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := readHidden(program, "Passphrase: ")
		read <- result{line, err}
	}()
	for limit := time.Now().Add(30 * time.Second); echoes(); runtime.Gosched() {
		require.True(t, time.Now().Before(limit), "the terminal goes on showing what is typed")
	}
	must.Get(person.WriteString("correct horse\n"))(t)
	got := <-read
	require.NoError(t, got.err)
	require.Equal(t, "correct horse", string(got.line))
	require.True(t, echoes(), "the terminal is left as it was")
	require.Equal(t, "Passphrase: \r\n", shownOn(t, person, "\n"), "nor what was typed before it was asked for")
}

func TestReadLine(t *testing.T) {
	read := func(text string) (string, error) {
		r, w := must.Two(os.Pipe())(t)
		defer func() { require.NoError(t, r.Close()) }()
		go func() {
			_, _ = w.WriteString(text)
			_ = w.Close()
		}()
		line, err := readLine(r)
		return string(line), err
	}
	line := must.Get(read("yes\nmore\n"))(t)
	require.Equal(t, "yes", line)
	line = must.Get(read("no end"))(t)
	require.Equal(t, "no end", line)
	must.Err(read(""))(t)
	long := make([]byte, maxLine)
	for i := range long {
		long[i] = 'a'
	}
	line = must.Get(read(string(long) + "\n"))(t)
	require.Len(t, line, maxLine)
	must.Fail(read(string(long)+"a\n"))(t, errLongLine)
}

func TestAPipeIsNoTerminal(t *testing.T) {
	_, program := pty(t)
	require.True(t, cli.IsTerminal(program))
	r, w := must.Two(os.Pipe())(t)
	require.False(t, cli.IsTerminal(r))
	require.NoError(t, r.Close())
	require.NoError(t, w.Close())
}
