package hook

import (
	"maps"
	"slices"
)

// speaker returns the dialect of a call: by a member that only one product writes, by the event, or by a tool that is
// another product's. It is d if nothing tells. Some products run the hooks that the settings of another one name, so the
// entry does not tell.
func speaker(h heard, d Dialect) Dialect {
	for _, s := range signs {
		if h.there[s.member] && (s.beside == "" || len(h.texts[s.beside]) > 0) {
			return s.by
		}
	}
	if h.may(d.form().event) && h.uses(d.form()) {
		return d
	}
	// Codex reads more of a shell's line than Claude Code does, so a call that may be either's is its.
	for _, other := range append(append([]Dialect{Codex{}}, Dialects()...), copilotAsClaude{}) {
		if f := other.form(); h.may(f.event) && h.fits(f) {
			return other
		}
	}
	for _, other := range Dialects() {
		if f := other.form(); h.may(f.event) && h.writes(f) {
			return other
		}
	}
	if h.may(d.form().event) {
		return d
	}
	for _, other := range Dialects() {
		f := other.form()
		if len(h.texts[eventMember]) > 0 && len(h.texts[f.name]) > 0 && h.may(f.event) {
			return other
		}
	}
	return d
}

// tells reports whether a member tells a product.
func tells(member string) bool {
	return slices.ContainsFunc(signs, func(s sign) bool { return s.member == member })
}

// may reports whether a call has an event, or does not say its event.
func (h heard) may(event string) bool {
	events := h.texts[eventMember]
	return len(events) == 0 || slices.Contains(events, "") || slices.Contains(events, event)
}

// writes reports whether a call is one of a tool of that form that writes.
func (h heard) writes(f form) bool {
	return slices.ContainsFunc(h.texts[f.name], func(tool string) bool { _, ours := f.tools[tool]; return ours })
}

// uses reports whether a call is one of a tool of that form.
func (h heard) uses(f form) bool {
	return h.writes(f) || slices.ContainsFunc(h.texts[f.name], func(tool string) bool {
		return slices.Contains(f.shells, tool) || slices.Contains(f.runs, tool)
	})
}

// fits reports whether a call is one of a tool of that form, with what the tool needs.
func (h heard) fits(f form) bool {
	in := h.inputs[f.input]
	return slices.ContainsFunc(h.texts[f.name], func(tool string) bool {
		if slices.Contains(f.runs, tool) {
			return len(in.members[shellMember]) > 0
		}
		e, ours := f.tools[tool]
		return ours && (len(in.members[e.patch]) > 0 || slices.ContainsFunc(e.members, func(m string) bool { return len(in.members[m]) > 0 }) ||
			(f.inside || e.patch != "") && len(in.whole) > 0)
	})
}

// along adds the tools of another form to those that a product has: the product may use the names of the settings that it
// reads.
func (f form) along(other form) form {
	if f.name != other.name {
		return f
	}
	tools := maps.Clone(other.tools)
	maps.Copy(tools, f.tools)
	f.tools = tools
	f.shells = slices.Concat(f.shells, other.shells)
	f.runs = slices.Concat(f.runs, other.runs)
	f.at = slices.Concat(f.at, other.at)
	return f
}

// copilotAsClaude is Copilot CLI when it runs a hook in the form of Claude Code's calls, with its own tools in them. It
// reads both forms of a refusal.
type copilotAsClaude struct{ Copilot }

func (c copilotAsClaude) form() form {
	f := c.Copilot.form()
	f.event, f.name, f.input = preToolUse, toolName, "tool_input"
	return f
}

func (copilotAsClaude) refuse(reason string) Outcome {
	return written(struct {
		Decision string   `json:"permissionDecision"`
		Reason   string   `json:"permissionDecisionReason"` // for the agent
		Specific decision `json:"hookSpecificOutput"`
	}{"deny", reason, decision{Event: preToolUse, Decision: "deny", Reason: reason}}, reason)
}
