package hook

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// site says where a product's hooks are installed, and in which form.
type site struct {
	file   string        // in the checkout
	base   string        // the content of a new file
	event  string        // the member with the entries
	sub    string        // the hook that the entries call; empty for pre-tool-use
	flat   bool          // an entry is a hook, and no list of hooks
	line   string        // the member with a hook's line
	unit   time.Duration // of timeouts
	entry  entry         // the form of an entry
	marks  []string      // of them, one in the checkout says that the product is used there
	home   string        // in the user's home, the product's directory: says that the product is used
	dirVar string        // a variable that names another place of that directory
	dirIn  string        // the directory, below what the variable names
	atHome string        // the file below home, for all of the checkouts
	other  string        // another file below home and the first of marks, with the switch for all hooks
	// comments says what the product reads beside JSON.
	comments comments
	fresh    bool // the file is not there, or blank
}

// entry returns an entry with a line, for the tools of the matcher. After the timeout, in the product's unit, the product goes on without an answer.
type entry func(line string, timeout int64, matcher string) any

// group is an entry of Claude Code and those that follow it: hooks, for the tools that it matches.
type group struct {
	Matcher string    `json:"matcher"`
	Hooks   []command `json:"hooks"`
}

type command struct {
	Type    string `json:"type"`
	Name    string `json:"name,omitzero"` // for people
	Command string `json:"command"`
	Timeout int64  `json:"timeout"` // in the product's unit
}

// claudeMatcher has the tools of Claude Code in the order that installed entries have.
const claudeMatcher = "Edit|Write|MultiEdit|NotebookEdit"

// matcherOf matches the tools about which a product asks the hook.
func matcherOf(d Dialect, s Setup) string {
	matcher := strings.Join(askedOf(d, s), "|")
	if d == Dialect(Claude{}) {
		matcher = strings.Replace(matcher, strings.Join(ToolsOf(d), "|"), claudeMatcher, 1)
	}
	return matcher
}

const (
	emptyObject = "{}\n"
	versioned   = "{\n  \"version\": 1\n}\n"
)

func (Claude) site() site {
	return site{file: ".claude/settings.json", base: emptyObject, event: preToolUse, line: "command", unit: time.Second,
		marks: []string{".claude", "CLAUDE.md"}, home: ".claude", dirVar: "CLAUDE_CONFIG_DIR", atHome: "settings.json",
		entry: func(line string, timeout int64, matcher string) any {
			return group{matcher, []command{{Type: "command", Command: line, Timeout: timeout}}}
		}}
}

func (Codex) site() site {
	return site{file: ".codex/hooks.json", base: emptyObject, event: preToolUse, line: "command", unit: time.Second,
		marks: []string{".codex"}, home: ".codex", dirVar: "CODEX_HOME", atHome: "hooks.json", other: "config.toml",
		entry: func(line string, timeout int64, matcher string) any {
			return group{matcher, []command{{Type: "command", Command: line, Timeout: timeout}}}
		}}
}

// geminiName is the name of gated's hook in Gemini CLI's settings, which can switch off hooks by name.
const geminiName = "gated"

func (Gemini) site() site {
	return site{file: ".gemini/settings.json", base: emptyObject, event: "BeforeTool", line: "command", unit: time.Millisecond,
		marks: []string{".gemini", "GEMINI.md"}, home: ".gemini", dirVar: "GEMINI_CLI_HOME", dirIn: ".gemini",
		atHome: "settings.json", comments: withComments,
		entry: func(line string, timeout int64, matcher string) any {
			return group{matcher, []command{{Type: "command", Name: geminiName, Command: line, Timeout: timeout}}}
		}}
}

func (Cursor) site() site {
	type hook struct {
		Command string `json:"command"`
		Matcher string `json:"matcher"`
		Timeout int64  `json:"timeout"` // seconds
	}
	return site{file: ".cursor/hooks.json", base: versioned, event: "preToolUse", flat: true, line: "command", unit: time.Second,
		marks: []string{".cursor", ".cursorrules"}, home: ".cursor", atHome: "hooks.json",
		entry: func(line string, timeout int64, matcher string) any { return hook{line, matcher, timeout} }}
}

