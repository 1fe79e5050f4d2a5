package gates

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/test/servicetest"
)

const another = op.GateID("ffffffffffffffffffffffffffffffff")

func TestEventsArrive(t *testing.T) {
	h := newHost(t)
	s := watch(t, quick, known(h.path, servicetest.Host, servicetest.GateID))
	g := until(t, s, "h", well)
	require.Equal(t, []string{"j1.1", "j2.1"}, ids(g))
	require.Equal(t, "h", g.Host)
	require.Len(t, g.Trust.Signers, 1)
	require.False(t, g.Seen.IsZero())
	first, ok := g.Request("j2.1")
	require.True(t, ok)
	require.Equal(t, "guest/db", first.Target)

	j := h.Submit(t, "guest.destroy", "old")
	id := op.StepID{Job: j.ID, Index: 1}
	more := until(t, s, "h", func(g Gate) bool { return len(g.Requests) == 3 })
	require.Equal(t, []string{"j1.1", "j2.1", id.String()}, ids(more))
	require.Equal(t, []string{"j1.1", "j2.1"}, ids(g), "a snapshot stays")
	require.NotEqual(t, g.Version, more.Version)

	cl, ok := s.Client("h")
	require.True(t, ok)
	_, err := cl.Reject(context.Background(), "j1.1", h.Rejection(t, op.RequestID{Job: 1, Index: 1}))
	require.NoError(t, err)
	until(t, s, "h", func(g Gate) bool { return len(g.Requests) == 2 && g.Requests[0].ID == "j2.1" })

	_, err = cl.Approve(context.Background(), "j2.1", h.Approval(t, op.RequestID{Job: 2, Index: 1}))
	require.NoError(t, err)
	until(t, s, "h", func(g Gate) bool {
		r, ok := g.Request("j2.1")
		return ok && r.State != op.StatePending
	})
}

func TestAGateGoesAwayAndReturns(t *testing.T) {
	h := newHost(t)
	s := watch(t, quick, known(h.path, servicetest.Host, servicetest.GateID))
	until(t, s, "h", well)
	h.stop()
	g := until(t, s, "h", func(g Gate) bool { return g.Err != nil })
	require.Equal(t, []string{"j1.1", "j2.1"}, ids(g), "what it said before is still there, beside the error")
	h.Submit(t, "guest.destroy", "old")
	h.start(t, servicetest.GateID)
	until(t, s, "h", func(g Gate) bool { return g.Err == nil && len(g.Requests) == 3 })
}

func TestAGateThatIsNotThereYet(t *testing.T) {
	h := newHost(t)
	h.stop()
	s := watch(t, quick, known(h.path, servicetest.Host, servicetest.GateID))
	var gone *client.Unreachable
	g := until(t, s, "h", func(g Gate) bool { return g.Version > 3 })
	require.ErrorAs(t, g.Err, &gone)
	require.True(t, g.Seen.IsZero())
	h.start(t, servicetest.GateID)
	until(t, s, "h", well)
}

// Another gate at a known address says nothing that is kept, neither from the begin nor after the pinned one.
func TestAnotherGateAnswers(t *testing.T) {
	h := newHost(t)
	s := watch(t, quick, known(h.path, servicetest.Host, another), known(h.path, "elsewhere", servicetest.GateID))
	for _, name := range []string{"h", "elsewhere"} {
		g := until(t, s, name, func(g Gate) bool { return g.Version > 0 })
		require.ErrorIs(t, g.Err, refusal.TargetMismatch)
		requireNothing(t, g)
	}
	must.Fail(s.Identify(context.Background(), "h"))(t, refusal.TargetMismatch)

	s = watch(t, quick, known(h.path, servicetest.Host, servicetest.GateID))
	until(t, s, "h", well)
	h.stop()
	h.start(t, another)
	g := until(t, s, "h", func(g Gate) bool { return anotherGate(g.Err) })
	requireNothing(t, g)
}

func requireNothing(t *testing.T, g Gate) {
	t.Helper()
	require.Empty(t, g.Requests)
	require.Zero(t, g.Status)
	require.Zero(t, g.Trust)
	require.Zero(t, g.Seen)
}

