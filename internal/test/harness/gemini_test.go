package harness_test

import (
	"path/filepath"
	"strings"
)

// geminiTalk is the protocol of Gemini CLI and its model: content of parts.
type geminiTalk struct{}

func (geminiTalk) turn(path string, request object) bool {
	return strings.HasSuffix(path, ":streamGenerateContent") && request["tools"] != nil
}

// verdict answers the questions about the conversation that Gemini CLI asks beside: who speaks next, and which model
// suits.
const verdict = `{"next_speaker":"user","model_choice":"flash","reasoning":"scripted",` +
	`"complexity_reasoning":"scripted","complexity_score":1}`

func (geminiTalk) reply(path string, next *call) (kind, body string) {
	part := map[string]any{"text": verdict}
	if next != nil {
		part = map[string]any{"functionCall": map[string]any{"id": next.id, "name": next.tool, "args": next.args}}
	}
	reply := asJSON(map[string]any{
		"candidates": []any{map[string]any{"index": 0, "finishReason": "STOP",
			"content": map[string]any{"role": "model", "parts": []any{part}}}},
		"usageMetadata": map[string]any{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	})
	if strings.HasSuffix(path, ":streamGenerateContent") {
		return "text/event-stream", "data: " + reply + "\r\n\r\n"
	}
	return "application/json", reply
}

func (geminiTalk) told(request object, c call) (string, bool) {
	for _, content := range request.list("contents") {
		for _, part := range content.list("parts") {
			if response := part.at("functionResponse"); part.at("functionResponse", "id") == c.id {
				return text(object(response.(map[string]any)).at("response")), true
			}
		}
	}
	return "", false
}

// gemini is Gemini CLI. It has no tool for patches.
func gemini() product {
	return product{
		name: "Gemini CLI", pkg: "@google/gemini-cli", program: ".bin/gemini", speaks: geminiTalk{}, dialect: "gemini",
		settings: ".gemini/settings.json", contexts: []string{"SessionStart", "BeforeAgent"},
		seeks: true, missing: "No such file or directory",
		files: func(*world) map[string]string {
			return map[string]string{".gemini/settings.json": asJSON(map[string]any{
				"security": map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"},
					"folderTrust": map[string]any{"enabled": false}},
				"general":   map[string]any{"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
				"telemetry": map[string]any{"enabled": false},
				"privacy":   map[string]any{"usageStatisticsEnabled": false},
			})}
		},
		environ: func(w *world) []string {
			return []string{"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=" + w.model.URL, "NO_BROWSER=1"}
		},
		args: []string{"--approval-mode", "yolo", "--skip-trust", "--model", "gemini-2.5-pro",
			"--prompt", "Do it."},
		tool: func(name string, args map[string]any) call { return call{tool: "mcp_gated_" + name, args: args} },
		edit: func(path string) call {
			return call{tool: "replace", args: map[string]any{"file_path": path, "instruction": "change it",
				"old_string": before, "new_string": after}}
		},
		create: func(path string) call {
			return call{tool: "write_file", args: map[string]any{"file_path": path, "content": after + "\n"}}
		},
		shell: func(line string) call {
			return call{tool: "run_shell_command",
				args: map[string]any{"command": line, "description": filepath.Base(line)}}
		},
	}
}
