package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestTheWorseExitCode(t *testing.T) {
	require.Equal(t, 1, worseExit(3, 1))
	require.Equal(t, 1, worseExit(1, 3))
	require.Equal(t, 3, worseExit(0, 3))
	require.Equal(t, 3, worseExit(3, 0))
}

// TestAnOpenJobIsNotGivenUp: a guest whose job is open in any way is not told as one about which gated does nothing.
func TestAnOpenJobIsNotGivenUp(t *testing.T) {
	j := api.Job{ID: "j1", RequestedBy: []string{"desired:guests"}, Steps: []api.Step{{ID: "j1.1", Op: "guest.destroy", Target: "guest/a"}}}
	for _, state := range []op.State{"", op.StatePlanned, op.StatePending, op.StateAuthorized, op.StateDispatched} {
		list := func(w http.ResponseWriter, r *http.Request) {
			var jobs api.JobList
			if state != "" && r.URL.Query().Get("state") == string(state) {
				jobs.Jobs = []api.Job{j}
			}
			answers(t, http.StatusOK, jobs)(w, r)
		}
		socket := standIn(t, map[string]http.HandlerFunc{"GET /v1/jobs": list, "GET /v1/jobs/j1": answers(t, http.StatusOK, j)})
		cl := must.Get(client.New(client.Options{Socket: socket, Getenv: func(string) string { return "" }}))(t)
		s := settling{cl: cl, by: "desired:guests", targets: map[string]bool{"guest/a": true}, failed: map[string]api.Error{}, held: map[string]string{}}
		plan := &api.Plan{Guests: []api.PlannedGuest{{Name: "a", Action: "destroy"}}}
		require.NoError(t, (&tool{}).stuck(t.Context(), s, &applied{Plan: plan}))
		if state != "" {
			require.Empty(t, s.failed, state)
		} else {
			require.Equal(t, refusal.Unavailable, s.failed["guest/a"].Code)
		}
		cl.Close()
	}
}
