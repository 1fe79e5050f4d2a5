package reserve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/agents/glob"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// universe is every path that decides whether two patterns of the model overlap:
// these have at most two segments that are not "**", each of one character, in
// scopes at most two deep. "c" is what no pattern spells.
var universe = func() []string {
	var out []string
	level := []string{""}
	for range 6 {
		var next []string
		for _, p := range level {
			for _, name := range []string{"a", "A", "b", "c"} {
				next = append(next, p+"/"+name)
			}
		}
		out, level = append(out, next...), next
	}
	return out
}()

// paths are those of the universe that patterns match, as bits.
type paths [6000 / 64]uint64

// asked is a pattern of the model, and found the paths of those that were.
type asked struct {
	place Place
	text  string
}

var found = map[asked]paths{}

// pathsOf returns what patterns match, and how they are kept.
func pathsOf(p Place, patterns []string) (set paths, texts []string) {
	for _, text := range patterns {
		g, err := glob.Parse(text, glob.Options{FoldCase: p.Fold})
		if err != nil {
			panic(err)
		}
		texts = append(texts, g.String())
		some, known := found[asked{p, text}]
		for i, path := range universe {
			if rel, below := strings.CutPrefix(path, strings.TrimSuffix(p.Path, "/")+"/"); !known && below && g.Match(rel) {
				some[i/64] |= 1 << (i % 64)
			}
		}
		found[asked{p, text}] = some
		for i := range set {
			set[i] |= some[i]
		}
	}
	slices.Sort(texts)
	return set, slices.Compact(texts)
}

