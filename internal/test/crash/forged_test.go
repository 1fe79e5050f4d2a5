package crash

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// history numbers entries as the log does.
func history(es ...entry) []entry {
	for i := range es {
		es[i].Seq = int64(i + 1)
	}
	return es
}

func destroy(kind string) entry {
	return entry{Kind: kind, Step: "j2.1", Op: "guest.destroy", Class: op.Destructive, Incarnation: "web-1"}
}

func created() entry {
	return entry{Kind: "succeeded", Step: "j1.1", Op: "guest.create", Class: op.Benign, Incarnation: "web-1"}
}

// TestTheCheckerCanFail: a checker that finds nothing in a log that breaks the
// rules would pass every kill.
func TestTheCheckerCanFail(t *testing.T) {
	legal := history(created(), destroy("requested"), destroy("approved"), destroy("dispatched"), destroy("succeeded"))
	r, wrong := replayed(legal)
	require.Empty(t, wrong)
	require.Equal(t, map[op.Incarnation]place{"web-1": trashed}, r.places)
	for name, c := range map[string]struct {
		log  []entry
		says string
	}{
		"dispatched twice":    {history(destroy("approved"), destroy("dispatched"), destroy("dispatched")), "twice"},
		"unsigned":            {history(destroy("requested"), destroy("dispatched")), "unsigned"},
		"approved afterwards": {history(destroy("dispatched"), destroy("approved")), "unsigned"},
		"after its end":       {history(destroy("approved"), destroy("dispatched"), destroy("interrupted"), destroy("dispatched")), "after its end"},
		"benign, after its end": {history(entry{Kind: "dispatched", Step: "j1.1"}, entry{Kind: "succeeded", Step: "j1.1"},
			entry{Kind: "dispatched", Step: "j1.1"}), "after its end"},
		"an entry missing": {append(history(created()), entry{Seq: 3}), "number 3"},
	} {
		_, wrong := replayed(c.log)
		require.NotEmpty(t, wrong, name)
		require.Contains(t, wrong[0], c.says, name)
	}
}

func TestTheGuestCheckCanFail(t *testing.T) {
	owned := map[op.Incarnation]possession{"web-1": {name: "web", digest: "abc"}}
	alive := history(created())
	dead := history(created(), destroy("approved"), destroy("dispatched"), destroy("succeeded"))
	cut := history(created(), destroy("approved"), destroy("dispatched"), destroy("interrupted"))
	back := history(append(dead, entry{Kind: "succeeded", Op: "guest.undelete", Incarnation: "web-1"})...)
	whole := func(p place) seen { return seen{p, "abc"} }
	for _, c := range []struct {
		name string
		log  []entry
		is   seen
		ok   bool
	}{
		{"there", alive, whole(live), true},
		{"there, half of it", alive, seen{live, "ab"}, false},
		{"vanished", alive, seen{place: gone}, false},
		{"in the trash without a word", alive, whole(trashed), false},
		{"destroyed", dead, whole(trashed), true},
		{"destroyed, half in the trash", dead, seen{trashed, "ab"}, false},
		{"destroyed for long", dead, seen{place: gone}, true},
		{"destroyed, and there", dead, whole(live), false},
		{"interrupted before", cut, whole(live), true},
		{"interrupted after", cut, whole(trashed), true},
		{"interrupted in between", cut, seen{live, "ab"}, false},
		{"brought back", back, whole(live), true},
		{"brought back, and gone", back, seen{place: gone}, false},
		{"nobody made it", nil, whole(live), false},
	} {
		r, _ := replayed(c.log)
		wrong := checkGuests(owned, r, func(possession, op.Incarnation) seen { return c.is })
		require.Equal(t, c.ok, len(wrong) == 0, "%s: %v", c.name, wrong)
	}
}

func TestTheJobCheckCanFail(t *testing.T) {
	job := func(state op.State, target string) map[string]api.Job {
		return map[string]api.Job{"j1": {ID: "j1", Steps: []api.Step{{ID: "j1.1", Op: "guest.start", Target: target, State: state}}}}
	}
	for _, c := range []struct {
		name      string
		told, now map[string]api.Job
		ok        bool
	}{
		{"went on", job(op.StatePlanned, "guest/a"), job(op.StateSucceeded, "guest/a"), true},
		{"as told", job(op.StateSucceeded, "guest/a"), job(op.StateSucceeded, "guest/a"), true},
		{"lost", job(op.StatePlanned, "guest/a"), nil, false},
		{"another target", job(op.StatePlanned, "guest/a"), job(op.StatePlanned, "guest/b"), false},
		{"open again", job(op.StateSucceeded, "guest/a"), job(op.StatePlanned, "guest/a"), false},
		{"another end", job(op.StateSucceeded, "guest/a"), job(op.StateInterrupted, "guest/a"), false},
		{"approval forgotten", job(op.StateAuthorized, "guest/a"), job(op.StatePending, "guest/a"), false},
	} {
		wrong := checkJobs(c.told, c.now)
		require.Equal(t, c.ok, len(wrong) == 0, "%s: %v", c.name, wrong)
	}
}

func TestTheOtherChecksCanFail(t *testing.T) {
	guests := []api.Guest{{Name: "web", Incarnation: "web-1", State: "running"}, {Name: "db", Incarnation: "db-1", State: "stopped"}}
	require.Empty(t, checkProcesses(map[int]op.Incarnation{7: "web-1"}, guests))
	require.NotEmpty(t, checkProcesses(map[int]op.Incarnation{7: "web-1", 8: "db-1"}, guests), "a stopped guest's")
	require.NotEmpty(t, checkProcesses(map[int]op.Incarnation{7: "web-1", 8: "old"}, guests), "nobody's")
	require.NotEmpty(t, checkProcesses(nil, guests), "none")

	require.Empty(t, checkReplay("j1.1", refusal.New(refusal.Replayed, "again")))
	require.NotEmpty(t, checkReplay("j1.1", nil))
	require.NotEmpty(t, checkReplay("j1.1", refusal.New(refusal.Unavailable, "x")))
}
