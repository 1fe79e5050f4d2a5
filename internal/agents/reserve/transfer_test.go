package reserve

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
)

func TestTransfer(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 2)
	c := claim(a, "src/**")
	c.Reason = "renames"
	g := w.reserve(c)
	w.pass(time.Minute)
	r, err := w.Transfer(t.Context(), a, g.ID, "b")
	require.NoError(t, err)
	want := g.Reservation
	want.Holder = Holder{Name: "b", UID: 2, Registration: 2}
	require.Equal(t, want, r)
	require.Equal(t, []Reservation{want}, w.all())
	w.refused(claim(a, "src/x"), refusal.Conflict)
	w.reserve(claim(b, "src/x*"))
	e := w.entries(audit.Transferred)
	require.Len(t, e, 1)
	require.Equal(t, []string{"b", "a"}, e[0].For)
	require.Equal(t, "b", e[0].Holder)
	require.Equal(t, "agent:a#1", e[0].By)

	w.ends(a)
	require.Len(t, w.all(), 2, "it is bound to its new holder")
	w.ends(b)
	require.Empty(t, w.all())
	w.sound()
}

func TestTransferIsRefused(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.register("a", 1), w.register("b", 1), w.register("c", 1)
	g, second := w.reserve(claim(a, "src/**")), w.reserve(claim(a, "src/x", "docs/x"))
	before := w.all()
	transfer := func(by op.Requester, id op.ReservationID, to string) error {
		_, err := w.Transfer(t.Context(), by, id, to)
		return err
	}
	require.ErrorIs(t, transfer(a, g.ID, "nobody"), refusal.UnknownTarget)
	require.ErrorIs(t, transfer(a, 99, "b"), refusal.UnknownTarget)
	require.ErrorIs(t, transfer(b, g.ID, "b"), refusal.NotHolder)
	require.ErrorIs(t, transfer(a, g.ID, "a"), refusal.BadParams)
	err := transfer(a, g.ID, "b") // a would still have src/x
	require.ErrorIs(t, err, refusal.Conflict)
	require.ErrorContains(t, err, `"src/**" overlaps "src/x" of r2, which a (uid 1, alive)`)
	require.Equal(t, before, w.all())

	// An agent whose end was dealt with gives nothing and gets nothing.
	stale, _ := w.agent("c")
	w.ends(c)
	w.cfg.Agent = func(string) (Holder, bool) { return stale, true }
	require.ErrorIs(t, transfer(a, second.ID, "c"), refusal.UnknownTarget)
	w.cfg.Agent = w.agent
	w.pass(DefaultTTL)
	require.ErrorIs(t, transfer(a, g.ID, "b"), refusal.UnknownTarget)
	_, err = w.Renew(t.Context(), a, g.ID, 0)
	require.ErrorIs(t, err, refusal.UnknownTarget)
	require.Len(t, w.entries(audit.Lapsed), 2, "what was due was dealt with, though the call was refused")
}

var step = op.StepID{Job: 12, Index: 1}

func (w *world) view(id string) View {
	v, err := w.View(w.t.Context(), id)
	require.NoError(w.t, err)
	return v
}

func TestForceRelease(t *testing.T) {
	w := newWorld(t)
	a, b := w.register("a", 1), w.register("b", 1)
	w.reserve(claim(a, "x"))
	w.reserve(claim(b, "y"))
	other := claim(a, "x")
	other.Place.Path = "/srv/other"
	w.reserve(other)
	seen := w.view("s1")
	require.Empty(t, seen.Last)
	require.Len(t, seen.Reservations, 2)

	w.reserve(claim(b, "z"))
	_, err := w.ForceRelease(t.Context(), step, "s1", seen.Fingerprint())
	require.ErrorIs(t, err, refusal.StaleTarget)
	require.Len(t, w.all(), 4)
	require.Empty(t, w.view("s1").Last)
	_, err = w.ForceRelease(t.Context(), step, "s9", seen.Fingerprint())
	require.ErrorIs(t, err, refusal.UnknownTarget)

	seen = w.view("s1")
	ended, err := w.ForceRelease(t.Context(), step, "s1", seen.Fingerprint())
	require.NoError(t, err)
	require.Equal(t, seen.Reservations, ended)
	require.Equal(t, View{Scope: seen.Scope, Last: "j12.1"}, w.view("s1"))
	require.Len(t, w.view("s2").Reservations, 1)
	released := w.entries(audit.Released)
	require.Len(t, released, 3)
	require.Equal(t, "j12", released[0].Job)
	require.Equal(t, "j12.1", released[0].Step)
	require.Equal(t, "gate", released[0].By)
	require.Equal(t, []string{"a"}, released[0].For)
	_, err = w.ForceRelease(t.Context(), step, "s1", seen.Fingerprint())
	require.ErrorIs(t, err, refusal.StaleTarget)
}

