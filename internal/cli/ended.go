package cli

import (
	"gated/internal/api"
	"gated/internal/op"
)

// WhyEnded words how a step or a job of that state ended that did not succeed, as
// Why does a refusal; job is the job's id. It is empty where nothing is known.
func WhyEnded(state op.State, job string, e *api.Error) string {
	if e == nil {
		return ""
	}
	hint := e.Hint
	if hint == "" {
		hint = api.HintOfEnd(state, Inline(job), e.Code)
	}
	return explain("", &op.Refusal{Code: e.Code, Detail: e.Detail, Hint: hint})
}

// SayEnded says how a step or a job of that state ended that did not succeed.
func (t *Tool) SayEnded(state op.State, job string, e *api.Error) {
	t.Say("%s", WhyEnded(state, job, e))
}
