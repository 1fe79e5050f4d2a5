package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/host/service"
)

// alice has the uid of the test alone.
func alice(t *testing.T) func(*Config) {
	path := filepath.Join(t.TempDir(), "passwd")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "alice:x:%d:1::/:/bin/sh\n", os.Getuid()), 0o600))
	return func(c *Config) { c.Users = service.NewUsers(time.Now, path) }
}

// Whatever shows a uid has the name beside it; what is signed and logged has the uid alone.
func TestNamesOfUsersBesideTheirUIDs(t *testing.T) {
	w := start(t, -1, alice(t))
	uid := "uid:" + strconv.Itoa(os.Getuid())
	mine := api.Users{uid: "alice"}

	var r api.Request
	var requests api.RequestList
	w.do(t, "GET", "/v1/requests", "").into(t, 200, &requests)
	require.NotEmpty(t, requests.Requests)
	for _, one := range requests.Requests {
		require.Contains(t, one.RequestedBy, uid)
		require.Equal(t, mine, one.Users)
	}
	w.do(t, "GET", "/v1/requests/"+requests.Requests[0].ID, "").into(t, 200, &r)
	require.Equal(t, mine, r.Users)
	payload := w.do(t, "GET", "/v1/requests/"+r.ID+"/payload", "")
	require.NotContains(t, string(payload.body), "alice")

	var jobs api.JobList
	var job api.Job
	w.do(t, "GET", "/v1/jobs", "").into(t, 200, &jobs)
	require.NotEmpty(t, jobs.Jobs)
	for _, one := range jobs.Jobs {
		require.Equal(t, one.RequestedBy[0] == uid, one.Users[uid] == "alice")
	}
	w.do(t, "GET", "/v1/jobs/"+r.Job, "").into(t, 200, &job)
	require.Equal(t, mine, job.Users)
	w.do(t, "POST", "/v1/jobs", `{"op":"guest.create","target":"guest/named","params":{},"reason":"x"}`).into(t, 202, &job)
	require.Equal(t, mine, job.Users)
	w.do(t, "DELETE", "/v1/jobs/"+r.Job, "").into(t, 200, &job)
	require.Equal(t, mine, job.Users)

	var log api.EntryList
	text := w.do(t, "GET", "/v1/audit?after=0&limit=100", "")
	text.into(t, 200, &log)
	require.Equal(t, mine, log.Users)
	for _, e := range log.Entries {
		require.NotContains(t, string(e.Raw), `"alice"`)
	}
}

func TestNamesOfUsersBesideAgentsAndReservations(t *testing.T) {
	w := start(t, -1, alice(t))
	var a api.RegisteredAgent
	w.do(t, "POST", "/v1/agents", `{"name":"new","token":true}`).into(t, 201, &a)
	require.Equal(t, "alice", a.User)
	var agents api.AgentList
	w.do(t, "GET", "/v1/agents", "").into(t, 200, &agents)
	require.NotEmpty(t, agents.Agents)
	for _, one := range agents.Agents {
		require.Equal(t, "alice", one.User)
	}
	var self api.Caller
	w.be(t, "me")
	w.do(t, "GET", "/v1/agents/self", "").into(t, 200, &self)
	require.Equal(t, "alice", self.Agent.User)

	var list api.ReservationList
	w.do(t, "GET", "/v1/reservations", "").into(t, 200, &list)
	require.NotEmpty(t, list.Reservations)
	for _, one := range list.Reservations {
		require.Equal(t, "alice", one.User)
	}
	var r api.Reservation
	w.do(t, "POST", "/v1/reservations", goodClaim).into(t, 201, &r)
	require.Equal(t, "alice", r.User)
	w.do(t, "DELETE", "/v1/reservations/"+r.ID, "").into(t, 200, &r)
	require.Equal(t, "alice", r.User)
	var found api.Checked
	taken := list.Reservations[0]
	claim := `{"scope":{"path":"` + taken.Scope + `","device":1,"inode":2},"patterns":["` + taken.Patterns[0] + `"]}`
	w.do(t, "POST", "/v1/reservations/check", claim).into(t, 200, &found)
	require.Equal(t, "alice", found.Conflicts[0].Reservation.User)
	p := w.do(t, "POST", "/v1/reservations", claim).problem(t)
	require.Equal(t, "alice", p.Conflicts[0].Reservation.User)
}

// A server without names, as that of a gate with a ledger, has empty ones, and names no uid of another member.
func TestNoNamesOfUsers(t *testing.T) {
	w := start(t, -1, nil)
	var requests api.RequestList
	w.do(t, "GET", "/v1/requests", "").into(t, 200, &requests)
	require.Equal(t, api.Users{}, requests.Requests[0].Users)
	s := &Server{Config: Config{}}
	alice(t)(&s.Config)
	uid := uint32(os.Getuid())
	there := op.Account{UID: uid, Member: "node2"}
	require.Equal(t, api.Users{}, s.named(api.Job{RequestedBy: []string{"uid:" + there.String()}}).(api.Job).Users)
	require.Empty(t, s.named(api.Agent{UID: uid, Member: "node2"}).(api.Agent).User)
	require.Empty(t, s.named(api.Reservation{UID: uid, Member: "node2"}).(api.Reservation).User)
	require.Nil(t, s.named(nil))
}

func TestNamesOfUsersWhoAskedBefore(t *testing.T) {
	s := &Server{Config: Config{}}
	alice(t)(&s.Config)
	uid := "uid:" + strconv.Itoa(os.Getuid())
	asked := make([]string, 1, 8)
	asked[0] = "agent:builder#7"
	r := api.Request{RequestedBy: asked, Rejections: []api.Rejection{{RequestedBy: []string{uid}}}}
	require.Equal(t, api.Users{uid: "alice"}, s.named(r).(api.Request).Users)
	r = api.Request{RequestedBy: asked, Reasons: []api.Reason{{By: uid}}}
	require.Equal(t, api.Users{uid: "alice"}, s.named(r).(api.Request).Users)
	require.Empty(t, asked[:2][1], "a list of requesters is not written into")
}
