package matrix_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// attack is one row: an id of the matrix with a letter where a row lists
// several attacks, the attack in words, the code it has to be refused with, and
// what does it. run prepares the world, calls arm, attacks, and returns the
// refusal; everything else is asserted here, the same for all.
type attack struct {
	id   string
	what string
	want refusal.Code
	run  func(*world) error
	bare bool  // without the two guests
	disk int64 // if not 0, the state is on a file system of its own, of so many bytes

	shared *common // the world that it shares with others; nil for one of its own
}

// What cases end as where no refusal is handed to anybody.
const (
	nothingPlanned refusal.Code = "nothing_planned"
	notStarted     refusal.Code = "not_started"
	interrupted    refusal.Code = "interrupted"
	lostRace       refusal.Code = "lost_race" // of several that are each right, one happened
	reported       refusal.Code = "reported"  // fsck says so
)

func attacks() []attack {
	return slices.Concat(signatureRows, batchRows, fieldRows, touchRows, certificateRows, validityRows, trustRows(), trustFileRows, crowdRows, sizeRows, rotationRows, changedRulesRows,
		bindingRows, shapeRows, raceRows, hostFileRows, timeRows, replayRows, peopleReplayRows,
		crashRows, provenanceRows, desiredRows, hubRows, fleetRows, hostRows, socketRows, ownRows, ownDriverRows, ownRaceRows, delayRows, ownPeopleRows, ownRotationRows,
		agentRows, adminRows, staleScopeRows, adminBindingRows, diskRows, crowdingRows, logRows, lyingRows, oddFileRows, volatileRows, memoryRows, signedRuleRows, rejectedRows, programRows, commandRows, squatRows, hookCallRows, steerRows, mcpRows,
		foundRows(), ownLogRows, ownWitnessRows, ownRestoreRows, ownTimeRows, ownCanaryRows,
		swapRows, takenBackRows, undeleteRows, deniedRows, unseenRows, doomedRows, putBackRows, decidingRows, guestUIDRows, floodRows, watchedRows, socketUnitRows, memberRows, notifyRows)
}

// wanted lists the ids that the table has to have, and nothing keeps from
// growing.
func wanted() []string {
	var ids []string
	for _, r := range []struct {
		row      string
		from, to int
	}{{"S", 1, 24}, {"B", 1, 21}, {"T", 1, 15}, {"P", 1, 20}, {"H", 1, 16}, {"A", 1, 16}, {"X", 1, 99}, {"U", 1, 15}, {"N", 1, 4}, {"F", 1, 2}} {
		for n := r.from; n <= r.to; n++ {
			ids = append(ids, fmt.Sprintf("%s%02d", r.row, n))
		}
	}
	return ids
}

var idForm = regexp.MustCompile(`^([SBTPHAXUNF]\d\d)([a-z]?)$`)

func TestMatrix(t *testing.T) {
	all := attacks()
	rows, seen := map[string]bool{}, map[string]bool{}
	for _, a := range all {
		m := idForm.FindStringSubmatch(a.id)
		require.NotNil(t, m, "%q is no id", a.id)
		require.False(t, seen[a.id], "%s is there twice", a.id)
		rows[m[1]], seen[a.id] = true, true
	}
	var ran, refused, accepted atomic.Int64
	t.Run("cases", func(cases *testing.T) {
		t := cases
		for _, a := range all {
			t.Run(a.id, func(t *testing.T) {
				t.Parallel()
				t.Log(a.what)
				ran.Add(1)
				t.Cleanup(func() {
					if t.Skipped() {
						ran.Add(-1)
					}
				})
				w := worldFor(cases, t, a)
				err := a.run(w)
				if err == nil {
					accepted.Add(1)
				}
				w.verdict(a, err)
				refused.Add(1)
			})
		}
	})
	t.Logf("matrix: %d cases, %d refused as expected, %d accepted", ran.Load(), refused.Load(), accepted.Load())
	fmt.Printf("matrix: %d cases, %d refused as expected, %d accepted\n", ran.Load(), refused.Load(), accepted.Load())
	elsewhere := documented(t)
	for _, id := range wanted() {
		require.True(t, rows[id] != elsewhere[id], "%s: a case here or a reason in docs/matrix.md, and not both", id)
	}
	require.Equal(t, ran.Load(), refused.Load())
	require.Zero(t, accepted.Load())
}

func worldFor(cases, t *testing.T, a attack) *world {
	switch {
	case a.shared != nil:
		return a.shared.take(cases, t)
	case a.bare:
		return bareWorld(t)
	case a.disk != 0:
		return smallWorld(t, a.disk)
	default:
		return newWorld(t)
	}
}

// verdict asserts what has to hold after every attack.
func (w *world) verdict(a attack, err error) {
	t := w.t
	require.NotNil(t, w.before, "the case took no snapshot")
	require.Error(t, err, "ACCEPTED: %s", a.what)
	require.Equal(t, a.want, refusal.CodeOf(err), "%v", err)
	if w.store == nil {
		w.open()
	}
	if !w.allow.runs {
		_ = w.runAll() // whatever the attack left to run must change nothing either
	}
	w.logged(a.want)
	w.unchanged()
	w.sound()
	switch {
	case a.shared != nil && w.allow.repair != nil:
		w.allow.repair()
	case a.shared == nil && !w.allow.silent:
		w.conclude()
		w.sound()
	}
}

// conclude proves that signed work goes on: a request that waits is approved
// for real and runs, once, and reaches nothing but its target.
func (w *world) conclude() {
	t := w.t
	if w.allow.repair != nil {
		w.allow.repair()
	}
	require.NoError(t, w.gate.Tick(w.ctx))
	rs := must.Get(w.gate.Requests(w.ctx, op.StatePending))(t)
	changed := w.allow.finale
	if changed == nil {
		changed = []string{"victim"}
	}
	if w.allow.runs {
		require.NoError(t, w.runAll())
	} else {
		rs = slices.DeleteFunc(rs, func(r op.Request) bool { return r.Step.Target.Kind == op.KindTrust })
		if len(rs) == 0 {
			rs = []op.Request{w.destroyBecause("signed work goes on")}
		}
		r := rs[0]
		w.mustApprove(r)
		w.pass(w.allow.wait)
		require.NoError(t, w.runAll())
		require.Equal(t, op.StateSucceeded, w.stepOf(r.ID).State)
		must.Fail(w.approve(r))(t, refusal.Replayed)
		if r.Step.Op == "guest.destroy" {
			require.False(t, w.observe(r.Step.Target.Name).Present)
		}
	}
	require.Equal(t, outside(w.before.tree, changed), outside(hashTree(t, w.root), changed), "a signed step reached others")
}

// documented returns the rows that docs/matrix.md says are shown elsewhere.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	text := must.Get(os.ReadFile("../../../docs/matrix.md"))(t)
	out := map[string]bool{}
	_, text2, ok := strings.Cut(string(text), "## Elsewhere")
	require.True(t, ok)
	text2, _, _ = strings.Cut(text2, "\n## ")
	for _, line := range strings.Split(text2, "\n") {
		if m := regexp.MustCompile("^\\| `([SBTPHAXUNF]\\d\\d)` \\|").FindStringSubmatch(line); m != nil {
			out[m[1]] = true
		}
	}
	return out
}