func TestForceTransfer(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	w.register("b", 2)
	g, second := w.reserve(claim(a, "src/**")), w.reserve(claim(a, "src/x*"))
	other := claim(a, "y")
	other.Place.Path = "/srv/other"
	elsewhere := w.reserve(other)
	seen := g.Handover(w.heir("b"))
	force := func(seen op.Fingerprint, id op.ReservationID, to string) error {
		_, err := w.ForceTransfer(t.Context(), step, "s1", seen, id, to)
		return err
	}
	require.ErrorIs(t, force(seen, g.ID, "b"), refusal.Conflict, "a signature does not make holders overlap")
	require.ErrorIs(t, force(seen, g.ID, "nobody"), refusal.UnknownTarget)
	require.ErrorIs(t, force(g.Handover(w.heir("a")), g.ID, "a"), refusal.BadParams)
	require.ErrorIs(t, force(seen, second.ID, "b"), refusal.StaleTarget, "another one was seen")
	w.register("c", 3)
	require.ErrorIs(t, force(seen, g.ID, "c"), refusal.StaleTarget, "another one was to get it")
	require.ErrorIs(t, force(g.Handover(Holder{Name: "b", UID: 2, Registration: 1}), g.ID, "b"), refusal.StaleTarget, "an earlier one of that name")
	require.ErrorIs(t, force(g.Handover(Holder{Name: "b", UID: 1, Registration: 2}), g.ID, "b"), refusal.StaleTarget, "one of another uid")
	require.ErrorIs(t, force(g.Handover(Holder{Name: "b"}), g.ID, "b"), refusal.StaleTarget, "nobody had that name")
	require.ErrorIs(t, force(w.view("s1").Fingerprint(), g.ID, "b"), refusal.StaleTarget)
	require.ErrorIs(t, force(elsewhere.Handover(w.heir("b")), elsewhere.ID, "b"), refusal.StaleTarget, "of another scope")
	require.ErrorIs(t, force(seen, 99, "b"), refusal.StaleTarget)
	require.Empty(t, w.view("s1").Last)
	_, err := w.Release(t.Context(), a, second.ID)
	require.NoError(t, err)
	w.reserve(claim(a, "docs/**"))
	_, err = w.Renew(t.Context(), a, g.ID, time.Hour)
	require.NoError(t, err)

	r, err := w.ForceTransfer(t.Context(), step, "s1", seen, g.ID, "b")
	require.NoError(t, err, "others came and went, and it was renewed")
	require.Equal(t, Holder{Name: "b", UID: 2, Registration: 2}, r.Holder)
	require.Equal(t, "j12.1", w.view("s1").Last)
	e := w.entries(audit.Transferred)
	require.Len(t, e, 1)
	require.Equal(t, []string{"b", "a"}, e[0].For)
	require.Equal(t, "j12.1", e[0].Step)
	require.ErrorIs(t, force(seen, g.ID, "a"), refusal.StaleTarget, "it has another holder")
	w.sound()

	// The receiver's limit holds against operators too.
	for i := range MaxPerHolder - 1 {
		w.reserve(claim(a, "doc/"+scopeID(int64(i))))
	}
	require.ErrorIs(t, force(r.Handover(w.heir("a")), g.ID, "a"), refusal.OverLimit)
	w.pass(time.Hour)
	require.ErrorIs(t, force(r.Handover(w.heir("a")), g.ID, "a"), refusal.StaleTarget, "its time is up")
}

// Operators sign for who has what, not for how long or why.
func TestFingerprint(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	w.reserve(claim(a, "x"))
	seen := w.view("s1").Fingerprint()
	require.True(t, seen.Valid())
	c := claim(a, "x")
	c.TTL, c.Reason = time.Hour, "why"
	w.reserve(c)
	require.Equal(t, seen, w.view("s1").Fingerprint())
	for name, change := range map[string]func(*View){
		"scope":   func(v *View) { v.Scope.ID = "s2" },
		"id":      func(v *View) { v.Reservations[0].ID++ },
		"mode":    func(v *View) { v.Reservations[0].Mode = Shared },
		"pattern": func(v *View) { v.Reservations[0].Patterns = []string{"x", "y"} },
		"name":    func(v *View) { v.Reservations[0].Holder.Name = "b" },
		"uid":     func(v *View) { v.Reservations[0].Holder.UID++ },
		"none":    func(v *View) { v.Reservations = nil },
	} {
		v := w.view("s1")
		change(&v)
		require.NotEqual(t, seen, v.Fingerprint(), name)
	}
	w.pass(time.Hour)
	require.NotEqual(t, seen, w.view("s1").Fingerprint(), "it lapsed")
	require.Empty(t, w.view("s1").Reservations)
}

// TestHandoverOfOne is of nothing but that one, and who gets it.
func TestHandoverOfOne(t *testing.T) {
	w := newWorld(t)
	a := w.register("a", 1)
	first := w.reserve(claim(a, "x"))
	to := Holder{Name: "b", UID: 2, Registration: 7}
	seen := first.Handover(to)
	require.True(t, seen.Valid())
	require.NotEqual(t, seen, w.view("s1").Fingerprint(), "a signature for one is none for all, also where it is the only one")
	w.reserve(claim(a, "y"))
	c := claim(a, "x")
	c.TTL, c.Reason, c.Keep = time.Hour, "why", true
	w.reserve(c)
	require.Equal(t, seen, w.view("s1").Reservations[0].Handover(to))
	for name, change := range map[string]func(*Reservation){
		"scope":   func(r *Reservation) { r.Scope.ID = "s2" },
		"id":      func(r *Reservation) { r.ID++ },
		"mode":    func(r *Reservation) { r.Mode = Shared },
		"pattern": func(r *Reservation) { r.Patterns = []string{"x", "y"} },
		"name":    func(r *Reservation) { r.Holder.Name = "b" },
		"uid":     func(r *Reservation) { r.Holder.UID++ },
	} {
		r := first.Reservation
		change(&r)
		require.NotEqual(t, seen, r.Handover(to), name)
	}
	for _, other := range []Holder{{"c", 2, "", 7}, {"b", 3, "", 7}, {"b", 2, "", 8}, {"b", 2, "", 0}, {"b", 2, "node2", 7}} {
		require.NotEqual(t, seen, first.Handover(other), "%v gets it", other)
	}
}
