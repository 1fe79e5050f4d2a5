package hook

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/base/refusal"
)

// matcher matches the tools of Tools in an agent's settings.
const matcher = "Edit|Write|MultiEdit|NotebookEdit"

// entry is an entry of an agent's settings: hooks, for the tools that it matches.
type entry struct {
	Matcher string    `json:"matcher"`
	Hooks   []command `json:"hooks"`
}

type command struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"` // seconds after which the harness goes on without it
}

// wanted returns the entry that makes the agent ask gated.
func wanted(line string, timeout int) entry {
	return entry{matcher, []command{{"command", line, timeout}}}
}

// tree finds the hooks in an agent's settings.
type tree struct {
	text   []byte
	root   []member
	hooks  member // of the root, if hasHooks
	events []member
	before member // PreToolUse, of the events, if hasBefore
	groups []span

	hasHooks, hasBefore bool
}

// readTree reads settings. Text that is not a JSON object is Malformed. An object whose hooks have another form is a
// Conflict.
func readTree(text []byte) (tree, error) {
	t := tree{text: text}
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
	if t.before, t.hasBefore = memberOf(t.events, preToolUse); !t.hasBefore {
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
	for g, at := range t.groups {
		group, _ := members(t.text, at)
		list, ok := memberOf(group, "hooks")
		if !ok {
			continue
		}
		hooks, _ := elements(t.text, list.value)
		for i, at := range hooks {
			var c struct {
				Command string `json:"command"`
			}
			if json.Unmarshal(t.text[at.start:at.end], &c) == nil && isOurs(c.Command) {
				out = append(out, place{g, i, hooks})
			}
		}
	}
	return out
}

// as reports whether a hook and its entry are exactly as wanted, with or without other hooks beside it.
func (t tree) as(p place, want entry) bool {
	var group struct {
		Matcher string           `json:"matcher"`
		Hooks   []jsontext.Value `json:"hooks"`
	}
	var c command
	at := p.of[p.hook]
	return json.Unmarshal(t.text[t.groups[p.group].start:t.groups[p.group].end], &group, json.RejectUnknownMembers(true)) == nil &&
		group.Matcher == want.Matcher &&
		json.Unmarshal(t.text[at.start:at.end], &c, json.RejectUnknownMembers(true)) == nil && c == want.Hooks[0]
}

// without removes one hook, and what is then empty.
func (t tree) without(p place) []byte {
	switch {
	case len(p.of) > 1:
		return cut(t.text, p.of, p.hook)
	case len(t.groups) > 1:
		return cut(t.text, t.groups, p.group)
	case len(t.events) > 1:
		return cutMember(t.text, t.events, preToolUse)
	case len(t.root) > 1:
		return cutMember(t.text, t.root, "hooks")
	default:
		root := whole(t.text)
		return replaced(t.text, root, "{}")
	}
}

func cutMember(text []byte, list []member, name string) []byte {
	for i, m := range list {
		if m.name == name {
			return cut(text, spans(list), i)
		}
	}
	return text
}

// with adds an entry.
func (t tree) with(e entry) ([]byte, error) {
	group, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	list := bytes.Join([][]byte{[]byte("["), group, []byte("]")}, nil)
	switch {
	case t.hasBefore:
		return add(t.text, t.before.value, t.groups, "", group)
	case t.hasHooks:
		return add(t.text, t.hooks.value, spans(t.events), preToolUse, list)
	}
	events, err := json.Marshal(map[string]jsontext.Value{preToolUse: list})
	if err != nil {
		return nil, err
	}
	return add(t.text, whole(t.text), spans(t.root), "hooks", events)
}

// installed returns settings that ask gated exactly once, as wanted. fresh says that they did not ask before.
func installed(text []byte, want entry) (out []byte, fresh bool, err error) {
	t, err := readTree(text)
	if err != nil {
		return nil, false, err
	}
	ours := t.ours()
	if len(ours) == 1 && t.as(ours[0], want) {
		return text, false, nil
	}
	cleaned, err := uninstalled(text)
	if err != nil {
		return nil, false, err
	}
	if t, err = readTree(cleaned); err != nil {
		return nil, false, err
	}
	out, err = t.with(want)
	if err == nil && !jsontext.Value(out).IsValid() {
		err = errors.New("the edited settings would not be JSON")
	}
	return out, len(ours) == 0, err
}

// uninstalled returns settings that do not ask gated.
func uninstalled(text []byte) ([]byte, error) {
	for {
		t, err := readTree(text)
		if err != nil {
			return nil, err
		}
		ours := t.ours()
		if len(ours) == 0 {
			return text, nil
		}
		text = t.without(ours[0])
	}
}

// called returns the line by which the settings call gated; empty if they do not. If there are several, one that blocks
// counts.
func (t tree) called() called {
	var out called
	for i, p := range t.ours() {
		var c struct {
			Command string `json:"command"`
		}
		at := p.of[p.hook]
		_ = json.Unmarshal(t.text[at.start:at.end], &c) // readTree read it already
		read := readLine(c.Command)
		if i == 0 || read.onFailure == string(Block) && out.onFailure != string(Block) {
			out = read
		}
	}
	return out
}

// switchedOff reports whether settings disable all hooks.
func switchedOff(text []byte) bool {
	var s struct {
		Off bool `json:"disableAllHooks"`
	}
	return json.Unmarshal(text, &s) == nil && s.Off
}

// isOurs reports whether a command line runs this hook: "gated hook pre-tool-use", at any path of gated.
func isOurs(line string) bool {
	program, rest := firstWord(line)
	words := strings.Fields(rest)
	return strings.HasPrefix(filepath.Base(program), "gated") && len(words) >= 2 && words[0] == "hook" && words[1] == "pre-tool-use"
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
