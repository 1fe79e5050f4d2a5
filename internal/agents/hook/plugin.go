package hook

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// opencode has no settings for hooks, and runs a plugin instead. The plugin is a file of gated's own.

// pluginMark is the first line of gated's plugin.
const pluginMark = "// Written by gated hook install --for opencode, and replaced by it: do not edit.\n"

// pluginCommand begins the line of the plugin with the hook's command.
const pluginCommand = "const command = "

// pluginText is the plugin. It calls the hook program for each tool that writes, and throws what the hook refuses.
const pluginText = pluginMark + `import { spawnSync } from "node:child_process";
COMMAND;
const block = BLOCK; // a call that cannot be checked is refused
const tools = TOOLS;
export const Gated = async ({ client, directory }) => ({
  "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
    if (!tools.includes(tool)) return;
    const call = { hook_event_name: "tool.execute.before", tool, sessionID, callID, cwd: directory, args };
    const done = spawnSync(command[0], command.slice(1), { input: JSON.stringify(call), encoding: "utf8", timeout: TIMEOUT });
    let answer;
    try {
      answer = JSON.parse(done.stdout ?? ""); // null if the program cannot be run
    } catch {
      answer = { fault: done.error?.message ?? done.stderr };
    }
    if (answer.refuse) throw new Error(answer.refuse);
    if (answer.fault === undefined && !answer.warning) return;
    const text = answer.warning ?? "gated: the hook program did not answer: " + answer.fault;
    if (!answer.warning && (block || done.status === 2)) throw new Error(text);
    await client?.app?.log?.({ body: { service: "gated", level: "warn", message: text } }).catch(() => {});
  },
});
`

// isPlugin reports whether the product runs a plugin.
func (s Settings) isPlugin() bool {
	_, ok := s.For.(OpenCode)
	return ok
}

// plugin returns the plugin that calls a program. BadParams as Command.
func plugin(program string, s Setup) ([]byte, error) {
	if _, err := Command(program); err != nil {
		return nil, err
	}
	command, err := json.Marshal(append([]string{program}, s.Args("pre-tool-use")...))
	if err != nil {
		return nil, err
	}
	tools, err := json.Marshal(askedOf(OpenCode{}, s))
	if err != nil {
		return nil, err
	}
	block := "false"
	if s.OnFailure == Block {
		block = "true"
	}
	timeout, err := json.Marshal(timeoutOf(s).Milliseconds())
	if err != nil {
		return nil, err
	}
	return []byte(strings.NewReplacer("COMMAND", pluginCommand+string(command), "BLOCK", block, "TOOLS", string(tools),
		"TIMEOUT", string(timeout)).Replace(pluginText)), nil
}

// readPlugin returns the call in a plugin of gated's. ours is false for any other file.
func readPlugin(text []byte) (c called, ours bool) {
	if !bytes.HasPrefix(text, []byte(pluginMark)) {
		return c, false
	}
	for line := range strings.Lines(string(text)) {
		var words []string
		list, ok := strings.CutPrefix(strings.TrimSuffix(line, ";\n"), pluginCommand)
		if !ok || json.Unmarshal([]byte(list), &words) != nil || len(words) == 0 {
			continue
		}
		return readLine(op.ShellWords(words...)), true
	}
	return c, true
}

// installPlugin writes the plugin. Conflict: another file has its name.
func (s Settings) installPlugin(program string, wish Setup) (Report, error) {
	old, err := readSettings(s.Path)
	if err != nil {
		return Report{}, err
	}
	was, ours := readPlugin(old.content)
	if old.info != nil && !ours {
		return Report{}, refusal.New(refusal.Conflict, "%s is not gated's", op.Shown(s.Path)).WithHint("move it: nothing was changed")
	}
	setup, err := s.setup(wish, was)
	if err != nil {
		return Report{}, err
	}
	text, err := plugin(program, setup)
	if err != nil {
		return Report{}, err
	}
	line, err := setup.line(program, "pre-tool-use")
	if err != nil {
		return Report{}, err
	}
	change := Change{Path: s.Path, Action: Changed}
	switch {
	case old.info == nil:
		change.Action = Created
	case bytes.Equal(old.content, text):
		change.Action = Unchanged
	case was.program != "":
		change.Differs = was.differs(readLine(line))
	}
	report := Report{Changes: []Change{change}, Notes: s.notes(wish)}
	if s.DryRun || change.Action == Unchanged {
		return report, nil
	}
	return report, old.replace(text)
}

// uninstallPlugin deletes the plugin, and leaves any other file.
func (s Settings) uninstallPlugin(old settingsFile) (Report, error) {
	change := Change{Path: s.Path, Action: Unchanged}
	if _, ours := readPlugin(old.content); ours {
		change.Action = Removed
	}
	report := Report{Changes: []Change{change}, Notes: []string{}}
	if s.DryRun || change.Action == Unchanged {
		return report, nil
	}
	return report, old.removeAll(s.For.site())
}

// pluginState is the state of the plugin.
func (s Settings) pluginState(text []byte) SettingsState {
	was, ours := readPlugin(text)
	out := SettingsState{There: true}
	if !ours {
		return out
	}
	line, err := was.setup().line(was.program, "pre-tool-use")
	if err != nil {
		line = was.program
	}
	h := ToolState{Command: line, Setup: was.setup(), Tools: ToolsOf(s.For), Matcher: matcherOf(s.For, was.setup()),
		Timeout: timeoutOf(was.setup())}
	if h.Setup.Steers() {
		h.Shells = ShellsOf(s.For)
	}
	if h.Setup.OnFailure != "" {
		written, err := plugin(was.program, h.Setup)
		h.Known = err == nil && bytes.Equal(written, text)
	}
	if h.Known {
		h.Program = was.program
	}
	out.Hooks = []ToolState{h}
	return out
}
