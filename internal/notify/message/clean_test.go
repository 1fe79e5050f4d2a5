package message_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gated/internal/notify/message"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"plain":                        "plain",
		"  two   blanks ":              "two blanks",
		"line\r\nBcc: all@example.com": "line Bcc: all@example.com",
		"a\u202egnp.exe\u202c":         "agnp.exe",
		"zero\u200bwidth\ufeff":        "zerowidth",
		"bell\x07 esc\x1b[31m nul\x00": "bell esc[31m nul",
		"\xff\xfe":                     "\ufffd\ufffd",
		"para\u2029line\u2028":         "para line",
		"tag \U000e0041":               "tag",
		"Grüße":                        "Grüße",
	} {
		require.Equal(t, want, message.Clean(in, 100), "%q", in)
	}
}

// The bound is tested below, at and above, and a cut is at the end of a rune.
func TestCleanCuts(t *testing.T) {
	require.Equal(t, "äöü", message.Clean("äöü", 4))
	require.Equal(t, "äöüß", message.Clean("äöüß", 4))
	require.Equal(t, "äöü…", message.Clean("äöüßx", 4))
	require.Equal(t, "ab c", message.Clean("ab c   ", 4))
	require.Equal(t, "ab…", message.Clean("ab cd", 3))
	require.Equal(t, 4, utf8.RuneCountInString(message.Clean(strings.Repeat("漢", 50), 4)))
}

func TestCleanLinesCuts(t *testing.T) {
	require.Equal(t, "a\nb", message.CleanLines("a\nb\n", 10))
	require.Equal(t, "aaaa\nbbb…\n…", message.CleanLines("aaaa\nbbbbbbbb\ncc", 9))
}

func TestDefang(t *testing.T) {
	for in, want := range map[string]string{
		"see https://evil.example/x?y=1": "see https[:]//evil[.]example/x?y=1",
		"evil.example.com":               "evil[.]example[.]com",
		"a.b.cc.dd":                      "a.b[.]cc[.]dd",
		"@channel and @here":             "(at)channel and (at)here",
		"mail bob@example.com":           "mail bob(at)example[.]com",
		"＠everyone":                      "(at)everyone",
		"version 1.2.3, 50.5 %. Done":    "version 1.2.3, 50.5 %. Done",
		"bücher.example":                 "bücher[.]example",
	} {
		require.Equal(t, want, message.Defang(in))
	}
}

// Others' words cannot end their quotes.
func TestQuote(t *testing.T) {
	require.Equal(t, `"it is 'done' now"`, message.Quote(`it is "done" now`))
}
