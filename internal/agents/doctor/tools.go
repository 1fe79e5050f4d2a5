package doctor

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"gated/internal/agents/hook"
)

// exitDenied is the exit code by which a hook refuses a call without an answer.
const exitDenied = 2

// toolTrial runs this program as the hook of an agent's settings, in the directory, with a call on standard input. It
// never runs the line in the settings.
func (d Doctor) toolTrial(setup hook.Setup, tool string) func(context.Context, string) (verdict, error) {
	return func(ctx context.Context, path string) (verdict, error) {
		call, err := json.Marshal(map[string]any{
			"session_id": "gated-doctor", "transcript_path": "", "cwd": d.Place.Path, "permission_mode": "default",
			"hook_event_name": "PreToolUse", "tool_name": tool,
			"tool_input": map[string]any{hook.Tools[tool]: filepath.Join(d.Place.Path, path), "content": "", "new_source": "", "old_string": "", "new_string": ""},
		}, json.Deterministic(true))
		if err != nil {
			return verdict{}, err
		}
		cmd := exec.CommandContext(ctx, d.Program, setup.Args("pre-tool-use")...)
		cmd.Dir, cmd.Env = d.Place.Path, append(d.environment(), "CLAUDE_PROJECT_DIR="+d.Place.Path)
		cmd.Stdin = strings.NewReader(string(call))
		out, err := start(ctx, cmd)
		if err != nil {
			return verdict{}, err
		}
		return toolVerdict(out), nil
	}
}

// toolVerdict reads a hook's answer. After an exit code other than 0 and 2, the harness lets the call go on.
func toolVerdict(out output) verdict {
	var answer struct {
		Specific struct {
			Decision string `json:"permissionDecision"`
		} `json:"hookSpecificOutput"`
		Message string `json:"systemMessage"`
	}
	switch out.code {
	case exitDenied:
		return verdict{denied: true, said: out.stderr}
	case 0:
	default:
		return verdict{failed: true, said: out.stderr}
	}
	if strings.TrimSpace(out.stdout) == "" {
		return verdict{said: out.stderr}
	}
	if err := json.Unmarshal([]byte(out.stdout), &answer); err != nil {
		return verdict{failed: true, said: out.stdout}
	}
	return verdict{denied: answer.Specific.Decision == "deny", said: answer.Message + out.stderr}
}
