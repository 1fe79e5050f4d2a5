package page

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
)

// A gate that answers with huge nonsense makes no page of all gates huge, and offers no endless list to choose from.
func TestAGateThatAnswersNonsense(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	huge := strings.Repeat(`<&">`, 1000)
	for i := range 150 {
		c.gate.wait(t, fmt.Sprintf("j%d.1", i+1), nil)
	}
	c.gate.change(func() {
		i := 0
		for _, r := range c.gate.requests {
			i++
			r.Op, r.Target, r.Params = fmt.Sprintf("guest.%d%s", i, huge), fmt.Sprint("guest/", i, huge), op.Params{"a": huge}
			r.RequestedBy, r.Reason = []string{huge}, huge
			r.Reasons = []api.Reason{{By: huge, Text: huge}, {By: huge, Text: huge}}
			r.Facts = []op.Fact{{Name: huge, Text: huge}, {Name: "destroy", Text: "can be undone until " + huge}}
			r.Demands[0].Could, r.Demands[0].Roles = []string{huge}, []op.Role{op.Role(huge)}
			r.Signatures = []api.Signature{{Principal: huge}}
		}
		i = 0
		for _, r := range c.gate.requests { // and some that differ in their operation alone
			if i++; i <= 50 {
				r.Op, r.Target = fmt.Sprintf("guest.new-%d", i), "guest/web-1"
			} else if i <= 70 {
				r.Op, r.Target = "guest.destroy", "guest/web-1"
			}
		}
	})
	c.caught()
	for _, path := range []string{"/", "/?page=2", "/gates"} {
		require.LessOrEqual(t, len(alice.page(http.StatusOK, path)), 200_000, path)
	}
	page := alice.page(http.StatusOK, "/")
	offered := regexp.MustCompile(`<option value="(guest\.[^"]*)"`).FindAllStringSubmatch(page, -1)
	require.Len(t, offered, maxOps)
	require.Equal(t, "guest.destroy", offered[0][1], "what the programs know comes first")
}

// A page that is far behind the last one is the last one.
func TestAPageBehindTheLast(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	for i := range 101 {
		c.gate.wait(t, fmt.Sprintf("j%d.1", i+1), nil)
	}
	c.caught()
	for _, page := range []string{"2", "3", "9223372036854775807", "92233720368547760"} {
		require.Contains(t, alice.page(http.StatusOK, "/?page="+page), "101 to 101 of 101", page)
	}
	for _, page := range []string{"0", "1", "-1", "-9223372036854775808", "99999999999999999999"} {
		require.Contains(t, alice.page(http.StatusOK, "/?page="+page), "1 to 100 of 101", page)
	}
}

// What is counted as waiting at a gate is what the list of it has: a request that runs is open, and nobody decides on it.
func TestTheGatesPagesCountAlike(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	c.gate.wait(t, "j1.1", nil)
	c.gate.wait(t, "j2.1", func(_ *op.Payload, r *api.Request) { r.State = op.StateDispatched })
	c.caught()
	for _, path := range []string{"/gates", "/g/pve1/"} {
		require.Contains(t, alice.page(http.StatusOK, path), `<a href="/?gate=pve1">1</a>`, path)
	}
}

// A line of the list says what tells requests for one target apart, and who signed already.
func TestALineOfTheList(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	for i, snapshot := range []string{"before", "after"} {
		c.gate.wait(t, fmt.Sprintf("j%d.1", i+1), func(p *op.Payload, r *api.Request) {
			p.Op, p.Params = "guest.snapshot-delete", op.Params{"snapshot": snapshot}
			r.Signatures = []api.Signature{{Principal: "bob@example.com", Role: op.Operational}}
		})
	}
	runs := time.Now().Add(time.Hour)
	c.gate.wait(t, "j3.1", func(p *op.Payload, r *api.Request) { r.State, r.CoolOff, r.RunsAt = op.StateAuthorized, 3600, &runs })
	c.caught()
	page := alice.page(http.StatusOK, "/")
	require.Contains(t, page, " · cools off until ")
	require.Contains(t, page, " · needs 1 operational")
	require.Contains(t, page, `{&#34;snapshot&#34;:&#34;before&#34;}`)
	require.Contains(t, page, `{&#34;snapshot&#34;:&#34;after&#34;}`)
	require.Equal(t, 2, strings.Count(page, "signed by bob@example.com"))
}

// The link to more reservations is one address, whatever the gate calls the last one that it showed.
func TestMoreReservations(t *testing.T) {
	c := newConsole(t)
	alice := c.listed("alice@example.com", op.Operational)
	next := `r1&after=r9 "x`
	c.gate.change(func() {
		c.gate.also = map[string]any{"/v1/agents": api.AgentList{Agents: []api.Agent{}}, "/v1/reservations": api.ReservationList{
			Reservations: []api.Reservation{{ID: "r1", Mode: "exclusive", Agent: "builder", ExpiresAt: time.Unix(0, 0)}}, Next: &next}}
	})
	c.caught()
	require.Contains(t, alice.page(http.StatusOK, "/g/pve1/agents"), `href="/g/pve1/agents?after=r1%26after%3Dr9&#43;%22x"`)
}