func (Copilot) site() site {
	type hook struct {
		Type    string `json:"type"`
		Bash    string `json:"bash"`
		Timeout int64  `json:"timeoutSec"`
	}
	return site{file: ".github/hooks/gated.json", base: versioned, event: "preToolUse", flat: true, line: "bash", unit: time.Second,
		marks: []string{".github/hooks", ".github/copilot-instructions.md"}, home: ".copilot", dirVar: "COPILOT_HOME",
		atHome: "hooks/gated.json",
		entry:  func(line string, timeout int64, matcher string) any { return hook{"command", line, timeout} }}
}

func (OpenCode) site() site {
	return site{file: ".opencode/plugins/gated.js", marks: []string{".opencode", "opencode.json", "opencode.jsonc"},
		home: ".config/opencode", dirVar: "XDG_CONFIG_HOME", dirIn: "opencode", atHome: "plugins/gated.js"}
}

// wanted returns the entry that makes the agent ask gated.
func (l site) wanted(line string, timeout time.Duration, matcher string) (jsontext.Value, error) {
	return json.Marshal(l.entry(line, int64((timeout+l.unit-1)/l.unit), matcher), json.Deterministic(true))
}

// isBase reports whether a text says no more than a new file.
func (l site) isBase(text []byte) bool {
	var is, base any
	return json.Unmarshal(l.comments.read(text).plain, &is) == nil && bytes.Equal(l.comments.read(text).plain, text) && json.Unmarshal([]byte(l.base), &base) == nil && reflect.DeepEqual(is, base)
}

// SettingsFor returns the file of a product's hooks in the checkout with that top level.
func SettingsFor(d Dialect, top string) Settings {
	return Settings{Path: filepath.Join(top, d.site().file), For: d}
}

// SettingsHere returns the files of all products' hooks in the checkout with that top level.
func SettingsHere(top string) []Settings {
	var out []Settings
	for _, d := range Dialects() {
		out = append(out, SettingsFor(d, top))
		if d == Dialect(Claude{}) {
			out = append(out, Settings{Path: LocalSettingsOf(top), For: d})
		}
	}
	return out
}

// userDir returns the product's directory of a user, which counts in all checkouts: where the product's own variable says,
// or in the home. A relative path is one in the checkout with that top level, in which the product starts. It is empty if
// the environment names no home.
func (l site) userDir(top string, getenv func(string) string) string {
	if l.dirVar != "" {
		if dir := getenv(l.dirVar); dir != "" {
			if dir = filepath.Join(dir, l.dirIn); !filepath.IsAbs(dir) {
				dir = filepath.Join(top, dir)
			}
			return dir
		}
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, l.home)
	}
	return ""
}

// SettingsAtHome returns the files of all products' hooks of a user, for the checkout with that top level.
func SettingsAtHome(top string, getenv func(string) string) []Settings {
	var out []Settings
	for _, d := range Dialects() {
		s := d.site()
		if dir := s.userDir(top, getenv); dir != "" {
			out = append(out, Settings{Path: filepath.Join(dir, s.atHome), For: d, AtHome: true})
		}
	}
	return out
}

// switchFiles returns the files that have no hooks, and may switch off those of others.
func switchFiles(top string, getenv func(string) string) []Settings {
	var out []Settings
	for _, d := range Dialects() {
		s := d.site()
		if s.other == "" {
			continue
		}
		out = append(out, Settings{Path: filepath.Join(top, s.marks[0], s.other), For: d, Switches: true})
		if dir := s.userDir(top, getenv); dir != "" {
			out = append(out, Settings{Path: filepath.Join(dir, s.other), For: d, AtHome: true, Switches: true})
		}
	}
	return out
}

// SettingsThatCount returns the files of all products' hooks that count in a checkout: its own, and the user's.
func SettingsThatCount(top string, getenv func(string) string) []Settings {
	out := SettingsHere(top)
	for _, s := range append(SettingsAtHome(top, getenv), switchFiles(top, getenv)...) {
		if !slices.ContainsFunc(out, func(o Settings) bool { return o.Path == s.Path }) {
			out = append(out, s)
		}
	}
	return out
}

// Found returns the products that are used in the checkout with that top level, or by a user.
func Found(top string, getenv func(string) string) []Dialect {
	var out []Dialect
	for _, d := range Dialects() {
		l := d.site()
		dir := l.userDir(top, getenv)
		used := dir != "" && there(dir)
		for _, mark := range l.marks {
			used = used || there(filepath.Join(top, mark))
		}
		if used {
			out = append(out, d)
		}
	}
	return out
}
