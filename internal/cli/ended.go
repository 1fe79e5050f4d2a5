package cli

import (
	"fmt"

	"gated/internal/api"
	"gated/internal/op"
)

// WhyEnded words how a step or a job of that state ended that did not succeed, as
// Why does a refusal; job is the job's id. What was tried has an outcome, and what
// to do about that is no business of the code, which is a refusal's. It is
// empty where nothing is known.
func WhyEnded(state op.State, job string, e *api.Error) string {
	if e == nil {
		return ""
	}
	hint := ""
	switch state {
	case op.StateFailed:
		hint = fmt.Sprintf(wordsTriedFailed, Inline(job))
	case op.StateInterrupted:
		hint = fmt.Sprintf(wordsTriedCut, Inline(job))
	}
	return explain("", &op.Refusal{Code: e.Code, Detail: e.Detail, Hint: hint})
}

// SayEnded says how a step or a job of that state ended that did not succeed.
func (t *Tool) SayEnded(state op.State, job string, e *api.Error) {
	t.Say("%s", WhyEnded(state, job, e))
}
