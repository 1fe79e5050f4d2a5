// Package statetest is what every place passes in which a hub can keep what it is told.
package statetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubstate"
	"gated/internal/log/checkpoint"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

// World is a place, and how a host comes to be known there.
type World struct {
	Store hubstate.Store
	Know  func(t testing.TB, host string)
}

// Noon is the time of the tests.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Run runs all cases, each in a world of its own.
func Run(t *testing.T, world func(t *testing.T) World) {
	for name, test := range map[string]func(*testing.T, World){
		"reports": reports, "queue": queue, "pages": pages, "pages of what changes": changingPages, "odd text": oddText, "twins": twins, "heads": heads,
		"contradictions": contradictions, "evidence is bounded": bounded, "many gates": manyGates, "late heads": lateHeads, "together": together,
	} {
		t.Run(name, func(t *testing.T) { test(t, world(t)) })
	}
}

// Put keeps a report of a host, which arrives at noon.
func Put(t testing.TB, s hubstate.Reports, host string, r hub.Report) (hubstate.Outcome, error) {
	t.Helper()
	r.Host = host
	return s.Put(t.Context(), hubstate.Arrived{Host: host, Report: r, Body: must.Get(api.Encode(r))(t), At: Noon})
}

// Request is a request that waits since so many minutes after noon.
func Request(n int, id, verb string) api.FleetRequest {
	return api.FleetRequest{Request: id, Op: verb, Target: "guest/web", Reason: "gone", RequestedBy: "uid:1000", CreatedAt: Noon.Add(time.Duration(n) * time.Minute),
		ExpiresAt: Noon.Add(time.Hour), Missing: 1, PayloadSHA256: op.SHA256([]byte(id))}
}

func reports(t *testing.T, w World) {
	_, err := Put(t, w.Store, "pve1", hub.Report{})
	require.ErrorIs(t, err, refusal.UnknownTarget)
	w.Know(t, "pve1")
	require.Nil(t, must.Get(w.Store.Report(t.Context(), "pve1"))(t))
	at := func(s int64, seq int64, revision string) hub.Report {
		return hub.Report{Gate: "g", StartedAt: time.Unix(s, 0).UTC(), Seq: seq, Revision: revision}
	}
	kept := func(want string) {
		t.Helper()
		require.Equal(t, want, must.Get(w.Store.Report(t.Context(), "pve1"))(t).Report.Revision)
	}
	out := must.Get(Put(t, w.Store, "pve1", at(10, 2, "two")))(t)
	require.True(t, out.News)
	out = must.Get(Put(t, w.Store, "pve1", at(10, 2, "two")))(t)
	require.False(t, out.News, "the same again")
	must.Get(Put(t, w.Store, "pve1", at(10, 1, "one")))(t)
	kept("two")
	must.Fail(Put(t, w.Store, "pve1", at(9, 9, "older daemon")))(t, refusal.Conflict)
	kept("two")
	must.Get(Put(t, w.Store, "pve1", at(11, 1, "three")))(t)
	kept("three")
	other := at(5, 1, "another gate")
	other.Gate = "h"
	must.Get(Put(t, w.Store, "pve1", other))(t)
	kept("another gate")
	future := other
	future.StartedAt = Noon.Add(time.Hour)
	must.Get(Put(t, w.Store, "pve1", future))(t)
	other.Revision = "its clock was wrong"
	must.Get(Put(t, w.Store, "pve1", other))(t)
	kept("its clock was wrong")

	r := other
	r.Seq, r.Operations = 2, []hub.OperationReport{{Digest: "a"}, {Digest: "b"}}
	require.Len(t, must.Get(Put(t, w.Store, "pve1", r))(t).Changed, 2)
	r.Seq, r.Operations = 3, []hub.OperationReport{{Digest: "a"}, {Digest: "b", Request: "j1.1"}}
	require.Equal(t, r.Operations[1:], must.Get(Put(t, w.Store, "pve1", r))(t).Changed)

	since := must.Get(w.Store.Report(t.Context(), "pve1"))(t).Since
	later := Noon.Add(time.Hour)
	r.Sets = []hub.SetReport{{Name: "s", Guests: 1, Converged: 1}}
	for i, want := range []time.Time{later, later} { // since the first of both
		r.Seq, r.Host = r.Seq+1, "pve1"
		must.Get(w.Store.Put(t.Context(), hubstate.Arrived{Host: "pve1", Report: r, Body: must.Get(api.Encode(r))(t), At: later.Add(time.Duration(i) * time.Hour)}))(t)
		is := must.Get(w.Store.Report(t.Context(), "pve1"))(t)
		require.True(t, is.Since.Equal(want), "%s %s", is.Since, want)
		require.True(t, is.At.Equal(later.Add(time.Duration(i)*time.Hour)))
	}
	require.True(t, since.Equal(Noon))
}

