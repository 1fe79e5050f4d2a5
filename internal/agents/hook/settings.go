package hook

import (
	"bytes"
	"cmp"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// tree finds the hooks in an agent's settings.
type tree struct {
	site
	source
	root   []member
	hooks  member // of the root, if hasHooks
	events []member
	before member // the event, of the events, if hasBefore
	groups []span

	hasHooks, hasBefore bool
}

// readTree reads settings. Text that is not a JSON object is Malformed. An object whose hooks have another form is a
// Conflict.
func (l site) readTree(text []byte) (tree, error) {
	t := tree{site: l, source: l.comments.read(text)}
	text = t.plain
	if !jsontext.Value(text).IsValid() {
		return t, refusal.New(refusal.Malformed, "it is not valid JSON").WithHint("correct it first: nothing was changed")
	}
	var ok bool
	if t.root, ok = members(text, whole(text)); !ok {
		return t, refusal.New(refusal.Malformed, "it is not a JSON object").WithHint("correct it first: nothing was changed")
	}
	other := refusal.New(refusal.Conflict, "its hooks have a form that is not known").
		WithHint("add the hook by hand, or correct it: nothing was changed")
	if t.hooks, t.hasHooks = memberOf(t.root, "hooks"); !t.hasHooks {
		return t, nil
	}
	if t.events, ok = members(text, t.hooks.value); !ok {
		return t, other
	}
	if t.before, t.hasBefore = memberOf(t.events, t.event); !t.hasBefore {
		return t, nil
	}
	if t.groups, ok = elements(text, t.before.value); !ok {
		return t, other
	}
	return t, nil
}

// place is the position of a hook in its entry.
type place struct {
	group int
	hook  int
	of    []span // the entry's hooks
}

// ours returns the places of gated's hooks.
func (t tree) ours() []place {
	var out []place
	if t.flat {
		for i := range t.groups {
			if t.isOurs(t.command(t.groups[i])) {
				out = append(out, place{i, i, t.groups})
			}
		}
		return out
	}
	for g, at := range t.groups {
		group, _ := members(t.plain, at)
		list, ok := memberOf(group, "hooks")
		if !ok {
			continue
		}
		hooks, _ := elements(t.plain, list.value)
		for i, at := range hooks {
			if t.isOurs(t.command(at)) {
				out = append(out, place{g, i, hooks})
			}
		}
	}
	return out
}

// command returns the line of a hook.
func (t tree) command(at span) string {
	var c map[string]jsontext.Value
	var line string
	if json.Unmarshal(t.plain[at.start:at.end], &c) != nil || json.Unmarshal(c[t.line], &line) != nil {
		return ""
	}
	return line
}

// as reports whether a hook and its entry are exactly as wanted, with or without other hooks beside it.
func (t tree) as(p place, want jsontext.Value) bool {
	var group, hook, wanted map[string]any
	at, of := p.of[p.hook], t.groups[p.group]
	if json.Unmarshal(want, &wanted) != nil || json.Unmarshal(t.plain[at.start:at.end], &hook) != nil ||
		json.Unmarshal(t.plain[of.start:of.end], &group) != nil {
		return false
	}
	if t.flat {
		return reflect.DeepEqual(hook, wanted)
	}
	hooks, _ := wanted["hooks"].([]any)
	delete(wanted, "hooks")
	delete(group, "hooks")
	return len(hooks) == 1 && reflect.DeepEqual(any(hook), hooks[0]) && reflect.DeepEqual(group, wanted)
}

// without removes one hook, and what gated made for it and is then empty.
func (t tree) without(p place) []byte {
	if len(p.of) > 1 {
		return t.cut(p.of, p.hook)
	}
	if len(t.groups) > 1 {
		return t.cut(t.groups, p.group)
	}
	if text, ok := t.drop(t.before.value, t.groups[p.group]); ok {
		return text
	}
	return t.cutMember(t.hooks.value, t.events, t.event, func() []byte {
		return t.cutMember(whole(t.plain), t.root, "hooks", func() []byte {
			return replaced(t.text, whole(t.plain), "{}")
		})
	})
}

// cutMember removes a member of an object. If it is the only one and the object was made for it, it returns what alone
// returns.
func (s source) cutMember(object span, list []member, name string, alone func() []byte) []byte {
	i := slices.IndexFunc(list, func(m member) bool { return m.name == name })
	if len(list) > 1 {
		return s.cut(spans(list), i)
	}
	if text, ok := s.drop(object, list[i].span); ok {
		return text
	}
	return alone()
}

// with adds an entry.
func (t tree) with(group jsontext.Value) ([]byte, error) {
	list := bytes.Join([][]byte{[]byte("["), group, []byte("]")}, nil)
	switch {
	case t.hasBefore:
		return t.add(t.before.value, t.groups, "", group)
	case t.hasHooks:
		return t.add(t.hooks.value, spans(t.events), t.event, list)
	}
	events, err := json.Marshal(map[string]jsontext.Value{t.event: list})
	if err != nil {
		return nil, err
	}
	return t.add(whole(t.plain), spans(t.root), "hooks", events)
}

// installed returns settings that ask gated exactly once, as wanted. fresh says that they did not ask before.
func (l site) installed(text []byte, want jsontext.Value) (out []byte, fresh bool, err error) {
	t, err := l.readTree(text)
	if err != nil {
		return nil, false, err
	}
	ours := t.ours()
	if len(ours) == 1 && t.as(ours[0], want) {
		return text, false, nil
	}
	cleaned, err := l.uninstalled(text)
	if err != nil {
		return nil, false, err
	}
	if t, err = l.readTree(cleaned); err != nil {
		return nil, false, err
	}
	t.made = string(cleaned) == l.base && (l.fresh || l.comments.read(text).opens())
	out, err = t.with(want)
	if err == nil && !jsontext.Value(l.comments.read(out).plain).IsValid() {
		err = errors.New("the edited settings would not be JSON")
	}
	return out, len(ours) == 0, err
}

// maxOurs is how many of gated's hooks are removed from a file.
const maxOurs = 100

// uninstalled returns settings that do not ask gated.
func (l site) uninstalled(text []byte) ([]byte, error) {
	for {
		t, err := l.readTree(text)
		if err != nil {
			return nil, err
		}
		ours := t.ours()
		switch {
		case len(ours) == 0:
			return text, nil
		case len(ours) > maxOurs: // the text is read again for each
			return nil, refusal.New(refusal.Conflict, "it asks gated more than %d times", maxOurs).
				WithHint("remove all but one by hand: nothing was changed")
		}
		text = t.without(ours[0])
	}
}

// called returns the line by which the settings call gated; empty if they do not. If there are several, one that blocks
// counts.
func (t tree) called() called {
	var out called
	for i, p := range t.ours() {
		read := readLine(t.command(p.of[p.hook]))
		if i == 0 || read.onFailure == string(Block) && out.onFailure != string(Block) {
			out = read
		}
	}
	return out
}

// isOurs reports whether a command line runs this hook, as "gated hook pre-tool-use", at any path of gated.
func (l site) isOurs(line string) bool {
	program, rest := firstWord(line)
	words := strings.Fields(rest)
	return strings.HasPrefix(filepath.Base(program), "gated") && len(words) >= 2 && words[0] == "hook" && words[1] == cmp.Or(l.sub, "pre-tool-use")
}

// firstWord splits off the first word of a line for sh, as Quote writes it.
func firstWord(line string) (word, rest string) {
	var b strings.Builder
	for quoted := false; line != ""; line = line[1:] {
		switch c := line[0]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
			b.WriteByte(c)
		case c == ' ' || c == '\t':
			return b.String(), line
		case c == '\\' && len(line) > 1:
			line = line[1:]
			b.WriteByte(line[0])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}
