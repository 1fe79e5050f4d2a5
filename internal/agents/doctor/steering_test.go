package doctor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/agents/hook"
)

// TestSteeringIsTried: an entry that steers is tried with a line that the gate steers away from, in each product.
func TestSteeringIsTried(t *testing.T) {
	rules := api.Steering{Rules: []api.SteeringRule{{From: "command/drop", InsteadOf: []string{"dropdb -f {db} *"}, Op: "command.run", Name: "drop"}}}
	const sample = "dropdb -f gated-doctor"
	on := true
	for d, refusal := range map[hook.Dialect]string{
		hook.Claude{}: `{"hookSpecificOutput":{"permissionDecision":"deny"}}`, hook.Codex{}: `{"hookSpecificOutput":{"permissionDecision":"deny"}}`,
		hook.Gemini{}: `{"decision":"deny"}`, hook.Cursor{}: `{"permission":"deny"}`, hook.Copilot{}: `{"permissionDecision":"deny"}`, hook.OpenCode{}: `{"refuse":"no"}`,
	} {
		for _, c := range []struct {
			text  string
			rules api.Steering
			err   error
			want  State
			says  string
		}{
			{`grep -q "` + sample + `" || { echo '{}'; exit 0; }; echo '` + refusal + `'`, rules, nil, OK, `it refuses "` + sample + `" of command/drop`},
			{"cat >/dev/null\necho '{}'", rules, nil, Bad, "does NOT steer"},
			{"cat >/dev/null\necho '" + refusal + "'", rules, nil, Bad, "it also refuses the command true"},
			{"cat >/dev/null\necho '{}'", api.Steering{}, nil, Note, "no command to steer away from"},
			{"cat >/dev/null\necho '{}'", rules, errors.New("broken"), Bad, "does not say what it steers away from: broken"},
		} {
			p := newPatient(t)
			t.Setenv("PATH", "/usr/bin:/bin")
			p.steering, p.steeringErr = c.rules, c.err
			s := hook.SettingsFor(d, p.dir)
			_, err := s.Install(p.program(c.text+"\n"), hook.Setup{Steer: &on})
			require.NoError(t, err)
			p.Settings = []hook.Settings{s}
			r := p.examine()
			f := r.of(s.Path + " " + hook.ShellsOf(d)[0] + whatSteering)
			require.Equal(t, c.want, f.State, "%s %s: %+v", d.Name(), c.text, r.Findings)
			require.Contains(t, f.Detail, c.says)
			require.Contains(t, f.Detail, "steering: on")
			require.True(t, f.Setup.Steers)
		}
	}
}
