package store

import (
	"errors"
	"fmt"
	"strings"
)

// vet refuses a statement that would end, begin or nest a transaction without the store, and more than one statement.
// The commit hook would stop the worst of it, but vet shows the mistake at its place.
func vet(query string) error {
	statements := 0
	first := true
	for word := range words(query) {
		if word == ";" {
			first = true
			continue
		}
		if first {
			statements++
			first = false
			switch word {
			case "BEGIN", "COMMIT", "END", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH", "PRAGMA", "VACUUM":
				return fmt.Errorf("store: %s is not for transaction functions", word)
			}
		}
		if err := vetWord(word); err != nil {
			return err
		}
	}
	if statements != 1 {
		return fmt.Errorf("store: want one statement, got %d", statements)
	}
	return nil
}

// errSequence is why a statement may not write AUTOINCREMENT's numbers: elsewhere only an INSERT of a row moves them on.
var errSequence = errors.New("store: a write to sqlite_sequence cannot be kept elsewhere")

// vetCaptured refuses what changes the database without a row that the hook shows. It is for vetted statements, on a
// connection that captures.
func vetCaptured(query string) error {
	for word := range words(query) {
		switch word {
		case ";":
			continue
		case "CREATE", "DROP", "ALTER", "REINDEX", "ANALYZE":
			return fmt.Errorf("store: %s cannot be kept elsewhere: it is for migrations", word)
		}
		return nil
	}
	return nil
}

// vetWord refuses words that no SQL may have, migrations included. A ROLLBACK conflict clause ends the group of every
// caller. A deferred constraint fails at the COMMIT, where the faulty call is unknown. A FAIL clause keeps a part of what a
// failed statement did.
func vetWord(word string) error {
	if word == "ROLLBACK" || word == "DEFERRABLE" || word == "FAIL" {
		return fmt.Errorf("store: %s is not allowed in SQL", word)
	}
	return nil
}

// words yields the bare words of SQL in upper case, and ";" for each semicolon. It skips quoted text and comments.
func words(sql string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; i < len(sql); {
			n := skip(sql[i:])
			if n > 0 {
				i += n
				continue
			}
			n = wordLen(sql[i:])
			switch {
			case n > 0:
				if !yield(strings.ToUpper(sql[i : i+n])) {
					return
				}
				i += n
			case sql[i] == ';':
				if !yield(";") {
					return
				}
				i++
			default:
				i++
			}
		}
	}
}

// skip returns the length of the comment or quoted text at the start of s, or 0.
func skip(s string) int {
	end := func(from int, closing string) int {
		if i := strings.Index(s[from:], closing); i >= 0 {
			return from + i + len(closing)
		}
		return len(s)
	}
	switch {
	case strings.HasPrefix(s, "--"):
		return end(2, "\n")
	case strings.HasPrefix(s, "/*"):
		return end(2, "*/")
	case s[0] == '\'' || s[0] == '"' || s[0] == '`':
		// A doubled quote inside counts as two texts side by side.
		return end(1, s[:1])
	case s[0] == '[':
		return end(1, "]")
	}
	return 0
}

// wordLen returns the length of the bare word at the start of s, or 0.
func wordLen(s string) int {
	n := 0
	for n < len(s) {
		c := s[n]
		if c == '_' || c >= 0x80 || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			n++
			continue
		}
		break
	}
	return n
}
