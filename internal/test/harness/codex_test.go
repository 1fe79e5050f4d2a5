package harness_test

import (
	"fmt"
	"strings"
)

// codexSearch is the tool with which a model of Codex finds the tools of MCP servers. At first Codex lists none.
const codexSearch = "tool_search"

// codexTalk is the protocol of Codex and its model: responses as a stream of events.
type codexTalk struct{}

func (codexTalk) turn(path string, _ object) bool { return strings.HasSuffix(path, "/responses") }

func (codexTalk) reply(_ string, next *call) (kind, body string) {
	item := map[string]any{"type": "message", "role": "assistant", "id": "last",
		"content": []any{map[string]any{"type": "output_text", "text": "That was all."}}}
	id := "last"
	switch {
	case next == nil:
	case next.tool == codexSearch:
		id = next.id
		item = map[string]any{"type": "tool_search_call", "call_id": id, "execution": "client", "arguments": next.args}
	case next.text != "":
		id = next.id
		item = map[string]any{"type": "custom_tool_call", "call_id": id, "name": next.tool, "input": next.text}
	default:
		id = next.id
		item = map[string]any{"type": "function_call", "call_id": id, "name": next.tool, "arguments": asJSON(next.args)}
		if next.server != "" {
			item["namespace"] = "mcp__" + next.server
		}
	}
	usage := map[string]any{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
	return "text/event-stream", event("response.created", map[string]any{"response": map[string]any{"id": id}}) +
		event("response.output_item.done", map[string]any{"output_index": 0, "item": item}) +
		event("response.completed", map[string]any{"response": map[string]any{"id": id, "usage": usage}})
}

// event is one event of a stream.
func event(kind string, data map[string]any) string {
	data["type"] = kind
	return fmt.Sprintf("event: %s\ndata: %s\n\n", kind, asJSON(data))
}

func (codexTalk) told(request object, c call) (string, bool) {
	for _, item := range request.list("input") {
		kind, _ := item["type"].(string)
		if strings.HasSuffix(kind, "_output") && item["call_id"] == c.id {
			return text(item["output"]) + text(item["tools"]), true
		}
	}
	return "", false
}

// codex is Codex. It finds no other tool than its own for a patch, and its shell understands patches too.
func codex() product {
	return product{
		name: "Codex", pkg: "@openai/codex", program: ".bin/codex", speaks: codexTalk{}, dialect: "codex",
		settings: ".codex/hooks.json", contexts: []string{"SessionStart", "UserPromptSubmit"},
		files: func(w *world) map[string]string {
			return map[string]string{".codex/config.toml": fmt.Sprintf(`model = "gpt-5.5"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "%s/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[projects."%s"]
trust_level = "trusted"
`, w.model.URL, w.repo)}
		},
		environ: func(*world) []string { return []string{"SCRIPTED_KEY=x"} },
		args:    []string{"exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "Do it."},
		trust:   trustCodexHooks,
		find:    []call{{tool: codexSearch, args: map[string]any{"query": "destroy a virtual machine"}}},
		tool: func(name string, args map[string]any) call {
			return call{server: "gated", tool: name, args: args}
		},
		edit:    func(path string) call { return codexPatch(update(path)) },
		create:  func(path string) call { return codexPatch(add(path)) },
		patch:   func(p patched) call { return codexPatch(p.String()) },
		heredoc: func(p patched) call { return codexShell("apply_patch <<'EOF'\n" + envelope(p.String()) + "EOF\n") },
		runs: func(p patched) call {
			// Codex applies a line of its own form itself, and leaves this one to the shell. A login shell has another
			// PATH.
			c := codexShell(":; apply_patch <<'EOF'\n" + envelope(p.String()) + "EOF\n")
			c.args["login"] = false
			return c
		},
		shell: codexShell,
	}
}

func codexPatch(sections string) call { return call{tool: "apply_patch", text: envelope(sections)} }

func codexShell(line string) call {
	return call{tool: "exec_command", args: map[string]any{"cmd": line}}
}