func TestAGateThatWasNeverMet(t *testing.T) {
	f := fakeGate(another, "pve9", 1)
	path := serve(t, f)
	s := watch(t, quick, client.KnownGate{Address: client.UnixAddress(path)})
	g := until(t, s, "gate", well)
	require.Equal(t, another, g.ID)
	require.Equal(t, "pve9", g.Host)

	// One of another host could be anybody.
	w := must.Get((&Set{config: Config{}}).watcher(Known{Name: "x", Address: "ssh://pve9"}))(t)
	w.client = must.Get(client.New(client.Options{Socket: path}))(t)
	for _, ask := range []func(context.Context, *client.Client) (api.Status, error){nil,
		func(ctx context.Context, cl *client.Client) (api.Status, error) { return cl.Status(ctx) }} {
		w.set.config.Identify = ask
		must.Fail(w.identify(context.Background()))(t, refusal.NotAllowed)
	}
}

// The file that says where this host's gate is also says which uid runs it.
func TestTheHostsFileIsUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "client.yaml")
	require.NoError(t, os.WriteFile(file, []byte("socket: /run/x/s\nuid: 7\n"), 0o600))
	s := &Set{config: Config{Options: client.Options{File: file, Getenv: func(string) string { return "" }}}}
	o := must.Get(s.optionsOf(client.UnixAddress("/run/x/s")))(t)
	require.Empty(t, o.Socket)
	o = must.Get(s.optionsOf(client.UnixAddress("/run/y/s")))(t)
	require.Equal(t, "/run/y/s", o.Socket)
	o = must.Get(s.optionsOf("ssh://pve1"))(t)
	require.Equal(t, "ssh://pve1", o.Remote)
}

func TestIdentifyDecides(t *testing.T) {
	h := newHost(t)
	s := must.Get(New(Config{Known: []client.KnownGate{known(h.path, servicetest.Host, servicetest.GateID)}, Now: time.Now,
		Identify: func(context.Context, *client.Client) (api.Status, error) {
			return api.Status{}, refusal.New(refusal.BindingMismatch, "its log was cut")
		}}))(t)
	s.pace = quick
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	g := until(t, s, "h", func(g Gate) bool { return g.Version > 0 })
	require.ErrorIs(t, g.Err, refusal.BindingMismatch)
	requireNothing(t, g)
	stop()
	require.NoError(t, <-ended)
}

func TestNonsense(t *testing.T) {
	h := newHost(t)
	again := "j1.1"
	for name, change := range map[string]func(*fake){
		"no status":                 func(f *fake) { f.raw = map[string]string{"/v1/status": "<html>"} },
		"an empty object":           func(f *fake) { f.raw = map[string]string{"/v1/status": "{}"} },
		"a doubled member":          func(f *fake) { f.raw = map[string]string{"/v1/status": `{"gate":"a","gate":"b"}`} },
		"no gate's id":              func(f *fake) { f.status.Gate = "x" },
		"a host with an escape":     func(f *fake) { f.status.Host = "a\x1b[2J" },
		"no list":                   func(f *fake) { f.raw = map[string]string{"/v1/requests": `{"requests":7}`} },
		"a list without end":        func(f *fake) { f.next = &again },
		"a request of another gate": func(f *fake) { f.requests[0].Gate = servicetest.GateID },
		"a request of another host": func(f *fake) { f.requests[0].Host = "pve2" },
		"an id that is a path":      func(f *fake) { f.requests[0].ID = "../../x" },
		"an id that is markup":      func(f *fake) { f.requests[0].ID = "<script>" },
		"no trust":                  func(f *fake) { f.raw = map[string]string{"/v1/trust": "[]"} },
		"a huge answer":             func(f *fake) { f.raw = map[string]string{"/v1/status": strings.Repeat(" ", maxAnswer+1)} },
	} {
		f := fakeGate(another, "pve1", 1)
		change(f)
		s := watch(t, quick, known(serve(t, f), "pve1", another), known(h.path, servicetest.Host, servicetest.GateID))
		g := until(t, s, "pve1", func(g Gate) bool { return g.Version > 0 })
		var r *refusal.Refusal
		require.ErrorAs(t, g.Err, &r, name)
		requireNothing(t, g)
		until(t, s, "h", well)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	for _, n := range []int{MaxRequests, MaxRequests + 1} {
		f := fakeGate(another, "pve1", n)
		s := watch(t, quick, known(serve(t, f), "pve1", another))
		g := until(t, s, "pve1", well)
		require.Len(t, g.Requests, MaxRequests)
		require.Equal(t, n > MaxRequests, g.More)
	}
	f := fakeGate(another, "pve1", 100)
	for i := range f.requests {
		f.requests[i].Reason = strings.Repeat("x", maxWeight/250) // 100 of them are below what one answer may have
	}
	f.requests = append(f.requests, f.requests...)
	g := Gate{}
	w := must.Get((&Set{config: Config{}}).watcher(Known{Name: "x", Address: client.UnixAddress("/s")}))(t)
	pages := 0
	w.client = must.Get(client.New(client.Options{Socket: serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		pages++
		next := fmt.Sprintf("j%d.1", pages)
		(&fake{requests: f.requests[:50], next: &next}).ServeHTTP(rw, r)
	}))}))(t)
	var err error
	g.Requests, g.More, err = w.list(context.Background(), f.status)
	require.NoError(t, err)
	require.True(t, g.More)
	require.Less(t, len(g.Requests), 250)
	require.Greater(t, len(g.Requests), 200)
}

