package hook

// contextSite says at which of a product's events a hook can add to the agent's context, and how.
type contextSite struct {
	events []string // the start of a session, and each prompt; empty if there is none
	object bool     // the hook prints an object, and no plain text
}

func (Claude) context() contextSite {
	return contextSite{events: []string{"SessionStart", "UserPromptSubmit"}}
}

func (Codex) context() contextSite { return Claude{}.context() }

func (Gemini) context() contextSite {
	return contextSite{events: []string{"SessionStart", "BeforeAgent"}, object: true}
}

// Cursor's sessionStart is in its documentation, but versions of Cursor refuse a file that has it.
func (Cursor) context() contextSite { return contextSite{} }

func (Copilot) context() contextSite  { return contextSite{} }
func (OpenCode) context() contextSite { return contextSite{} }

// tell returns what the hook prints.
func (c contextSite) tell(text string) Outcome {
	if !c.object || text == "" {
		return Outcome{Stdout: text}
	}
	type specific struct {
		Context string `json:"additionalContext"`
	}
	return written(struct {
		Specific specific `json:"hookSpecificOutput"`
	}{specific{text}}, "")
}

// contexts returns the place of gated hook context for each event of a product.
func contexts(d Dialect) []site {
	var out []site
	for _, event := range d.context().events {
		l := d.site()
		l.event, l.sub = event, "context"
		l.entry = func(line string, timeout int64, _ string) any {
			return struct {
				Hooks []command `json:"hooks"`
			}{[]command{{Type: "command", Command: line, Timeout: timeout}}}
		}
		out = append(out, l)
	}
	return out
}

// withContexts returns settings that run gated hook context at each event, or at none. If wish does not say, those that
// run it go on.
func withContexts(d Dialect, text []byte, program string, wish *bool, s Setup) ([]byte, error) {
	on := wish != nil && *wish
	if wish == nil {
		lines, err := contextLines(d, text)
		if err != nil {
			return nil, err
		}
		on = len(lines) > 0
	}
	if !on {
		return withoutContexts(d, text)
	}
	args := []string{"hook", "context"}
	if s.For != "" {
		args = append(args, "--for", s.For)
	}
	if s.Socket != "" {
		args = append(args, "--socket", s.Socket)
	}
	line, err := Command(program, args...)
	if err != nil {
		return nil, err
	}
	for _, l := range contexts(d) {
		want, err := l.wanted(line, ToolDeadline+timeoutMargin, "")
		if err != nil {
			return nil, err
		}
		if text, _, err = l.installed(text, want); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// withoutContexts returns settings that do not run gated hook context.
func withoutContexts(d Dialect, text []byte) (_ []byte, err error) {
	for _, l := range contexts(d) {
		if text, err = l.uninstalled(text); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// contextLines returns the lines by which settings run gated hook context, one for each event that does.
func contextLines(d Dialect, text []byte) ([]string, error) {
	var out []string
	for _, l := range contexts(d) {
		t, err := l.readTree(text)
		if err != nil {
			return nil, err
		}
		if ours := t.ours(); len(ours) > 0 {
			out = append(out, t.command(ours[0].of[ours[0].hook]))
		}
	}
	return out, nil
}