// ask returns the ids of a page.
func ask(t testing.TB, w World, q hubstate.Query) (ids []string, page api.FleetQueue) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = hubstate.PageRows
	}
	page = must.Get(w.Store.Queue(t.Context(), q))(t)
	for _, r := range page.Requests {
		ids = append(ids, r.Host+" "+r.Request)
	}
	return ids, page
}

func queue(t *testing.T, w World) {
	for _, host := range []string{"pve1", "pve2"} {
		w.Know(t, host)
	}
	ids, page := ask(t, w, hubstate.Query{})
	require.Empty(t, ids)
	require.NotNil(t, page.Requests)
	one := hub.Report{Gate: "g", Seq: 1, StartedAt: Noon, Requests: []api.FleetRequest{Request(3, "j3.1", "guest.destroy"), Request(1, "j1.1", "guest.stop")}, RequestsLeftOut: 4}
	must.Get(Put(t, w.Store, "pve1", one))(t)
	must.Get(Put(t, w.Store, "pve2", hub.Report{Gate: "h", Seq: 1, StartedAt: Noon, Requests: []api.FleetRequest{Request(1, "j1.1", "guest.destroy"), Request(2, "j2.1", "guest.destroy")}}))(t)
	ids, page = ask(t, w, hubstate.Query{})
	require.Equal(t, []string{"pve1 j1.1", "pve2 j1.1", "pve2 j2.1", "pve1 j3.1"}, ids)
	require.Equal(t, int64(4), page.Waiting)
	require.Equal(t, int64(4), page.LeftOut)
	require.Empty(t, page.Next)
	require.Equal(t, api.FleetRow{Host: "pve1", Gate: "g", ReportedAt: Noon, FleetRequest: one.Requests[1]}, page.Requests[0])
	ids, page = ask(t, w, hubstate.Query{Host: "pve2"})
	require.Equal(t, []string{"pve2 j1.1", "pve2 j2.1"}, ids)
	require.Zero(t, page.LeftOut)
	ids, page = ask(t, w, hubstate.Query{Op: "guest.destroy"})
	require.Equal(t, []string{"pve2 j1.1", "pve2 j2.1", "pve1 j3.1"}, ids)
	require.Equal(t, int64(3), page.Waiting)
	ids, _ = ask(t, w, hubstate.Query{Op: "guest.stop", Host: "pve1"})
	require.Equal(t, []string{"pve1 j1.1"}, ids)
	ids, _ = ask(t, w, hubstate.Query{Op: "guest.stop", Host: "pve2"})
	require.Empty(t, ids)

	one.Seq, one.RequestsLeftOut = 2, 0
	one.Requests = []api.FleetRequest{Request(3, "j3.1", "guest.destroy"), Request(9, "j9.1", "guest.destroy")}
	one.Requests[0].Missing = 2
	must.Get(Put(t, w.Store, "pve1", one))(t)
	ids, page = ask(t, w, hubstate.Query{Host: "pve1"})
	require.Equal(t, []string{"pve1 j3.1", "pve1 j9.1"}, ids, "what ended is gone")
	require.Equal(t, 2, page.Requests[0].Missing, "what changed is new")
	late := one
	late.Seq, late.Requests = 1, nil
	must.Get(Put(t, w.Store, "pve1", late))(t)
	ids, _ = ask(t, w, hubstate.Query{Host: "pve1"})
	require.Len(t, ids, 2, "a late report changes nothing")
	late.Seq = 3
	must.Get(Put(t, w.Store, "pve1", late))(t)
	ids, _ = ask(t, w, hubstate.Query{Host: "pve1"})
	require.Empty(t, ids)
}

