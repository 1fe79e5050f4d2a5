package hook

import (
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ToolState is a hook of gated's in an agent's settings.
type ToolState struct {
	Command string   // the line in the settings; it is never run
	Program string   // that it calls, if Known
	Known   bool     // Command is byte for byte what Install writes for Program and Setup
	Matcher string   // from the settings
	Tools   []string // those of ToolsOf that it matches
	Timeout int64    // seconds after which the harness goes on without it; 0: the harness's default
	Lame    string   // why the harness would not wait for its answer; empty if it would
	Setup   Setup    // the line's arguments
}

// SettingsState is gated's part of an agent's settings.
type SettingsState struct {
	There bool // the file exists
	Off   bool // no hook is run (disableAllHooks)
	Hooks []ToolState
}

// State reads settings. Errors are those of Install.
func (s Settings) State() (SettingsState, error) {
	old, err := readSettings(s.Path)
	if err != nil || old.info == nil || len(strings.TrimSpace(string(old.content))) == 0 {
		return SettingsState{There: err == nil && old.info != nil}, err
	}
	t, err := readTree(old.content)
	if err != nil {
		return SettingsState{}, named(s.Path, err)
	}
	out := SettingsState{There: true, Off: switchedOff(old.content)}
	for _, p := range t.ours() {
		out.Hooks = append(out.Hooks, t.state(p))
	}
	return out, nil
}

// state reads one hook. A value of a wrong type counts as missing.
func (t tree) state(p place) ToolState {
	var group struct {
		Matcher jsontext.Value `json:"matcher"`
	}
	var c struct {
		Type    string         `json:"type"`
		Command string         `json:"command"`
		Timeout jsontext.Value `json:"timeout"`
		Async   jsontext.Value `json:"async"`
		If      jsontext.Value `json:"if"`
	}
	at := t.groups[p.group]
	_ = json.Unmarshal(t.text[at.start:at.end], &group) // readTree read it already
	at = p.of[p.hook]
	err := json.Unmarshal(t.text[at.start:at.end], &c)
	out := ToolState{Command: c.Command, Setup: readLine(c.Command).setup()}
	if program, setup, ok := asInstalled(c.Command, "pre-tool-use"); ok {
		out.Program, out.Setup, out.Known = program, setup, true
	}
	_ = json.Unmarshal(group.Matcher, &out.Matcher)
	_ = json.Unmarshal(c.Timeout, &out.Timeout)
	switch {
	case err != nil || c.Type != "command":
		out.Lame = lameType
	case len(c.Async) > 0 && string(c.Async) != "false":
		out.Lame = lameAsync
	case len(c.If) > 0:
		out.Lame = lameIf
	}
	for _, tool := range ToolsOf(Claude{}) {
		if toolMatches(out.Matcher, tool) {
			out.Tools = append(out.Tools, tool)
		}
	}
	return out
}

// The reasons why a harness does not wait for a hook's answer.
const (
	lameType  = "its type is not command"
	lameAsync = "it is async: nothing waits for its answer"
	lameIf    = "it has a condition (if): what does not meet that is not asked about"
)

// toolMatches reports whether a matcher surely matches a tool. "" and "*" match all; names with "|" between them match
// those. Anything else is a regular expression, which must match the whole name here, because harnesses differ.
func toolMatches(matcher, tool string) bool {
	if matcher == "" || matcher == "*" {
		return true
	}
	if slices.Contains(strings.Split(matcher, "|"), tool) {
		return true
	}
	re, err := regexp.Compile("^(?:" + matcher + ")$")
	return err == nil && re.MatchString(tool)
}
