package page

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
)

// Each page that shows a uid has the name of its user beside it, and shows no name that could be more than one.
func TestNamesOfUsersOnThePages(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	by, users := []string{"uid:1000", "uid:1001"}, api.Users{"uid:1000": "carol", "uid:1001": "x), uid:0 (root"}
	said := []api.Reason{{By: "uid:1000", Text: "old"}, {By: "uid:1001", Text: "full"}}
	c.gate.wait(t, "j1.1", func(_ *op.Payload, r *api.Request) { r.RequestedBy, r.Users, r.Reasons = by, users, said })
	job := api.Job{ID: "j1", State: op.StatePending, RequestedBy: by, Users: users, Reason: "old", Reasons: said}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c.gate.change(func() {
		c.gate.also = map[string]any{
			"/v1/jobs/j1":      job,
			"/v1/agents":       api.AgentList{Agents: []api.Agent{{Name: "builder", ID: "builder#7", UID: 1000, User: "carol", RegisteredAt: at}}},
			"/v1/reservations": api.ReservationList{Reservations: []api.Reservation{{ID: "r1", Agent: "uid:1000", UID: 1000, User: "carol", ExpiresAt: at}}},
			"/v1/audit":        api.EntryList{Entries: []api.Entry{logged(t, 1, "uid:1000")}, Users: users},
		}
		c.gate.jobs = func(int) api.JobList { return api.JobList{Jobs: []api.Job{job}} }
	})
	c.caught()
	for path, want := range map[string]string{"/": "uid:1000 (carol), uid:1001", "/g/pve1/r/j1.1": "Asked by uid:1000 (carol), uid:1001",
		"/g/pve1/jobs/j1": "uid:1000 (carol), uid:1001", "/g/pve1/agents": "uid 1000 (carol)", "/g/pve1/log": "uid:1000 (carol)"} {
		page := alice.page(http.StatusOK, path)
		require.Contains(t, page, want, path)
		require.NotContains(t, page, "root", path)
	}
	require.Contains(t, alice.page(http.StatusOK, "/g/pve1/agents"), "uid:1000 (carol)")
	require.Contains(t, alice.page(http.StatusOK, "/g/pve1/r/j1.1"), "<footer>uid:1000 (carol)</footer>")
	require.Equal(t, "uid:1000 (carol), uid:1001", jobRowOf(job).By)
}