func pages(t *testing.T, w World) {
	const hosts, each = 7, 5
	for h := range hosts {
		host := fmt.Sprintf("pve%d", h)
		w.Know(t, host)
		r := hub.Report{Gate: op.GateID(host), Seq: 1, StartedAt: Noon}
		for i := range each {
			r.Requests = append(r.Requests, Request(i/2, fmt.Sprintf("j%d.1", i), "guest.destroy")) // many of one time
		}
		must.Get(Put(t, w.Store, host, r))(t)
	}
	whole, page := ask(t, w, hubstate.Query{Limit: hosts * each})
	require.Len(t, whole, hosts*each)
	require.Empty(t, page.Next, "a page that has all is the last")
	for _, size := range []int{1, 4, hosts*each - 1} {
		var got []string
		q := hubstate.Query{Limit: size}
		for {
			ids, page := ask(t, w, q)
			require.LessOrEqual(t, len(ids), size)
			got = append(got, ids...)
			if page.Next == "" {
				break
			}
			place := must.Get(hubstate.ParsePlace(page.Next))(t)
			q.After = &place
		}
		require.Equal(t, whole, got, "pages of %d", size)
	}
}

// changingPages: between two pages, requests end, others come, and reports are sent again. What waits all the time is on one
// page, once.
func changingPages(t *testing.T, w World) {
	const hosts = 4
	report := func(host, round int) {
		r := hub.Report{Gate: op.GateID(fmt.Sprintf("g%d", host)), Seq: int64(round + 1), StartedAt: Noon}
		for i := range 3 {
			r.Requests = append(r.Requests, Request(i, fmt.Sprintf("j%d.1", i), "guest.destroy"))
		}
		r.Requests = append(r.Requests, Request(round%3, fmt.Sprintf("passing%d.1", round), "guest.stop"))
		r.Requests[0].Missing = round + 1 // it changes in its place
		must.Get(Put(t, w.Store, fmt.Sprintf("pve%d", host), r))(t)
	}
	for h := range hosts {
		w.Know(t, fmt.Sprintf("pve%d", h))
		report(h, 0)
	}
	seen := map[string]int{}
	q := hubstate.Query{Limit: 2}
	for round := 1; ; round++ {
		require.Less(t, round, 100, "the pages end")
		ids, page := ask(t, w, q)
		for _, id := range ids {
			seen[id]++
		}
		if page.Next == "" {
			break
		}
		place := must.Get(hubstate.ParsePlace(page.Next))(t)
		q.After = &place
		for h := range hosts {
			report(h, round)
		}
	}
	for h := range hosts {
		for i := range 3 {
			require.Equal(t, 1, seen[fmt.Sprintf("pve%d j%d.1", h, i)], "%d %d", h, i)
		}
	}
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
}

func oddText(t *testing.T, w World) {
	const odd = "a\x00b'\"\\{},\u202e\n"
	w.Know(t, odd)
	q := Request(1, odd, odd)
	q.Target, q.Reason = odd, odd
	r := hub.Report{Gate: odd, Seq: 1, StartedAt: Noon, Revision: odd, Requests: []api.FleetRequest{q},
		Operations: []hub.OperationReport{{Digest: odd}}}
	must.Get(Put(t, w.Store, odd, r))(t)
	require.Equal(t, odd, must.Get(w.Store.Report(t.Context(), odd))(t).Report.Revision)
	_, page := ask(t, w, hubstate.Query{Host: odd, Op: odd})
	require.Equal(t, []api.FleetRow{{Host: odd, Gate: odd, ReportedAt: Noon, FleetRequest: q}}, page.Requests)
}

func twins(t *testing.T, w World) {
	for _, host := range []string{"a", "b", "c"} {
		w.Know(t, host)
	}
	require.Empty(t, must.Get(Put(t, w.Store, "a", hub.Report{Gate: "g"}))(t).Twin)
	require.Empty(t, must.Get(Put(t, w.Store, "b", hub.Report{Gate: "h"}))(t).Twin)
	out := must.Get(Put(t, w.Store, "c", hub.Report{Gate: "g"}))(t)
	require.Equal(t, "a", out.Twin)
	require.Empty(t, out.Was)
	require.Equal(t, op.GateID("g"), must.Get(Put(t, w.Store, "a", hub.Report{Gate: "i"}))(t).Was, "another gate in its place")
	require.Empty(t, must.Get(Put(t, w.Store, "a", hub.Report{Gate: "i"}))(t).Was)
}

// Log is the audit log of a gate, as far as heads and proofs go. It implements tlog.HashReader.
type Log struct {
	Key    checkpoint.Key
	Gate   op.GateID
	size   int64
	hashes []tlog.Hash
}

// NewLog returns an empty log with a key of its own.
func NewLog(t testing.TB, gate op.GateID) *Log {
	t.Helper()
	return &Log{Key: must.Get(checkpoint.NewKey(gate))(t), Gate: gate}
}

// ReadHashes implements tlog.HashReader.
func (l *Log) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		out[i] = l.hashes[at]
	}
	return out, nil
}