func TestFiftyGates(t *testing.T) {
	var all []client.KnownGate
	for i := range 50 {
		id := op.GateID(fmt.Sprintf("%032x", i+1))
		name := fmt.Sprintf("pve%d", i)
		path := "/nowhere"
		switch i {
		case 7: // is away
		case 8: // takes every call and never answers
			path = serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		default:
			path = serve(t, fakeGate(id, name, 20))
		}
		all = append(all, known(path, name, id))
	}
	p := quick
	p.look = 500 * time.Millisecond
	s := watch(t, p, all...)
	for i := range 50 {
		name := fmt.Sprintf("pve%d", i)
		switch i {
		case 7, 8:
			g := until(t, s, name, func(g Gate) bool { return g.Version > 0 })
			var gone *client.Unreachable
			require.ErrorAs(t, g.Err, &gone, name)
		default:
			require.Len(t, until(t, s, name, well).Requests, 20)
		}
	}
	require.Len(t, s.All(), 50)
	_, ok := s.Get("pve50")
	require.False(t, ok)
	_, ok = s.Client("pve50")
	require.False(t, ok)
	must.Fail(s.Identify(context.Background(), "pve50"))(t, refusal.UnknownTarget)
}

func TestTooManyGates(t *testing.T) {
	all := make([]client.KnownGate, maxGates+1)
	for i := range all {
		all[i] = known(fmt.Sprintf("/%d", i), "h", another)
	}
	must.Fail(New(Config{Known: all}))(t, refusal.OverLimit)
	must.Get(New(Config{Known: all[1:]}))(t)
	must.Fail(New(Config{Known: []client.KnownGate{{Address: "http://h"}}}))(t, refusal.Malformed)
}

func TestChangesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := must.Get(New(Config{Known: []client.KnownGate{known("/s", "h", another)}}))(t)
		ctx, stop := context.WithCancel(context.Background())
		a, b := s.Changes(ctx), s.Changes(context.WithoutCancel(ctx))
		for range 100 {
			s.show(s.watchers[0], Gate{})
		}
		<-a
		<-b
		select {
		case <-a:
			t.Error("a second signal of the same changes")
		default:
		}
		stop()
		_, more := <-a
		require.False(t, more)
		s.show(s.watchers[0], Gate{})
		<-b
		require.Len(t, s.asking, 1)
	})
}

func TestManyEvents(t *testing.T) {
	s := must.Get(New(Config{Known: []client.KnownGate{known("/s", "h", another)}}))(t)
	w := s.watchers[0]
	for i := range 10000 {
		require.NoError(t, w.happened(api.Entry{Step: fmt.Sprintf("j%d.1", i), Job: "j", Class: op.Destructive}))
	}
	n := w.take()
	require.True(t, n.all)
	require.LessOrEqual(t, len(n.steps), maxSteps+1)

	require.NoError(t, w.happened(api.Entry{Step: "j1.1", Class: op.Benign}))
	require.NoError(t, w.happened(api.Entry{Kind: "reserved", Reservation: "r1"}))
	require.Equal(t, news{}, w.take())
	require.NoError(t, w.happened(api.Entry{Kind: "rotated"}))
	require.True(t, w.take().all)
}
