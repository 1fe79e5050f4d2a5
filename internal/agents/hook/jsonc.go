package hook

import "bytes"

// Some products read JSON with comments. Their files are read as the same text with blanks in the place of comments, so
// that each place in one is a place in the other, and edits leave the comments where they are.

// comments says what a product's file may have beside JSON.
type comments int

const (
	noComments     comments = iota
	withComments            // "//" and "/* */"
	trailingCommas          // comments, and a comma behind the last item
)

// source is a text of JSON.
type source struct {
	text  []byte
	plain []byte // of the same length: blanks in the place of comments
	c     comments
	made  bool   // it is the text of a file that was not there
	pad   string // stands before and behind the first item of a container that was there
}

// The pads of a container that was there, and of one in a file that was blank.
const (
	padded        = " "
	paddedInBlank = "  "
)

func (c comments) read(text []byte) source {
	s := source{text: text, plain: text, c: c, pad: padded}
	if c != noComments {
		s.plain = Uncommented(text, c == trailingCommas)
	}
	return s
}

// commented reports whether a part of the text has a comment.
func (s source) commented(at span) bool {
	return string(s.text[at.start:at.end]) != string(s.plain[at.start:at.end])
}

// Uncommented returns a text of the same length with blanks in the place of comments, and of commas behind the last item
// if commas is set. A comment whose end is not clear stays.
func Uncommented(text []byte, commas bool) []byte {
	out := append([]byte{}, text...)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' && out[i] != '\r' {
				out[i] = ' '
			}
		}
	}
	comma := -1       // a comma behind which only blanks came
	last := byte('{') // the last byte that is no blank
	for i := 0; i < len(out); i++ {
		if n := commentAt(text[i:]); n > 0 {
			blank(i, i+n)
			i += n - 1
			continue
		}
		switch c := text[i]; c {
		case ' ', '\t', '\n', '\r':
			continue
		case '"':
			i += stringAt(text[i:]) - 1
			comma = -1
		case ',':
			comma = -1
			if last != '{' && last != '[' && last != ',' && last != ':' {
				comma = i
			}
		case '}', ']':
			if commas && comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		default:
			comma = -1
		}
		last = text[i]
	}
	return out
}

// commentAt returns the length of the comment with which a text begins, without its end of line; 0 if there is none.
func commentAt(text []byte) int {
	if len(text) < 2 || text[0] != '/' {
		return 0
	}
	switch text[1] {
	case '/':
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			end = len(text)
		}
		line := bytes.TrimSuffix(text[:end], []byte("\r"))
		if bytes.IndexByte(line, '\r') >= 0 {
			return 0 // some products end the comment there, others do not
		}
		return len(line)
	case '*':
		for i := 3; i < len(text); i++ {
			if text[i-1] == '*' && text[i] == '/' {
				return i + 1
			}
		}
	}
	return 0
}

// stringAt returns the length of the string with which a text begins.
func stringAt(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
