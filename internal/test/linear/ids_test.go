package linear

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// told is one caller's history, one thing after the other.
func told(ops ...Op) *History {
	h := &History{Now: func() time.Time { return time.Unix(int64(len(ops)), 0) }}
	for i := range ops {
		o := &ops[i]
		o.Agent, o.Since, o.Until = "agent", int64(i)*int64(time.Second), int64(i)*int64(time.Second)
		h.ops = append(h.ops, entry{o, 0, int64(2*i + 1), int64(2*i + 2)})
	}
	h.events = int64(2 * len(ops))
	return h
}

// TestAnIDOfBeforeIsNoLaterClaims: a claim that a lost call made has a later id
// than any that was given before it. A gate that knows the old id no more is
// sound then, and one that shows the old id again is not.
func TestAnIDOfBeforeIsNoLaterClaims(t *testing.T) {
	const set = Set(1)
	held := func(id string, madeAt int) []Held {
		return []Held{{ID: id, Agent: "agent", Set: set, Expires: time.Unix(int64(madeAt)+10, 0).UTC()}}
	}
	register := Op{Call: Call{Kind: Register}}
	reserve := func(a Answer) Op { return Op{Call: Call{Kind: Reserve, Set: set, TTL: 10 * time.Second}, Answer: a} }
	release := func(id string, a Answer) Op { return Op{Call: Call{Kind: Release, ID: id}, Answer: a} }
	list := func(held []Held) Op { return Op{Call: Call{Kind: List}, Answer: Answer{Held: held}} }
	lost, gone := Answer{Lost: true}, Answer{Refused: refusal.UnknownTarget}
	for name, c := range map[string]struct {
		ops  []Op
		want porcupine.CheckResult
	}{
		"the old id is unknown, the new one is shown": {
			[]Op{register, reserve(Answer{Held: held("r1", 1)}), release("r1", lost), reserve(lost), release("r1", gone), list(held("r2", 3))}, porcupine.Ok},
		"the old id is unknown, and nothing was made": {
			[]Op{register, reserve(Answer{Held: held("r1", 1)}), release("r1", lost), reserve(lost), release("r1", gone), list(nil)}, porcupine.Ok},
		"neither call took effect": {
			[]Op{register, reserve(Answer{Held: held("r1", 1)}), release("r1", lost), reserve(lost), list(held("r1", 1))}, porcupine.Ok},
		"the later call renewed": {
			[]Op{register, reserve(Answer{Held: held("r1", 1)}), release("r1", lost), reserve(lost), list(held("r1", 3))}, porcupine.Ok},
		"the new id is released by whoever saw it": {
			[]Op{register, reserve(lost), list(held("r1", 1)), release("r1", Answer{Held: held("r1", 1)})}, porcupine.Ok},
		"an old id is given again": {
			[]Op{register, reserve(Answer{Held: held("r1", 1)}), release("r1", Answer{Held: held("r1", 1)}), reserve(lost), list(held("r1", 3))}, porcupine.Illegal},
		"an id of before an old one is given": {
			[]Op{register, reserve(Answer{Held: held("r2", 1)}), release("r2", Answer{Held: held("r2", 1)}), reserve(lost), list(held("r1", 3))}, porcupine.Illegal},
		"the old id is unknown and shown": {
			[]Op{register, reserve(Answer{Held: held("r1", 1)}), release("r1", lost), reserve(lost), release("r1", gone), list(held("r1", 3))}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, stuck := told(c.ops...).Verdict(patience)
			require.Equal(t, c.want, verdict, stuck)
		})
	}
}

// A refusal may name a reservation that expired during the call, although another
// call no longer saw it: the decision goes by the clock at its beginning. One that
// expired before the call is no reason.
func TestARefusalNamesWhatExpiredDuringTheCall(t *testing.T) {
	s := state{}.registered("a")
	for at, want := range map[int64]bool{99: false, 100: true, 150: true, 200: true, 201: false} {
		o := &Op{Call: Call{Kind: Reserve, Agent: "a"}, Answer: Answer{Refused: refusal.Conflict, Held: []Held{{ID: "r3", Agent: "b", Expires: time.Unix(0, at)}}}, Since: 100, Until: 200}
		_, ok := s.refusedClaim(o)
		require.Equal(t, want, ok, "%d", at)
	}
}