func (s paths) meets(o paths) bool {
	for i := range s {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// held is a reservation of the model.
type held struct {
	Reservation
	paths
}

// model is the book as simply as it can be said.
type model struct {
	*world
	agents []op.Requester
	held   []held // by id
}

func (m *model) sweep() {
	m.held = slices.DeleteFunc(m.held, func(h held) bool { return !h.ExpiresAt.After(m.clock()) })
}

// inTheWay returns the ids of what overlaps.
func (m *model) inTheWay(h Holder, mode Mode, set paths, skip op.ReservationID) (ids []op.ReservationID) {
	for _, o := range m.held {
		if o.ID != skip && !o.Holder.Same(h) && (mode == Exclusive || o.Mode == Exclusive) && o.meets(set) {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

func (m *model) find(id op.ReservationID) *held {
	if i := slices.IndexFunc(m.held, func(h held) bool { return h.ID == id }); i >= 0 {
		return &m.held[i]
	}
	return nil
}

func idsOf(conflicts []Conflict) (ids []op.ReservationID) {
	for _, c := range conflicts {
		ids = append(ids, c.ID)
	}
	return ids
}

var modelPlaces = []Place{{Path: "/"}, {Path: "/a"}, {Path: "/a/b"}, {Path: "/a", Fold: true}, {Path: "/a/A"}, {Path: "/b", Device: 7}}

func drawClaim(t *rapid.T, m *model) (Claim, Holder) {
	segment := rapid.SampledFrom([]string{"a", "A", "b", "*", "?", "[ab]", "{a,b}", "[!a]"})
	pattern := rapid.Custom(func(t *rapid.T) string {
		var out []string
		for range rapid.IntRange(1, 2).Draw(t, "segments") {
			if rapid.IntRange(0, 4).Draw(t, "any") == 0 {
				out = append(out, "**")
			}
			out = append(out, segment.Draw(t, "segment"))
		}
		switch rapid.IntRange(0, 6).Draw(t, "end") {
		case 0:
			out = append(out, "**")
		case 1:
			out = append(out, "")
		}
		return strings.Join(out, "/")
	})
	c := Claim{By: rapid.SampledFrom(m.agents).Draw(t, "by"), Place: rapid.SampledFrom(modelPlaces).Draw(t, "place"),
		Patterns: rapid.SliceOfN(pattern, 1, 2).Draw(t, "patterns"), Mode: rapid.SampledFrom([]Mode{Exclusive, Exclusive, Shared}).Draw(t, "mode"),
		TTL: rapid.SampledFrom([]time.Duration{0, MinTTL, time.Minute, time.Hour}).Draw(t, "ttl"), Keep: rapid.Bool().Draw(t, "keep")}
	h, err := holderOf(c.By)
	require.NoError(t, err)
	return c, h
}

func (m *model) reserves(t *rapid.T) {
	c, h := drawClaim(t, m)
	set, texts := pathsOf(c.Place, c.Patterns)
	g, conflicts, err := m.Reserve(m.t.Context(), c)
	if want := m.inTheWay(h, c.Mode, set, 0); len(want) > 0 {
		require.ErrorIs(t, err, refusal.Conflict)
		require.Equal(t, want, idsOf(conflicts))
		return
	}
	require.NoError(t, err)
	until := m.clock().Add(cmp.Or(c.TTL, DefaultTTL))
	for i, o := range m.held {
		if o.Holder.Same(h) && o.Scope.Place == c.Place && slices.Equal(o.Patterns, texts) {
			if o.ExpiresAt.After(until) {
				until = o.ExpiresAt
			}
			o.Holder, o.Mode, o.Keep, o.ExpiresAt = h, c.Mode, c.Keep, until
			m.held[i] = o
			require.Equal(t, Granted{o.Reservation, true}, g)
			return
		}
	}
	if o := m.covers(h, c, texts); o != nil {
		if until.After(o.ExpiresAt) {
			o.ExpiresAt = until
		}
		o.Holder, o.Keep = h, o.Keep || c.Keep
		require.Equal(t, Granted{o.Reservation, true}, g)
		return
	}
	want := Reservation{ID: g.ID, Scope: Scope{ID: g.Scope.ID, Place: c.Place, At: g.Scope.At}, Patterns: texts, Mode: c.Mode, Holder: h, Alive: true,
		Keep: c.Keep, CreatedAt: m.clock(), ExpiresAt: until}
	require.Equal(t, Granted{Reservation: want}, g)
	m.held = append(m.held, held{want, set})
}

// covers returns the first of a holder's own that covers a claim: it is in the
// same scope, its mode is no weaker, and each pattern of the claim is one of its own
// or a path that one of those matches.
func (m *model) covers(h Holder, c Claim, texts []string) *held {
	for i := range m.held {
		o := &m.held[i]
		if !o.Holder.Same(h) || o.Scope.Place != c.Place || o.Mode == Shared && c.Mode == Exclusive {
			continue
		}
		uncovered := slices.ContainsFunc(texts, func(text string) bool {
			plain := !strings.ContainsAny(text, "*?[{\\") && !strings.HasSuffix(text, "/")
			return !slices.ContainsFunc(o.Patterns, func(own string) bool {
				p, err := glob.Parse(own, glob.Options{FoldCase: c.Place.Fold})
				require.NoError(m.t, err)
				return own == text || plain && p.Match(text)
			})
		})
		if !uncovered {
			return o
		}
	}
	return nil
}

func (m *model) checks(t *rapid.T) {
	c, h := drawClaim(t, m)
	set, _ := pathsOf(c.Place, c.Patterns)
	conflicts, more, err := m.Check(m.t.Context(), c.By, c.Place, c.Patterns, c.Mode)
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, m.inTheWay(h, c.Mode, set, 0), idsOf(conflicts))
}

// drawOne returns the id of a reservation, or of none, and who acts on it.
func (m *model) drawOne(t *rapid.T) (op.ReservationID, op.Requester, Holder, *held) {
	id := op.ReservationID(1)
	if len(m.held) > 0 {
		id = m.held[rapid.IntRange(0, len(m.held)-1).Draw(t, "which")].ID
	}
	by := rapid.SampledFrom(m.agents).Draw(t, "by")
	if found := m.find(id); found != nil && rapid.IntRange(0, 3).Draw(t, "holder") > 0 {
		if i := slices.IndexFunc(m.agents, func(a op.Requester) bool { h, _ := holderOf(a); return h.Same(found.Holder) }); i >= 0 {
			by = m.agents[i]
		}
	}
	h, err := holderOf(by)
	require.NoError(t, err)
	return id, by, h, m.find(id)
}

// refusedAs asserts what nobody but the holder of what is there may do.
func refusedAs(t *rapid.T, err error, h Holder, found *held) bool {
	switch {
	case found == nil:
		require.ErrorIs(t, err, refusal.UnknownTarget)
	case !found.Holder.Same(h):
		require.ErrorIs(t, err, refusal.NotHolder)
	default:
		return false
	}
	return true
}

func (m *model) renews(t *rapid.T) {
	id, by, h, found := m.drawOne(t)
	r, err := m.Renew(m.t.Context(), by, id, time.Minute)
	if !refusedAs(t, err, h, found) {
		require.NoError(t, err)
		found.ExpiresAt = m.clock().Add(time.Minute)
		require.Equal(t, found.Reservation, r)
	}
}

func (m *model) releases(t *rapid.T) {
	id, by, h, found := m.drawOne(t)
	r, err := m.Release(m.t.Context(), by, id)
	if !refusedAs(t, err, h, found) {
		require.NoError(t, err)
		require.Equal(t, found.Reservation, r)
		m.held = slices.DeleteFunc(m.held, func(o held) bool { return o.ID == id })
	}
}

func (m *model) transfers(t *rapid.T) {
	id, by, h, found := m.drawOne(t)
	to := rapid.SampledFrom(m.agents).Draw(t, "to")
	receiver, err := holderOf(to)
	require.NoError(t, err)
	force := found != nil && rapid.Bool().Draw(t, "force")
	name := receiver.Name
	if name == "" {
		name = "nobody"
	}
	if force {
		to, foreseen := m.Receiver(m.t.Context(), id, name)
		_, err = m.ForceTransfer(m.t.Context(), step, found.Scope.ID, found.Handover(to), id, name)
		if foreseen != nil || m.inside > 0 {
			require.Equal(t, refusal.CodeOf(foreseen), refusal.CodeOf(err), "what a look tells is what the transfer says")
		}
		h = found.Holder
	} else {
		_, err = m.Transfer(m.t.Context(), by, id, name)
	}
	switch {
	case name == "nobody":
		require.ErrorIs(t, err, refusal.UnknownTarget)
	case refusedAs(t, err, h, found):
	case receiver.Same(found.Holder):
		require.ErrorIs(t, err, refusal.BadParams)
	case len(m.inTheWay(receiver, found.Mode, found.paths, id)) > 0:
		require.ErrorIs(t, err, refusal.Conflict)
	default:
		require.NoError(t, err)
		found.Holder, found.Keep = receiver, false
	}
}

func (m *model) ends(t *rapid.T) {
	i := rapid.IntRange(1, len(m.agents)-1).Draw(t, "agent")
	h, err := holderOf(m.agents[i])
	require.NoError(t, err)
	m.world.ends(m.agents[i])
	m.held = slices.DeleteFunc(m.held, func(o held) bool { return o.Holder == h && !o.Keep })
	m.agents[i] = m.register(h.Name, h.UID)
}

func (m *model) releasesAll(t *rapid.T) {
	if rapid.Bool().Draw(t, "operators") {
		id, _, _, found := m.drawOne(t)
		if found != nil {
			_, err := m.ForceRelease(m.t.Context(), step, found.Scope.ID, m.view(found.Scope.ID).Fingerprint())
			require.NoError(t, err, "%v", id)
			scope := found.Scope.ID
			m.held = slices.DeleteFunc(m.held, func(o held) bool { return o.Scope.ID == scope })
		}
		return
	}
	by := rapid.SampledFrom(m.agents).Draw(t, "by")
	h, err := holderOf(by)
	require.NoError(t, err)
	_, err = m.ReleaseMine(m.t.Context(), by)
	require.NoError(t, err)
	m.held = slices.DeleteFunc(m.held, func(o held) bool { return o.Holder.Same(h) })
}

// The book does what the model does, which compares paths one by one.
func TestTheBookIsAsTheModel(t *testing.T) { asTheModel(t, newWorld(t)) }

// It does so too where every search is a long one.
func TestTheBookIsAsTheModelInTurns(t *testing.T) {
	w := newWorld(t)
	w.inside = 0
	asTheModel(t, w)
}

func asTheModel(t *testing.T, w *world) {
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		w.pass(MaxTTL)
		round++
		m := &model{world: w, agents: []op.Requester{{Source: op.SourceAPI, UID: 1}}}
		for i := range 3 {
			m.agents = append(m.agents, w.register(fmt.Sprintf("m%d-%d", round, i), uint32(i)))
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": m.reserves, "reserve more": m.reserves, "check": m.checks, "renew": m.renews, "release": m.releases,
			"transfer": m.transfers, "end": m.ends, "release all": m.releasesAll,
			"pass": func(t *rapid.T) {
				m.pass(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, time.Minute}).Draw(t, "time"))
				m.sweep()
			},
			"": func(t *rapid.T) {
				var want []Reservation
				for _, h := range m.held {
					want = append(want, h.Reservation)
				}
				require.Equal(t, want, w.all())
			},
		})
		w.sound()
	})
}
