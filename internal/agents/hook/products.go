package hook

// Claude is Claude Code.
type Claude struct{}

// Name implements Dialect.
func (Claude) Name() string { return "claude" }

// Product implements Dialect.
func (Claude) Product() string { return "Claude Code" }

// CanExit implements Dialect.
func (Claude) CanExit() bool { return true }

func (Claude) form() form {
	return form{event: preToolUse, name: toolName, input: "tool_input", tools: map[string]edit{
		"Edit":         writes("file_path"),
		"MultiEdit":    writes("file_path"),
		"Write":        writes("file_path"),
		"NotebookEdit": writes("notebook_path"),
	}, runs: []string{"Bash"}}
}

func (Claude) refuse(reason string) Outcome { return denyByDecision(reason) }
func (Claude) warn(text string) Outcome     { return sayToUser(text) }
func (Claude) silent() Outcome              { return Outcome{} }

// Codex is OpenAI's Codex. Its hooks have Claude Code's form. An answer of allow or ask is an error to it.
type Codex struct{}

// Name implements Dialect.
func (Codex) Name() string { return "codex" }

// Product implements Dialect.
func (Codex) Product() string { return "Codex" }

// CanExit implements Dialect.
func (Codex) CanExit() bool { return true }

func (Codex) form() form {
	return form{event: preToolUse, name: toolName, input: "tool_input", tools: map[string]edit{
		"apply_patch": patches("command"),
	}, shells: []string{"Bash"}, runs: []string{"Bash"}, at: []string{workdirMember}}
}

func (Codex) refuse(reason string) Outcome { return denyByDecision(reason) }
func (Codex) warn(text string) Outcome     { return sayToUser(text) }
func (Codex) silent() Outcome              { return Outcome{} }

// Gemini is Gemini CLI. It ignores the answer that Claude Code wants for a refusal.
type Gemini struct{}

// Name implements Dialect.
func (Gemini) Name() string { return "gemini" }

// Product implements Dialect.
func (Gemini) Product() string { return "Gemini CLI" }

// CanExit implements Dialect.
func (Gemini) CanExit() bool { return true }

func (Gemini) form() form {
	return form{event: "BeforeTool", name: toolName, input: "tool_input", tools: map[string]edit{
		"write_file": writes("file_path"),
		"replace":    writes("file_path"),
	}, runs: []string{"run_shell_command"}, at: []string{"directory", "dir_path"}, seeks: []string{"replace"}, loose: true}
}

func (Gemini) refuse(reason string) Outcome {
	return written(struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"` // for the agent
	}{"deny", reason}, reason)
}
func (Gemini) warn(text string) Outcome { return sayToUser(text) }
func (Gemini) silent() Outcome          { return Outcome{} }

// Cursor is the editor Cursor. It must get JSON for an answer.
type Cursor struct{}

// Name implements Dialect.
func (Cursor) Name() string { return "cursor" }

// Product implements Dialect.
func (Cursor) Product() string { return "Cursor" }

// CanExit implements Dialect.
func (Cursor) CanExit() bool { return true }

func (Cursor) form() form {
	return form{event: "preToolUse", name: toolName, input: "tool_input", tools: map[string]edit{
		"Write":        writes("file_path", "path"),
		"Edit":         writes("file_path", "path"),
		"StrReplace":   writes("path", "file_path"),
		"Delete":       writes("file_path", "path"),
		"EditNotebook": writes("target_notebook", "notebook_path"),
		"ApplyPatch":   patches("patch"),
	}, runs: []string{"Shell"}, at: []string{"working_directory"}, roots: true, uris: true, inside: true}
}

func (Cursor) refuse(reason string) Outcome {
	return written(struct {
		Permission string `json:"permission"`
		Agent      string `json:"agent_message"`
		User       string `json:"user_message"`
	}{"deny", reason, "gated refused the call: another agent has reserved the file, the gate has an operation for it, or it could not be checked."}, reason)
}

func (Cursor) warn(text string) Outcome {
	return written(struct {
		User string `json:"user_message"`
	}{text}, "")
}

func (Cursor) silent() Outcome { return Outcome{Stdout: "{}\n"} }

// Copilot is GitHub's Copilot CLI. It must get an answer, and takes any exit code but 0 for a fault of the hook.
type Copilot struct{}

// Name implements Dialect.
func (Copilot) Name() string { return "copilot" }

// Product implements Dialect.
func (Copilot) Product() string { return "Copilot CLI" }

// CanExit implements Dialect.
func (Copilot) CanExit() bool { return false }

func (Copilot) form() form {
	return form{event: "preToolUse", name: "toolName", input: "toolArgs", tools: map[string]edit{
		"create":      writes("path"),
		"edit":        writes("path"),
		"apply_patch": patches("patch"),
	}, runs: []string{"bash"}, uris: true, inside: true}
}

func (Copilot) refuse(reason string) Outcome {
	return written(struct {
		Decision string `json:"permissionDecision"`
		Reason   string `json:"permissionDecisionReason"` // for the agent
	}{"deny", reason}, reason)
}

func (Copilot) warn(text string) Outcome { return Outcome{Stdout: "{}\n", Stderr: text + "\n"} }
func (Copilot) silent() Outcome          { return Outcome{Stdout: "{}\n"} }

// OpenCode is opencode. Its plugin, which gated installs, writes the calls and reads the answers.
type OpenCode struct{}

// Name implements Dialect.
func (OpenCode) Name() string { return "opencode" }

// Product implements Dialect.
func (OpenCode) Product() string { return "opencode" }

// CanExit implements Dialect.
func (OpenCode) CanExit() bool { return false }

func (OpenCode) form() form {
	return form{event: "tool.execute.before", name: "tool", input: "args", tools: map[string]edit{
		"edit":        writes("filePath"),
		"write":       writes("filePath"),
		"multiedit":   writes("filePath"),
		"patch":       patches("patchText"),
		"apply_patch": patches("patchText"),
	}, shells: []string{"bash"}, runs: []string{"bash"}, at: []string{workdirMember}}
}

func (OpenCode) refuse(reason string) Outcome {
	return written(struct {
		Refuse string `json:"refuse"`
	}{reason}, reason)
}

func (OpenCode) warn(text string) Outcome {
	return written(struct {
		Warning string `json:"warning"`
	}{text}, "")
}

func (OpenCode) silent() Outcome { return Outcome{Stdout: "{}\n"} }
