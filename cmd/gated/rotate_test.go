package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// TestARotationIsNamedIfItsRequestCannotBeRead: it was accepted, and waits.
func TestARotationIsNamedIfItsRequestCannotBeRead(t *testing.T) {
	id := "j7.1"
	job := api.Job{ID: "j7", State: op.StatePending, Request: &id, Steps: []api.Step{{ID: id, Op: op.Rotate, Target: op.Signers.String(),
		State: op.StatePending, Why: "who may sign"}}}
	for name, request := range map[string]http.HandlerFunc{
		"the connection breaks": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"it is not understood":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) },
		"it is refused":         answers(t, 0, api.ProblemOf(refusal.New(refusal.Unavailable, "not now"))),
	} {
		t.Run(name, func(t *testing.T) {
			socket := standIn(t, map[string]http.HandlerFunc{"GET /v1/status": answers(t, http.StatusOK, api.Status{Epoch: 1}),
				"POST /v1/jobs": answers(t, http.StatusAccepted, job), "GET /v1/requests/j7.1": request})
			out, said := &lines{}, &lines{}
			tl := testTool()
			tl.Stdout, tl.Stderr = out, said
			require.Equal(t, api.ExitWaits, tl.run(t.Context(), []string{"trust", "rotate", "--add", "x", "--json", "--socket", socket}))
			require.Contains(t, said.String(), "the holder of each new key signs first: opsign show j7.1 says which\n"+
				"j7.1 trust.rotate waits for signatures")
			require.Contains(t, said.String(), "opsign approve j7.1\n")
			require.Contains(t, out.String(), `"id":"j7"`)
		})
	}
}
