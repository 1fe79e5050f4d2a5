package hook

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A JSON text is edited in place, so that everything that is not gated's stays byte for byte: order, layout, unknown
// members.

// span is a part of a text, from start up to end.
type span struct{ start, end int }

// member is a member of an object: its whole text, and its value.
type member struct {
	span
	name  string
	value span
}

// members returns the members of the object in a part of a text. ok is false if the part is not an object.
func members(text []byte, at span) ([]member, bool) {
	d := jsontext.NewDecoder(bytes.NewReader(text[at.start:at.end]))
	if first, err := d.ReadToken(); err != nil || first.Kind() != '{' {
		return nil, false
	}
	var out []member
	for d.PeekKind() == '"' {
		name, ok := next(d, at.start)
		if !ok {
			return nil, false
		}
		unquoted, err := jsontext.AppendUnquote(nil, text[name.start:name.end])
		value, ok := next(d, at.start)
		if err != nil || !ok {
			return nil, false
		}
		out = append(out, member{span{name.start, value.end}, string(unquoted), value})
	}
	return out, true
}

// elements returns the elements of the array in a part of a text. ok is false if the part is not an array.
func elements(text []byte, at span) ([]span, bool) {
	d := jsontext.NewDecoder(bytes.NewReader(text[at.start:at.end]))
	if first, err := d.ReadToken(); err != nil || first.Kind() != '[' {
		return nil, false
	}
	var out []span
	for d.PeekKind() != ']' {
		e, ok := next(d, at.start)
		if !ok {
			return nil, false
		}
		out = append(out, e)
	}
	return out, true
}

// next reads a value and returns its place.
func next(d *jsontext.Decoder, offset int) (span, bool) {
	v, err := d.ReadValue()
	end := offset + int(d.InputOffset())
	return span{end - len(v), end}, err == nil
}

// memberOf returns the member of that name.
func memberOf(list []member, name string) (member, bool) {
	for _, m := range list {
		if m.name == name {
			return m, true
		}
	}
	return member{}, false
}

func spans(list []member) []span {
	out := make([]span, 0, len(list))
	for _, m := range list {
		out = append(out, m.span)
	}
	return out
}

// whole returns the place of a text's one value.
func whole(text []byte) span {
	start := len(text) - len(bytes.TrimLeft(text, " \t\r\n"))
	return span{start, start + len(bytes.TrimSpace(text))}
}

// add puts a value behind the last item of an object or array, laid out like its neighbours. name is the member's,
// empty in an array. The first item of a container that was there stands between blanks on the container's own line.
// By that, drop knows later that the container was not gated's. What the container had inside, such as a comment, stays.
func (s source) add(container span, items []span, name string, value jsontext.Value) ([]byte, error) {
	item := func(prefix, unit string, lines bool) (string, error) {
		v := value.Clone()
		colon := ":"
		var err error
		if lines {
			colon = ": "
			err = v.Indent(jsontext.WithIndentPrefix(prefix), jsontext.WithIndent(unit))
		}
		if name == "" {
			return string(v), err
		}
		quoted, quoteErr := jsontext.AppendQuote(nil, name)
		if err == nil {
			err = quoteErr
		}
		return string(quoted) + colon + string(v), err
	}
	unit, lines := layout(s.plain)
	if len(items) == 0 {
		outer := indentOfLine(s.text, container.start)
		added, err := item(outer, unit, lines)
		added = s.pad + added + s.pad
		if s.made {
			added, err = item(outer+unit, unit, lines)
			added = "\n" + outer + unit + added + "\n" + outer
		}
		return replaced(s.text, span{container.start + 1, container.start + 1}, added), err
	}
	last := items[len(items)-1]
	lead := s.text[len(bytes.TrimRight(s.text[:last.start], " \t\r\n")):last.start]
	added, err := item(indentOfLine(s.text, last.start), unit, bytes.IndexByte(lead, '\n') >= 0)
	return replaced(s.text, span{last.end, last.end}, ","+string(lead)+added), err
}

// cut removes one of several items from an object or array, with its comma. Comments stay.
func (s source) cut(items []span, i int) []byte {
	gap := span{items[0].end, items[1].start}
	whole := span{items[0].start, items[1].start}
	if i > 0 {
		gap = span{items[i-1].end, items[i].start}
		whole = span{items[i-1].end, items[i].end}
	}
	if !s.commented(gap) {
		return replaced(s.text, whole, "")
	}
	comma := gap.start + bytes.IndexByte(s.plain[gap.start:gap.end], ',')
	if i > 0 {
		return replaced(replaced(s.text, items[i], ""), span{comma, comma + 1}, "")
	}
	return replaced(replaced(s.text, span{comma, comma + 1}, ""), items[0], "")
}

// drop removes the only item of a container, if the container was there before gated added to it, or has a comment. ok
// is false if gated made the container for the item.
func (s source) drop(container, item span) (text []byte, ok bool) {
	for _, pad := range []string{padded, paddedInBlank} {
		before := string(s.text[container.start+1 : item.start])
		if before == pad && bytes.HasPrefix(s.text[item.end:], []byte(pad)) {
			return replaced(s.text, span{item.start - len(pad), item.end + len(pad)}, ""), true
		}
	}
	if s.commented(span{container.start, item.start}) || s.commented(span{item.end, container.end}) {
		return replaced(s.text, item, ""), true
	}
	return nil, false
}

// opens reports whether the root has items that do not stand between the blanks of an object that was there.
func (s source) opens() bool {
	root := whole(s.plain)
	list, _ := members(s.plain, root)
	return len(list) > 0 && list[0].start-root.start-1 != len(padded)
}

func replaced(text []byte, at span, by string) []byte {
	return append(append(append([]byte{}, text[:at.start]...), by...), text[at.end:]...)
}

// layout returns a text's indent, and whether the text has several lines. An empty object gets several.
func layout(text []byte) (unit string, lines bool) {
	root := whole(text)
	list, _ := members(text, root)
	if len(list) == 0 {
		return "  ", true
	}
	unit = indentOfLine(text, list[0].start)
	lines = bytes.IndexByte(text[root.start:list[0].start], '\n') >= 0
	if !lines || unit == "" {
		unit = "  "
	}
	return unit, lines
}

// indentOfLine returns the blanks at the beginning of the line of a position.
func indentOfLine(text []byte, at int) string {
	line := string(text[bytes.LastIndexByte(text[:at], '\n')+1 : at])
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}
