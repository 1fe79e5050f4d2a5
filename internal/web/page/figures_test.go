package page

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

// TestManyGates has a console of several gates with 20 requests each. GATED_PAGES says of how many, for make bench, and has it print how long
// pages take.
func TestManyGates(t *testing.T) {
	many := 6 // of which the requests are on more than one page, as a short run of make bench needs
	if s := os.Getenv("GATED_PAGES"); s != "" {
		many = must.Get(strconv.Atoi(s))(t)
	}
	dir := must.Get(os.MkdirTemp("", "gw"))(t) // short, for the sockets
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	all := make([]*fakeGate, many)
	var others []client.KnownGate
	for i := 1; i < many; i++ {
		path := filepath.Join(dir, strconv.Itoa(i))
		all[i] = newFakeGate()
		serve(t, must.Get(net.Listen("unix", path))(t), all[i])
		others = append(others, client.KnownGate{Address: client.UnixAddress(path), Host: gateName, Gate: gateID})
	}
	c := newConsoleOf(t, others)
	all[0] = c.gate
	alice := c.listed("alice@example.com", op.Operational)
	for i, g := range all {
		if i > 0 {
			g.list(alice.device, "alice@example.com", op.Operational)
		}
		for j := range 20 {
			g.wait(t, fmt.Sprintf("j%d.1", j+1), func(p *op.Payload, r *api.Request) {
				p.Target.Name = fmt.Sprintf("web-%d-%d", i, j)
				r.RequestedBy = []string{"agent:builder#7"}
				r.Facts = []op.Fact{{Name: "files", Text: "1204"}, {Name: "bytes", Text: "38 GiB"}, {Name: "last write", Text: "2026-03-01T12:00:00Z"}}
				r.Demands[0].Could = []string{"alice@example.com", "bob@example.com"}
			})
		}
	}
	c.reads(alice, many*20)
	for _, p := range []struct{ name, path, has string }{
		{"first page", "/", "web-0-0"}, {"a later page", "/?page=2", "web-"}, {"gates", "/gates", gateName}, {"request", "/g/" + gateName + "/r/j1.1", "web-0-0"},
	} {
		took := make([]float64, 40)
		for i := range took {
			began := time.Now()
			status, b := alice.get(p.path)
			took[i] = float64(time.Since(began).Microseconds()) / 1000
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, string(b), p.has)
		}
		slices.Sort(took)
		t.Logf("figure: %s p50 | %g | ms", p.name, took[len(took)/2])
		t.Logf("figure: %s p95 | %g | ms", p.name, took[len(took)*95/100])
	}
}

// reads waits until the first page knows of so many requests.
func (c *console) reads(p *person, total int) {
	c.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for changes := c.set.Changes(c.t.Context()); !strings.Contains(p.page(http.StatusOK, "/"), fmt.Sprintf(">%d<", total)); {
		select {
		case <-changes:
		case <-deadline.C:
			require.FailNow(c.t, "not every request came")
		}
	}
}
