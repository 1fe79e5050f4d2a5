package canary

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/log/audit"
)

var rules = Rules{Decisions: 200, Days: 7, Minimum: 30, Floor: 20}

func goBack(was, is Identity) string { return was.Policy + " instead of " + is.Policy }

// tape is a log that a State reads while it is written.
type tape struct {
	t     *testing.T
	state *State
	rules Rules
	seq   int64
	now   time.Time
	steps int
	out   []audit.Entry
}

func newTape(t *testing.T) *tape {
	w := &tape{t: t, state: &State{}, rules: rules, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.policy("good")
	return w
}

// listed is the part of an entry that names the list of signers in force.
func listed(sha256 string, epoch int64) audit.Parts {
	return audit.Parts{SignersFile: audit.SignersFile{Epoch: epoch, SHA256: sha256}}
}

// write writes an entry one minute after the last one, and the entries that follow
// from it.
func (w *tape) write(e audit.Entry) {
	w.seq++
	w.now = w.now.Add(time.Minute)
	e.Seq, e.Time = w.seq, w.now
	for _, o := range w.state.Take(w.rules, goBack, e) {
		w.out = append(w.out, o)
		w.write(o)
	}
}

func (w *tape) policy(digest string) {
	w.write(audit.Entry{Kind: audit.Trusted, Policy: digest, Parts: listed("signers", 1)})
}

// planned, refused and pending write answers to a caller, each about something else.
func (w *tape) planned(by string, n int) {
	for range n {
		id := w.id()
		w.write(audit.Entry{Kind: audit.Planned, By: by, Step: id})
		w.write(audit.Entry{Kind: audit.Dispatched, By: byGate, Step: id})
	}
}

func (w *tape) refused(by string, n int) {
	for range n {
		w.write(audit.Entry{Kind: audit.Refused, By: by, Op: "guest.start", Target: "guest/" + w.id(), Code: refusal.UnknownTarget})
	}
}

func (w *tape) pending(by string, n int) (ids []string) {
	for range n {
		ids = append(ids, w.id())
		w.write(audit.Entry{Kind: audit.Requested, By: by, Step: ids[len(ids)-1]})
	}
	return ids
}

func (w *tape) approved(by string, n int, after time.Duration) {
	for range n {
		ids := w.pending(by, 1)
		w.now = w.now.Add(after - time.Minute)
		w.write(audit.Entry{Kind: audit.Approved, By: "uid:0", Step: ids[0]})
	}
}

func (w *tape) id() string {
	w.steps++
	return fmt.Sprintf("j%d.1", w.steps)
}

// says asserts the verdict of the last canary, and that this was the only entry
// since the last call.
func (w *tape) says(v Verdict, texts ...string) {
	w.t.Helper()
	require.Len(w.t, w.out, 1, "%+v", w.state.Watch)
	e := w.out[0]
	require.Equal(w.t, audit.Canary, e.Kind)
	require.Equal(w.t, string(v), e.Verdict)
	require.Equal(w.t, w.state.Watch.Change, e.Change)
	require.Equal(w.t, v, w.state.Watch.Verdict)
	for _, text := range texts {
		require.Contains(w.t, e.Detail, text)
	}
	w.out = nil
}

// watches asserts that there is no verdict yet.
func (w *tape) watches() {
	w.t.Helper()
	require.Empty(w.t, w.out)
	require.NotNil(w.t, w.state.Watch)
	require.Empty(w.t, w.state.Watch.Verdict)
}
