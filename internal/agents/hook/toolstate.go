package hook

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ToolState is a hook of gated's in an agent's settings.
type ToolState struct {
	Command string        // the line in the settings; it is never run
	Program string        // that it calls, if Known
	Known   bool          // Command is byte for byte what Install writes for Program and Setup
	Matcher string        // from the settings
	Tools   []string      // those of ToolsOf that it matches
	Shells  []string      // those of ShellsOf that it matches, if it steers
	Timeout time.Duration // after which the product goes on without it; 0: the product's default
	Lame    string        // why the harness would not wait for its answer; empty if it would
	Setup   Setup         // the line's arguments
}

// SettingsState is gated's part of an agent's settings.
type SettingsState struct {
	There bool // the file exists
	Switch
	Hooks []ToolState
	// Contexts are the lines by which the settings run gated hook context, one for each event that does.
	Contexts []string
}

// State reads settings. Errors are those of Install.
func (s Settings) State() (SettingsState, error) {
	path := s.Path
	if to, err := filepath.EvalSymlinks(path); err == nil && s.Switches {
		path = to // the file is read alone
	}
	old, err := readSettings(path)
	if err != nil || old.info == nil || len(strings.TrimSpace(string(old.content))) == 0 {
		return SettingsState{There: err == nil && old.info != nil}, err
	}
	if s.isPlugin() {
		return s.pluginState(old.content), nil
	}
	if s.Switches {
		off, err := codexSwitch(old.content)
		if err != nil {
			err = named(s.Path, err)
		}
		return SettingsState{There: true, Switch: off}, err
	}
	d := orClaude(s.For)
	t, err := d.site().readTree(old.content)
	if err != nil {
		return SettingsState{}, named(s.Path, err)
	}
	out := SettingsState{There: true, Switch: switchOf(t.plain)}
	for _, p := range t.ours() {
		out.Hooks = append(out.Hooks, t.state(p, d))
	}
	if out.Contexts, err = contextLines(d, old.content); err != nil {
		return SettingsState{}, named(s.Path, err)
	}
	return out, nil
}

// state reads one hook. A value of a wrong type counts as missing.
func (t tree) state(p place, d Dialect) ToolState {
	var group, c map[string]jsontext.Value
	at := t.groups[p.group]
	_ = json.Unmarshal(t.plain[at.start:at.end], &group) // readTree read it already
	at = p.of[p.hook]
	err := json.Unmarshal(t.plain[at.start:at.end], &c)
	line := t.command(at)
	out := ToolState{Command: line, Setup: readLine(line).setup()}
	if program, setup, ok := asInstalled(line, "pre-tool-use"); ok {
		out.Program, out.Setup, out.Known = program, setup, true
	}
	_ = json.Unmarshal(group["matcher"], &out.Matcher)
	out.Timeout = t.timeout(c)
	var kind string
	_ = json.Unmarshal(c["type"], &kind)
	off := func(name string) bool { return len(c[name]) > 0 && string(c[name]) != "false" }
	switch {
	case err != nil || kind != "command" && (!t.flat || kind != ""):
		out.Lame = lameType
	case off("async"):
		out.Lame = lameAsync
	case len(c["if"]) > 0:
		out.Lame = lameIf
	case out.Known && out.Setup.Dialect() != d:
		out.Lame = fmt.Sprintf("it reads the calls of %s, and %s runs it", out.Setup.Dialect().Product(), d.Product())
	}
	out.Tools = matched(out.Matcher, ToolsOf(d))
	if out.Setup.Steers() {
		out.Shells = matched(out.Matcher, ShellsOf(d))
	}
	return out
}

// Dialect returns the dialect that a line names.
func (s Setup) Dialect() Dialect {
	d, err := DialectOf(s.For)
	if err != nil {
		return Claude{}
	}
	return d
}

// timeout returns how long the product waits for a hook.
func (t tree) timeout(c map[string]jsontext.Value) time.Duration {
	for _, name := range []string{"timeout", "timeoutSec"} {
		var number int64
		if json.Unmarshal(c[name], &number) == nil && number > 0 && number < 1<<32 {
			return time.Duration(number) * t.unit
		}
	}
	return 0
}

// The reasons why a harness does not wait for a hook's answer.
const (
	lameType  = "its type is not command"
	lameAsync = "it is async: nothing waits for its answer"
	lameIf    = "it has a condition (if): what does not meet that is not asked about"
)

// matched returns the tools that a matcher surely matches.
func matched(matcher string, tools []string) []string {
	var out []string
	for _, tool := range tools {
		if toolMatches(matcher, tool) {
			out = append(out, tool)
		}
	}
	return out
}

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
