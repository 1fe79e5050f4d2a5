package hook

import (
	"bytes"
	"math"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// A TOML text is read by a library, which says what it means. Where a statement stands, so that one can be changed and the
// rest stays byte for byte, is found by the lines of this file.

// tomlLine is a statement of a TOML text.
type tomlLine struct {
	span           // its lines, with the last end of line
	comment string // the text of a comment that is alone on its line
	header  bool   // of a table
	path    []string
	value   span // of a key
}

// below reports whether the statement is of a table or a key with that path, or below it.
func (l tomlLine) below(path ...string) bool {
	return len(l.path) >= len(path) && reflect.DeepEqual(l.path[:len(path)], path)
}

// tomlLines returns the statements of a valid TOML text. ok is false if they are not understood.
func tomlLines(text []byte) (out []tomlLine, ok bool) {
	var table []string
	at := 0
	if bytes.HasPrefix(text, []byte(byteOrderMark)) {
		at = len(byteOrderMark)
	}
	for at < len(text) {
		l := tomlLine{span: span{at, at}}
		at = skipBlank(text, at)
		switch {
		case at == len(text) || text[at] == '\r' || text[at] == '\n':
			at = endOfLine(text, at)
			continue
		case text[at] == '#':
			l.end = endOfLine(text, at)
			l.comment = strings.TrimSpace(string(text[at:l.end]))
		case text[at] == '[':
			l.header = true
			if l.path, at, ok = tomlKey(text, at+1+bytes.Count(text[at+1:min(at+2, len(text))], []byte("["))); !ok || at >= len(text) || text[at] != ']' {
				return nil, false
			}
			table = l.path
			l.end = endOfLine(text, at)
		default:
			var key []string
			if key, at, ok = tomlKey(text, at); !ok || at >= len(text) || text[at] != '=' {
				return nil, false
			}
			l.path = append(append([]string{}, table...), key...)
			l.value.start = skipBlank(text, at+1)
			if l.value.end, ok = tomlValue(text, l.value.start); !ok {
				return nil, false
			}
			l.end = endOfLine(text, l.value.end)
		}
		at = l.end
		out = append(out, l)
	}
	return out, true
}

func skipBlank(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t') {
		at++
	}
	return at
}

// endOfLine returns the place behind the end of the line.
func endOfLine(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// tomlKey reads a dotted key and the blanks behind it.
func tomlKey(text []byte, at int) (path []string, end int, ok bool) {
	for {
		at = skipBlank(text, at)
		if at >= len(text) {
			return nil, at, false
		}
		start := at
		var part string
		switch text[at] {
		case '"', '\'':
			if at, ok = tomlString(text, at); !ok {
				return nil, at, false
			}
			part = string(text[start+1 : at-1])
			if text[start] == '"' {
				unquoted, err := jsontext.AppendUnquote(nil, text[start:at])
				if err != nil {
					return nil, at, false
				}
				part = string(unquoted)
			}
		default:
			for at < len(text) && !strings.ContainsRune(" \t\r\n.=]#\"'", rune(text[at])) {
				at++
			}
			part = string(text[start:at])
		}
		path = append(path, part)
		if at = skipBlank(text, at); at >= len(text) || text[at] != '.' {
			return path, at, part != "" || at > start
		}
		at++
	}
}

// tomlString returns the end of a string of any kind.
func tomlString(text []byte, at int) (end int, ok bool) {
	quote := text[at : at+1]
	long := bytes.Repeat(quote, 3)
	if bytes.HasPrefix(text[at:], long) {
		for i := at + 3; i < len(text); i++ {
			switch {
			case text[i] == '\\' && quote[0] == '"':
				i++
			case bytes.HasPrefix(text[i:], long):
				for i += 3; i < len(text) && text[i] == quote[0]; i++ { // quotes may stand before the last three
				}
				return i, true
			}
		}
		return 0, false
	}
	for i := at + 1; i < len(text) && text[i] != '\n'; i++ {
		switch {
		case text[i] == '\\' && quote[0] == '"':
			i++
		case text[i] == quote[0]:
			return i + 1, true
		}
	}
	return 0, false
}

// tomlValue returns the end of a value, without the blanks behind it.
func tomlValue(text []byte, at int) (end int, ok bool) {
	end = at
	for depth := 0; at < len(text); {
		switch c := text[at]; c {
		case '"', '\'':
			if at, ok = tomlString(text, at); !ok {
				return 0, false
			}
			end = at
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '\n', '#':
			if depth <= 0 {
				return end, depth == 0
			}
			if c == '#' {
				at = endOfLine(text, at)
				continue
			}
		}
		if at++; !strings.ContainsRune(" \t\r\n", rune(text[at-1])) {
			end = at
		}
	}
	return end, true
}

// readTOML returns what a TOML text means.
func readTOML(text []byte) (map[string]any, error) {
	out := map[string]any{}
	if err := toml.Unmarshal(text, &out); err != nil {
		return nil, refusal.New(refusal.Malformed, "it is not valid TOML").WithHint("correct it first: nothing was changed")
	}
	return out, nil
}

// sameTOML reports whether two values that were read are equal. A number that is none (nan) equals another one.
func sameTOML(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, ok := b[name]; !ok || !sameTOML(value, other) {
				return false
			}
		}
		return true
	case []map[string]any:
		b, ok := b.([]map[string]any)
		same := ok && len(a) == len(b)
		for i := 0; same && i < len(a); i++ {
			same = sameTOML(a[i], b[i])
		}
		return same
	case []any:
		b, ok := b.([]any)
		same := ok && len(a) == len(b)
		for i := 0; same && i < len(a); i++ {
			same = sameTOML(a[i], b[i])
		}
		return same
	case float64:
		b, ok := b.(float64)
		return ok && (a == b || math.IsNaN(a) && math.IsNaN(b))
	}
	return reflect.DeepEqual(a, b)
}