// Add appends entries.
func (l *Log) Add(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		l.hashes = append(l.hashes, must.Get(tlog.StoredHashes(l.size, []byte(text), l))(t)...)
		l.size++
	}
}

// Head returns the newest head as a gate sends it, with the proof from a size.
func (l *Log) Head(t testing.TB, host string, from int64) hub.Head {
	t.Helper()
	root := must.Get(tlog.TreeHash(l.size, l))(t)
	h := hub.Head{Host: host, Gate: l.Gate, Key: l.Key.Public, From: from, Proof: []string{},
		Note: must.Get(checkpoint.Checkpoint{Gate: l.Gate, Size: l.size, Root: root}.Sign(l.Key))(t)}
	if from > 0 && from < l.size {
		h.Proof = checkpoint.EncodeHashes(must.Get(tlog.ProveTree(l.size, from, l))(t))
	}
	return h
}

// GateID is a gate of the tests.
const GateID = op.GateID("0123456789abcdef0123456789abcdef")

func take(t testing.TB, w World, h hub.Head) (bool, error) {
	t.Helper()
	return hubstate.TakeHead(t.Context(), w.Store, h, Noon)
}

func heads(t *testing.T, w World) {
	require.Nil(t, must.Get(w.Store.Head(t.Context(), GateID))(t))
	l := NewLog(t, GateID)
	l.Add(t, "one", "two", "three")
	first := l.Head(t, "pve1", 0)
	require.True(t, must.Get(take(t, w, first))(t))
	require.False(t, must.Get(take(t, w, first))(t), "its acknowledgement was lost")
	l.Add(t, "four", "five")
	require.False(t, must.Get(take(t, w, l.Head(t, "pve1", 3)))(t))
	kept := must.Get(w.Store.Head(t.Context(), GateID))(t)
	require.Equal(t, int64(5), kept.Head().Size)
	line := must.Get(kept.Line())(t)
	require.Equal(t, *kept, must.Get(witness.ParseRecord(line[:len(line)-1]))(t))
	require.Empty(t, must.Get(w.Store.Evidence(t.Context(), GateID))(t))

	bad := l.Head(t, "pve1", 5)
	end := "A=\n"
	if strings.HasSuffix(bad.Note, end) {
		end = "E=\n"
	}
	bad.Note = bad.Note[:len(bad.Note)-len(end)] + end
	must.Err(take(t, w, bad))(t)
	other := NewLog(t, "ffffffffffffffffffffffffffffffff")
	other.Add(t, "one")
	forged := other.Head(t, "pve1", 5)
	forged.Gate = GateID
	must.Fail(take(t, w, forged))(t, refusal.TargetMismatch)
	require.Empty(t, must.Get(w.Store.Evidence(t.Context(), GateID))(t), "what proves nothing is no evidence")
}

func contradictions(t *testing.T, w World) {
	l := NewLog(t, GateID)
	l.Add(t, "one", "two", "three")
	copied := *l
	copied.hashes = append([]tlog.Hash{}, l.hashes...)
	short := l.Head(t, "pve1", 4)
	l.Add(t, "four")
	must.Get(take(t, w, l.Head(t, "pve1", 0)))(t)
	copied.Add(t, "another four")
	fork := copied.Head(t, "pve2", 4)
	copied.Add(t, "five")
	longer := copied.Head(t, "pve2", 4)
	longer.Proof = checkpoint.EncodeHashes(must.Get(tlog.ProveTree(5, 4, &copied))(t))
	key := NewLog(t, GateID)
	key.Add(t, "one", "two", "three", "four", "five")
	for i, c := range []struct {
		head hub.Head
		why  witness.Why
	}{{short, witness.Shorter}, {fork, witness.OtherRoot}, {longer, witness.NoProof}, {key.Head(t, "pve3", 4), witness.OtherKey}} {
		for range 2 { // the second time it is kept already
			_, err := take(t, w, c.head)
			var odd *hubstate.Contradiction
			require.ErrorAs(t, err, &odd, "%s", c.why)
			require.Equal(t, c.why, odd.Evidence.Why)
		}
		require.Len(t, must.Get(w.Store.Evidence(t.Context(), GateID))(t), i+1)
		require.Equal(t, int64(4), must.Get(w.Store.Head(t.Context(), GateID))(t).Head().Size, "the kept head stays")
	}
	for _, e := range must.Get(w.Store.Contradictions(t.Context(), 10))(t) {
		line := must.Get(e.Line())(t)
		require.True(t, must.Get(witness.ParseRecord(line[:len(line)-1]))(t).Contradiction(), "others can check it")
	}
	l.Add(t, "five")
	require.False(t, must.Get(take(t, w, l.Head(t, "pve1", 4)))(t), "the true log goes on")
}

