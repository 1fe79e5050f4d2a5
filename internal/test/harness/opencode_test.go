package harness_test

import "strings"

// opencodeTalk is the protocol of opencode and its model: completions of a chat, in pieces.
type opencodeTalk struct{}

func (opencodeTalk) turn(path string, request object) bool {
	return strings.HasSuffix(path, "/chat/completions") && len(request.list("tools")) > 0
}

func (opencodeTalk) reply(_ string, next *call) (kind, body string) {
	delta, finish := map[string]any{"role": "assistant", "content": "That was all."}, "stop"
	if next != nil {
		finish = "tool_calls"
		function := map[string]any{"name": next.tool, "arguments": asJSON(next.args)}
		delta = map[string]any{"role": "assistant", "tool_calls": []any{
			map[string]any{"index": 0, "id": next.id, "type": "function", "function": function}}}
	}
	piece := func(delta map[string]any, finish any) string {
		return "data: " + asJSON(map[string]any{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
			"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}) + "\n\n"
	}
	return "text/event-stream", piece(delta, nil) + piece(map[string]any{}, finish) + "data: [DONE]\n\n"
}

func (opencodeTalk) told(request object, c call) (string, bool) {
	for _, message := range request.list("messages") {
		if message["role"] == "tool" && message["tool_call_id"] == c.id {
			return text(message["content"]), true
		}
	}
	return "", false
}

// opencode is opencode. It offers a model whose name begins with gpt-5 a tool for patches, and any other model the
// tools edit and write. Its package from npm has a script that links the program of another package; here that program
// is installed alone, in the build for every processor.
func opencode(model string) product {
	p := product{
		name: "opencode", pkg: "opencode-linux-x64-baseline", program: "opencode-linux-x64-baseline/bin/opencode",
		speaks: opencodeTalk{}, dialect: "opencode",
		files: func(w *world) map[string]string {
			// opencode asks a registry for its plugins' types, and waits for the answer. The model says that it has none.
			npm := "registry=" + w.model.URL + "/\nfetch-retries=0\n"
			return map[string]string{".npmrc": npm, ".config/opencode/opencode.json": asJSON(map[string]any{
				"model": "scripted/" + model, "small_model": "scripted/" + model, "autoupdate": false, "share": "disabled",
				"permission": map[string]any{"*": "allow"},
				"provider": map[string]any{"scripted": map[string]any{
					"npm": "@ai-sdk/openai-compatible", "name": "scripted",
					"options": map[string]any{"baseURL": w.model.URL + "/v1", "apiKey": "x"},
					"models": map[string]any{model: map[string]any{"name": model, "tool_call": true,
						"limit": map[string]any{"context": 100_000, "output": 10_000}}},
				}},
			})}
		},
		environ: func(*world) []string {
			return []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1"}
		},
		args: []string{"run", "Do it."},
		tool: func(name string, args map[string]any) call { return call{tool: "gated_" + name, args: args} },
	}
	if strings.HasPrefix(model, "gpt-5") {
		p.patch = func(files patched) call {
			return call{tool: "apply_patch", args: map[string]any{"patchText": envelope(files.String())}}
		}
		return p
	}
	p.shell = func(line string) call {
		return call{tool: "bash", args: map[string]any{"command": line, "description": "a line of the script"}}
	}
	p.edit = func(path string) call {
		return call{tool: "edit", args: map[string]any{"filePath": path, "oldString": before, "newString": after}}
	}
	p.create = func(path string) call {
		return call{tool: "write", args: map[string]any{"filePath": path, "content": after + "\n"}}
	}
	return p
}
