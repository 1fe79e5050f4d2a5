package hook

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// editJSON returns a JSON text with the server of a line, or without it. there says that the file exists.
func (f ServerFile) editJSON(text []byte, there bool, line []string) (serverEdit, error) {
	same := serverEdit{text: text}
	blank := len(bytes.TrimSpace(text)) == 0
	if blank && line == nil {
		return same, nil
	}
	at := f.For.servers()
	src := at.comments.read(text)
	switch {
	case !there:
		src = at.comments.read([]byte("{}\n"))
		src.made = true
	case blank:
		src = at.comments.read(append(bytes.Clone(text), "{}"...))
		src.pad = paddedInBlank
	}
	s, err := readServers(src, at.member)
	if err != nil {
		return same, err
	}
	own, found := memberOf(s.list, serverName)
	switch {
	case !found && line == nil:
		return same, nil
	case !found:
		same.text, err = s.with(at, line)
	case !at.starts(s.source, own.value):
		return same, otherServer()
	default:
		var entry map[string]any
		_ = json.Unmarshal(s.plain[own.value.start:own.value.end], &entry) // readServers read it already
		same.notes = entryNotes(entry, line == nil, "type", "command", "args", "tools", "enabled")
		if line == nil {
			same.text, same.gone = s.without()
			break
		}
		same.text, err = at.restarted(s.source, own.value, line)
	}
	if err == nil && !blankAgain(same.text) && !jsontext.Value(at.comments.read(same.text).plain).IsValid() {
		err = unknownForm()
	}
	return same, err
}

func blankAgain(text []byte) bool { return len(bytes.TrimSpace(text)) == 0 }

func unknownForm() error {
	return refusal.New(refusal.Conflict, "its servers have a form that is not known").
		WithHint("add or remove the server by hand, or correct it: nothing was changed")
}

// servers finds the MCP servers in a product's JSON.
type servers struct {
	source
	root  []member
	outer member // of the root, if has
	has   bool
	list  []member
}

// readServers reads a text. One that is not JSON is Malformed. Another form than an object of objects is a Conflict.
func readServers(src source, outer string) (servers, error) {
	s := servers{source: src}
	if !jsontext.Value(s.plain).IsValid() {
		return s, refusal.New(refusal.Malformed, "it is not valid JSON").
			WithHint("correct it first, or add the server by hand: nothing was changed")
	}
	var ok bool
	if s.root, ok = members(s.plain, whole(s.plain)); !ok {
		return s, unknownForm()
	}
	if s.outer, s.has = memberOf(s.root, outer); !s.has {
		return s, nil
	}
	if s.list, ok = members(s.plain, s.outer.value); !ok {
		return s, unknownForm()
	}
	return s, nil
}

// with adds gated's entry.
func (s servers) with(at serverSite, line []string) ([]byte, error) {
	want, err := json.Marshal(at.entry(line), json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	if s.has {
		return s.add(s.outer.value, spans(s.list), serverName, want)
	}
	all, err := json.Marshal(map[string]jsontext.Value{serverName: want})
	if err != nil {
		return nil, err
	}
	return s.add(whole(s.plain), spans(s.root), at.member, all)
}

// without removes gated's entry, and what Install made and is then empty. gone says that this is the file.
func (s servers) without() (text []byte, gone bool) {
	root := whole(s.plain)
	blank := bytes.HasPrefix(s.text[root.start:], []byte("{"+paddedInBlank+`"`))
	text = s.cutMember(s.outer.value, s.list, serverName, func() []byte {
		return s.cutMember(root, s.root, s.outer.name, func() []byte {
			text := replaced(s.text, root, "{}")
			gone = string(text) == "{}\n"
			return text
		})
	})
	if left := text[root.start:]; blank && bytes.Equal(bytes.TrimSpace(left), []byte("{}")) {
		return replaced(text, span{root.start, root.start + len("{}")}, ""), false
	}
	return text, gone
}

// starts reports whether an entry starts gated mcp.
func (at serverSite) starts(s source, entry span) bool {
	command, args, ok := at.line(s, entry)
	if !ok {
		return false
	}
	var line []string
	if at.oneList {
		return json.Unmarshal(s.plain[command.start:command.end], &line) == nil && ownServer(line)
	}
	var program string
	return json.Unmarshal(s.plain[command.start:command.end], &program) == nil &&
		json.Unmarshal(s.plain[args.start:args.end], &line) == nil && ownServer(append([]string{program}, line...))
}

// line returns the places of an entry's program and arguments. In a product that has both in one list, args is empty.
func (at serverSite) line(s source, entry span) (command, args span, ok bool) {
	list, _ := members(s.plain, entry)
	c, ok := memberOf(list, "command")
	if !ok || at.oneList {
		_, other := memberOf(list, "args")
		return c.value, args, ok && !other
	}
	a, ok := memberOf(list, "args")
	return c.value, a.value, ok
}

// restarted returns the text with another program and other arguments in an entry of gated's. What is as wished stays as
// it is written.
func (at serverSite) restarted(s source, entry span, line []string) ([]byte, error) {
	command, args, _ := at.line(s, entry) // the entry is gated's
	if at.oneList {
		return s.relisted(command, line)
	}
	edits := []func(source) ([]byte, error){ // from the end, so that places stay
		func(s source) ([]byte, error) { return s.relisted(args, line[1:]) },
		func(s source) ([]byte, error) { return s.reworded(command, line[0]) },
	}
	if args.start < command.start {
		slices.Reverse(edits)
	}
	for _, edit := range edits {
		var err error
		if s.text, err = edit(s); err != nil {
			return nil, err
		}
	}
	return s.text, nil
}

// reworded returns the text with another string in a place.
func (s source) reworded(at span, word string) ([]byte, error) {
	var is string
	if json.Unmarshal(s.plain[at.start:at.end], &is) == nil && is == word {
		return s.text, nil
	}
	quoted, err := jsontext.AppendQuote(nil, word)
	return replaced(s.text, at, string(quoted)), err
}

// relisted returns the text with other strings in a list, laid out as the list was. Conflict: a comment is in the way.
func (s source) relisted(at span, words []string) ([]byte, error) {
	items, _ := elements(s.plain, at)
	if len(items) == len(words) {
		out := s
		for i, item := range slices.Backward(items) {
			var err error
			if out.text, err = out.reworded(item, words[i]); err != nil {
				return nil, err
			}
		}
		return out.text, nil
	}
	if s.commented(at) {
		return nil, unknownForm()
	}
	list, err := json.Marshal(words)
	v := jsontext.Value(list)
	if err == nil && bytes.IndexByte(s.text[at.start:at.end], '\n') >= 0 {
		unit, _ := layout(s.plain)
		err = v.Indent(jsontext.WithIndentPrefix(indentOfLine(s.text, at.start)), jsontext.WithIndent(unit))
	}
	return replaced(s.text, at, string(v)), err
}