// bounded: evidence is bounded for each host, so that one host's evidence never takes the place of another's.
func bounded(t *testing.T, w World) {
	l := NewLog(t, GateID)
	l.Add(t, "one")
	must.Get(take(t, w, l.Head(t, "pve1", 0)))(t)
	odd := func(host string) *hubstate.Contradiction {
		other := NewLog(t, GateID)
		other.Add(t, "one")
		_, err := take(t, w, other.Head(t, host, 1))
		var odd *hubstate.Contradiction
		require.ErrorAs(t, err, &odd)
		return odd
	}
	for i := range hubstate.MaxEvidence + 3 {
		require.Equal(t, i < hubstate.MaxEvidence, odd("hostile").Kept)
	}
	require.Len(t, must.Get(w.Store.Evidence(t.Context(), GateID))(t), hubstate.MaxEvidence)
	require.True(t, odd("pve1").Kept, "from another host")
	list := must.Get(w.Store.Contradictions(t.Context(), 10))(t)
	require.Len(t, list, 2, "one of each host")
	require.ElementsMatch(t, []string{"hostile", "pve1"}, []string{list[0].Host, list[1].Host})
	require.Len(t, must.Get(w.Store.Contradictions(t.Context(), 1))(t), 1)
}

// manyGates: a host that makes gates up does not fill the place.
func manyGates(t *testing.T, w World) {
	head := func(n int, host string) (bool, error) {
		l := NewLog(t, op.GateID(fmt.Sprintf("%032x", n)))
		l.Add(t, "one")
		return take(t, w, l.Head(t, host, 0))
	}
	for n := range hubstate.MaxGates {
		must.Get(head(n, "hostile"))(t)
	}
	must.Fail(head(hubstate.MaxGates, "hostile"))(t, refusal.OverLimit)
	must.Get(head(hubstate.MaxGates, "pve1"))(t)
}

// lateHeads: heads that arrive in another order are no evidence against the gate.
func lateHeads(t *testing.T, w World) {
	l := NewLog(t, GateID)
	l.Add(t, "one", "two")
	must.Get(take(t, w, l.Head(t, "pve1", 0)))(t)
	l.Add(t, "three")
	late := l.Head(t, "pve1", 2)
	l.Add(t, "four")
	must.Get(take(t, w, l.Head(t, "pve1", 2)))(t)
	must.Fail(take(t, w, late))(t, refusal.Conflict)
	l.Add(t, "five")
	must.Fail(take(t, w, l.Head(t, "pve1", 0)))(t, refusal.Conflict)
	require.Empty(t, must.Get(w.Store.Evidence(t.Context(), GateID))(t))
}

// together: reports and heads of one gate that arrive at the same time leave the newest.
func together(t *testing.T, w World) {
	w.Know(t, "pve1")
	l := NewLog(t, GateID)
	l.Add(t, "one")
	must.Get(take(t, w, l.Head(t, "pve1", 0)))(t)
	var running sync.WaitGroup
	const n = 24
	for seq := 1; seq <= n; seq++ {
		l.Add(t, fmt.Sprint(seq))
		head := l.Head(t, "pve1", 1)
		r := hub.Report{Gate: GateID, StartedAt: Noon, Seq: int64(seq), Requests: []api.FleetRequest{Request(seq, fmt.Sprintf("j%d.1", seq), "guest.destroy"), Request(0, "j0.1", "guest.destroy")}}
		running.Go(func() {
			_, err := Put(t, w.Store, "pve1", r)
			if err != nil && !errors.Is(err, refusal.Unavailable) {
				t.Errorf("report %d: %v", seq, err)
			}
			if _, err := take(t, w, head); err != nil && !errors.Is(err, refusal.Conflict) {
				t.Errorf("head %d: %v", seq, err)
			}
		})
	}
	running.Wait()
	kept := must.Get(w.Store.Report(t.Context(), "pve1"))(t)
	require.Equal(t, int64(n), kept.Report.Seq)
	ids, _ := ask(t, w, hubstate.Query{})
	require.Equal(t, []string{"pve1 j0.1", fmt.Sprintf("pve1 j%d.1", n)}, ids, "what waits is that of the kept report alone")
	require.Empty(t, must.Get(w.Store.Evidence(t.Context(), GateID))(t))
}
