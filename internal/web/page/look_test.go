package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/browser"
)

// fill gives a gate something for each of its pages.
func (g *fakeGate) fill(t *testing.T) {
	at := time.Now().UTC().Truncate(time.Second)
	g.wait(t, "j12.1", func(p *op.Payload, r *api.Request) {
		p.Reason = "The shop moved to web-4 last week; this one gets no requests any more."
		r.Job, r.RequestedBy, r.CreatedAt, r.FactsAt, r.ExpiresAt = "j12", []string{"agent:builder#7"}, at.Add(-50*time.Minute), at, at.Add(time.Hour)
		r.Why, r.CoolOff = "it would destroy the guest's data, and the gate did not make the guest", 600
		r.Facts = []op.Fact{{Name: "files", Text: "1204"}, {Name: "bytes", Text: "38 GiB"},
			{Name: "disk vda", Text: "40 GiB (38 GiB allocated), qcow2, /srv/guests/web-1.qcow2, last write 2026-11-26T20:03:11Z"},
			{Name: "probe says", Text: "shop  3 tables\n  orders  1204 rows"}}
		r.Labels = map[string]string{"tier": "prod"}
		r.Signatures = []api.Signature{{Principal: "bob@example.com", Role: op.Operational, Origin: "https://console.example.com",
			Fingerprint: "SHA256:K9vV0n8C1b9Wm3gJ2uX1cP6Qe5oZ7tYrL4aSdFgHjkl"}}
	})
	g.wait(t, "j13.1", func(p *op.Payload, r *api.Request) {
		p.Target.Name = strings.Repeat("web-2", 9)
		r.Job, r.RequestedBy, r.CreatedAt, r.FactsAt = "j13", []string{"agent:builder#7"}, at.Add(-20*time.Minute), at
		r.Facts = []op.Fact{{Name: "files", Text: "12"}, {Name: "bytes", Text: "38 GiB"}, {Name: "probe says", Text: "shop  3 tables\n  orders  9 rows"}}
	})
	g.wait(t, "j20.1", func(p *op.Payload, r *api.Request) { p.Op, r.Rule, r.Job = "guest.restart", op.SignedByRule, "j20" })
	guest := api.Guest{Name: "web-1", State: "running", Backend: "libvirt", Labels: map[string]string{"tier": "prod"}, Protected: true,
		Destroy: &api.Verdict{Class: op.Destructive, Why: "it holds data"}, Snapshots: []string{"before"}, Disks: []api.Disk{{Name: "vda", Size: 40 << 30}},
		Facts: []op.Fact{{Name: "files", Text: "1204"}}}
	job := api.Job{ID: "j12", State: op.StatePending, RequestedBy: []string{"agent:builder#7"}, Reason: "old", CreatedAt: at,
		Steps: []api.Step{{ID: "j12.1", Op: "guest.destroy", Target: "guest/web-1", State: op.StatePending, Why: "it waits", Output: "one\ntwo"}}}
	g.change(func() {
		g.also = map[string]any{
			"/v1/health": api.HealthReport{State: api.HealthDegraded, Checks: []api.HealthCheck{{Name: "clock", State: api.HealthOK},
				{Name: "backup", State: api.HealthDegraded, Detail: "no copy was checked for 9 days"}}},
			"/v1/backends": api.BackendList{Backends: []api.Backend{{Name: "libvirt", Kind: "guest", State: api.BackendOK, Guests: 42},
				{Name: "local", Kind: "guest", State: api.BackendAway, Detail: "its directory is not there", Since: &at}}},
			"/v1/jobs/j12": job, "/v1/guests": api.GuestList{Guests: []api.Guest{guest}}, "/v1/guests/web-1": guest,
			"/v1/agents": api.AgentList{Agents: []api.Agent{{Name: "builder", ID: "builder#7", Bound: "process", UID: 1001, Alive: true, RegisteredAt: at}}},
			"/v1/reservations": api.ReservationList{Reservations: []api.Reservation{{ID: "r12", Scope: "/srv/shop", Patterns: []string{"src/**", "go.mod"},
				Mode: "exclusive", Agent: "builder", Reason: "refactoring", ExpiresAt: at, HolderAlive: true}}},
		}
		g.jobs = func(after int) api.JobList { return jobsAfter([]int{3, 9, 12}, after) }
	})
}

// Every page fits a phone and a screen, axe-core finds nothing, and the policy forbids nothing that a page has.
func TestEveryPageInABrowser(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	c.gate.fill(t)
	c.caught()
	c.signedIn(tab, "alice@example.com", "j12.1")
	for _, width := range []int64{360, 768, 1280} {
		tab.Size(width, 900)
		for _, path := range []string{"/", "/gates", "/g/pve1/", "/g/pve1/r/j12.1", doomed.link(), "/g/pve1/jobs", "/g/pve1/jobs/j12", "/g/pve1/guests", "/g/pve1/guests/web-1",
			"/g/pve1/agents", "/g/pve1/log", "/enrol"} {
			tab.Open(c.origin + path)
			require.Equal(t, 1, browser.Eval[int](tab, `document.querySelectorAll("h1").length`), path)
			require.True(t, browser.Eval[bool](tab, `document.documentElement.scrollWidth <= window.innerWidth`), "%s at %d: it scrolls sideways", path, width)
			for _, d := range []string{"details", "phone"} {
				browser.Eval[bool](tab, fmt.Sprintf(`(document.getElementById(%q) ?? {}).open = true`, d))
			}
			require.True(t, browser.Eval[bool](tab, `document.documentElement.scrollWidth <= window.innerWidth`), "%s at %d, with its details", path, width)
			tab.Accessible()
		}
	}
	quiet(t, tab)
}
