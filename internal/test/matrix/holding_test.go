package matrix_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/agent"
	"gated/internal/agents/reserve"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// fillBook puts the reservations together as the daemon does. Agents are rows
// with tokens: rows of the matrix that are about processes run a whole daemon.
func (h *host) fillBook(wake func(op.Target)) {
	h.book = reserve.New(reserve.Config{Store: h.store, Now: func() time.Time { return h.gate.Moment().Now }, Append: h.gate.Append,
		Agent: h.named, Registered: registered, Alive: func(reserve.Holder) bool { return true }, Changed: wake})
}

func registered(tx *store.Tx, r reserve.Holder) (bool, error) {
	return agent.Registered(tx, r.Name, r.Registration)
}

func holderOf(r agent.Registration) reserve.Holder {
	return reserve.Holder{Name: r.Name, UID: r.UID, Registration: r.ID}
}

// enlisted returns who is registered.
func (h *host) enlisted() (all []agent.Registration, err error) {
	err = h.store.View(context.Background(), func(tx *store.Tx) (err error) { all, err = agent.All(tx); return err })
	return all, err
}

func (h *host) named(name string) (reserve.Holder, bool) {
	all, err := h.enlisted()
	if err != nil {
		panic(err)
	}
	for _, r := range all {
		if r.Name == name {
			return holderOf(r), true
		}
	}
	return reserve.Holder{}, false
}

// enlist registers an agent under a uid, as the daemon does for a caller.
func (w *world) enlist(name string, uid uint32) op.Requester {
	w.t.Helper()
	r := agent.Registration{Name: name, UID: uid, Token: "token of " + name, At: w.now()}
	require.NoError(w.t, w.store.Update(w.ctx, func(tx *store.Tx) (err error) {
		if r.ID, err = agent.Add(tx, r); err != nil {
			return err
		}
		return w.gate.Append(tx, audit.Entry{Kind: audit.AgentRegistered, By: fmt.Sprintf("uid:%d", uid), For: []string{name},
			Parts: audit.Parts{Registration: audit.Registration{ID: r.ID, Name: name, Token: true, SHA256: r.Binding()}}})
	}))
	return op.Requester{Source: op.SourceAPI, UID: uid, PID: 81, Agent: r.Who()}
}

// dismiss ends an agent's registration, and what is bound to it.
func (w *world) dismiss(who op.Requester) {
	w.t.Helper()
	h, ok := w.named(op.AgentName(who.Agent))
	require.True(w.t, ok)
	require.NoError(w.t, w.store.Update(w.ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM agents WHERE id = ?`, h.Registration); err != nil {
			return err
		}
		if err := w.gate.Append(tx, audit.Entry{Kind: audit.AgentEnded, By: "gate", For: []string{h.Name},
			Parts: audit.Parts{Registration: audit.Registration{ID: h.Registration, Name: h.Name}}}); err != nil {
			return err
		}
		return failure(w.book.EndOf(tx, h))
	}))
}

// floor is a directory in which agents hold what others want: r1 is alma's, r2
// and r3 are bert's, who shares r3.
type floor struct {
	*world
	repo               reserve.Place
	scope              op.Target
	alma, bert, cora   op.Requester // cora has nothing
	r1, r2, r3         string
	releaseAll, toCora op.Ask // of the scope; of r1
}

func newFloor(w *world) *floor {
	w.t.Helper()
	f := &floor{world: w, alma: w.enlist("alma", 1000), bert: w.enlist("bert", 1000), cora: w.enlist("cora", 2000)}
	f.repo = place(w, "repo")
	f.r1 = f.claim(f.alma, "src/**")
	f.r2 = f.claim(f.bert, "go.mod", "docs/*.md")
	f.r3 = f.claim(f.bert, "README", reserve.Shared)
	f.scope = must.Get(w.book.Register(w.ctx, f.repo))(w.t).Target()
	f.releaseAll = op.Ask{Op: op.ReleaseAll, Target: f.scope, Params: op.Params{}}
	f.toCora = f.giving(f.r1, "cora")
	return f
}

// place makes a directory beside the state.
func place(w *world, name string) reserve.Place {
	w.t.Helper()
	path := filepath.Join(must.Get(filepath.EvalSymlinks(filepath.Dir(w.dir)))(w.t), name)
	require.NoError(w.t, os.MkdirAll(path, 0o755))
	st := must.Get(os.Lstat(path))(w.t).Sys().(*syscall.Stat_t)
	return reserve.Place{Path: path, Device: st.Dev, Inode: st.Ino}
}

// claim reserves patterns for an agent; a reserve.Mode among them is the mode.
func (f *floor) claim(by op.Requester, what ...any) string {
	f.t.Helper()
	c := reserve.Claim{By: by, Place: f.repo, TTL: reserve.MaxTTL, Keep: true, Reason: "work of " + by.String()}
	for _, x := range what {
		switch x := x.(type) {
		case string:
			c.Patterns = append(c.Patterns, x)
		case reserve.Mode:
			c.Mode = x
		}
	}
	g, _ := must.Two(f.book.Reserve(f.ctx, c))(f.t)
	return g.ID.String()
}

func (f *floor) giving(id, to string) op.Ask {
	return op.Ask{Op: op.ForceTransfer, Target: f.scope, Params: op.Params{"reservation": id, "to": to}}
}

func rid(t testing.TB, s string) op.ReservationID { return must.Get(op.ParseReservationID(s))(t) }

// holdings says who is registered and who holds what, and which steps of
// operators took something away last.
func (w *world) holdings() []string {
	w.t.Helper()
	var out []string
	for _, r := range must.Get(w.enlisted())(w.t) {
		out = append(out, fmt.Sprintf("%s uid %d", r.Who(), r.UID))
	}
	list := must.Get(w.book.List(w.ctx, reserve.Query{Limit: reserve.MaxList}))(w.t)
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s %s %s %s uid %d until %v: %s", r.ID, r.Scope.ID, r.Mode, r.Holder, r.Holder.UID, r.ExpiresAt, strings.Join(r.Patterns, " ")))
	}
	scopes := must.Get(w.book.Scopes(w.ctx))(w.t)
	for _, s := range scopes {
		v := must.Get(w.book.View(w.ctx, s.ID))(w.t)
		out = append(out, s.ID+" last "+v.Last)
	}
	return out
}

// taken is how many reservations there are in the floor's directory.
func (f *floor) taken() int {
	f.t.Helper()
	v := must.Get(f.book.View(f.ctx, f.scope.Name))(f.t)
	return len(v.Reservations)
}

// approveAs approves a request by one signature, with a key, in a role.
func (w *world) approveAs(r op.Request, k key, role op.Role) error {
	w.t.Helper()
	return w.send(r.ID, authz.Envelope{Payload: r.Payload, Signatures: []string{k.forge(w.t, role.Namespace(), r.Payload)}})
}
