package agent

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// pids are the ones of the fake table, few enough to be given again at once.
const pids = 9

// world is a fake table with a registry, and what a model knows of both.
type world struct {
	t     *rapid.T
	table *fakeTable
	reg   *Registry
	owner map[string]*fakeProcess // of each name
	names int                     // how many were asked for
	open  []connection
}

// connection is a peer that asks again and again.
type connection struct {
	*Peer
	from *fakeProcess
	told map[*fakeProcess]bool // whose name it was given
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, table: newFakeTable(), owner: map[string]*fakeProcess{}}
	r := must.Get(New(Config{Now: func() time.Time { return newYear }, Table: w.table, Boot: "boot"}))(t)
	w.reg = r
	t.Cleanup(r.Close)
	return w
}

// pick returns a process, or nil if there is none.
func (w *world) pick(what string) *fakeProcess {
	all := w.table.all()
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(w.t, what)
}

// happen lets one thing happen among the processes.
func (w *world) happen() {
	p := w.pick("process")
	what := rapid.SampledFrom([]string{"fork", "fork", "exit", "replace", "setsid", "setuid", "subreaper", "unshare"}).Draw(w.t, "event")
	if p == nil {
		what = "fork"
		p = w.table.init
	}
	switch what {
	case "fork":
		pid := rapid.IntRange(2, pids).Draw(w.t, "pid")
		if w.table.byPID[pid] == nil {
			w.table.fork(rapid.SampledFrom([]*fakeProcess{p, p, w.table.init}).Draw(w.t, "parent"), pid)
		}
	case "exit":
		w.table.exit(p)
	case "replace": // its pid goes to another one at once
		parent := rapid.SampledFrom(append(w.table.all(), w.table.init)).Draw(w.t, "parent")
		w.table.exit(p)
		if w.table.alive(parent) {
			w.table.fork(parent, p.PID)
		}
	case "setsid":
		w.table.mu.Lock()
		p.Session = p.PID
		w.table.mu.Unlock()
	case "subreaper":
		p.subreaper = true
	case "setuid", "unshare":
		w.table.mu.Lock()
		p.UID = rapid.SampledFrom([]uint32{1000, 1000, 1001}).Draw(w.t, "uid")
		p.Foreign = what == "unshare"
		w.table.mu.Unlock()
	}
}

// settle waits until the registry has forgotten what has ended, as it does by
// itself.
func (w *world) settle() {
	for name, p := range w.owner {
		if w.table.alive(p) {
			continue
		}
		delete(w.owner, name)
		there := true
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			w.reg.mu.RLock()
			_, there = w.reg.byName[name]
			w.reg.mu.RUnlock()
			if !there {
				break
			}
			<-time.After(10 * time.Microsecond)
		}
		require.False(w.t, there, "%s has ended", name)
	}
}

// nearest returns the name of the nearest process from p upwards that has one,
// as things are now.
func (w *world) nearest(p *fakeProcess) string {
	if !w.table.alive(p) {
		return ""
	}
	for ; p != nil; p = p.parent {
		for name, owner := range w.owner {
			if owner == p {
				return name
			}
		}
	}
	return ""
}

// who asks while things happen, and requires an answer that was true of the
// peer at some moment meanwhile.
func (w *world) who(events int) {
	if p := w.pick("peer"); p != nil {
		w.open = append(w.open, connection{Peer: p.peer(), from: p, told: map[*fakeProcess]bool{}})
	}
	if len(w.open) == 0 {
		return
	}
	conn := w.open[len(w.open)-1-rapid.IntRange(0, len(w.open)-1).Draw(w.t, "connection")]
	p := conn.from
	ended := !w.table.alive(p)
	truths := map[string]bool{w.nearest(p): true}
	w.table.look = func() {
		if events > 0 && rapid.Bool().Draw(w.t, "something happens") {
			events--
			w.happen()
			truths[w.nearest(p)] = true
		}
	}
	reg, ok := w.reg.Who(conn.Peer, 0)
	name := reg.Name
	w.table.look = func() {}
	require.Equal(w.t, name != "", ok)
	if !ok {
		return
	}
	require.False(w.t, ended, "an ended peer has no name")
	owner := w.owner[name]
	if !conn.told[owner] { // what was its ancestor once stays one
		require.Contains(w.t, truths, name, "of process %d", p.PID)
	}
	conn.told[owner] = true
}

// register asks for a registration while things happen. Where it is granted,
// the process was the peer or an ancestor of it at some moment meanwhile.
func (w *world) register(events int) {
	p := w.pick("registrant")
	if p == nil {
		return
	}
	pid := rapid.IntRange(0, pids).Draw(w.t, "registered pid")
	w.names++
	name := fmt.Sprintf("agent%d", w.names)
	line := map[*fakeProcess]bool{}
	notice := func() {
		for q := p; q != nil && w.table.alive(p); q = q.parent {
			line[q] = true
		}
	}
	notice()
	w.table.look = func() {
		if events > 0 && rapid.Bool().Draw(w.t, "something happens") {
			events--
			w.happen()
			notice()
		}
	}
	reaper := p.parent
	for reaper != w.table.init && !reaper.subreaper {
		reaper = reaper.parent
	}
	var q *fakeProcess
	got, err := w.reg.Register(w.t.Context(), p.peer(), Wish{Name: name, PID: pid, Reaper: reaper.PID},
		func(context.Context, Registration) (int64, error) {
			q = w.reg.byName[name].handle.(*fakeHandle).p // nobody else changes it yet
			return 1, nil
		})
	w.table.look = func() {}
	if err != nil {
		code := refusal.CodeOf(err)
		require.Contains(w.t, []refusal.Code{refusal.NotAllowed, refusal.Conflict}, code, err)
		return
	}
	require.True(w.t, line[q], "a stranger was registered: %+v", got)
	require.Greater(w.t, q.PID, 1)
	for other, owner := range w.owner {
		above := owner
		for above != nil && w.table.alive(owner) && above != q {
			above = above.parent
		}
		require.False(w.t, w.table.alive(owner) && above == q, "%s is above %s", name, other)
	}
	w.owner[got.Name] = q
}

// TestAnswersAreTrueAtAMoment: whatever happens at each step of a walk, the
// answer is no name, or the one that was right at some moment during it.
func TestAnswersAreTrueAtAMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"happen":          func(*rapid.T) { w.happen() },
			"happen more":     func(*rapid.T) { w.happen() },
			"register":        func(*rapid.T) { w.register(0) },
			"register, races": func(*rapid.T) { w.register(3) },
			"who":             func(*rapid.T) { w.who(0) },
			"who, races":      func(*rapid.T) { w.who(3) },
			"":                func(*rapid.T) { w.settle() },
		})
	})
}
