package canary

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/log/audit"
)

func TestWhatIsAChange(t *testing.T) {
	known := Identity{Policy: "p", Signers: "s", Epoch: 3, Revoked: "r", Version: "v1", Schema: 7}
	for name, c := range map[string]struct {
		change func(*Identity)
		want   []string
	}{
		"nothing":                {func(*Identity) {}, nil},
		"policy":                 {func(i *Identity) { i.Policy = "q" }, []string{"policy"}},
		"signers":                {func(i *Identity) { i.Signers, i.Epoch = "q", 4 }, []string{"trust"}},
		"the same signers again": {func(i *Identity) { i.Epoch = 5 }, nil},
		"a key is revoked":       {func(i *Identity) { i.Revoked = "q" }, []string{"trust"}},
		"the first is revoked":   {func(i *Identity) { i.Revoked = "" }, []string{"trust"}},
		"version":                {func(i *Identity) { i.Version = "v2" }, []string{"version"}},
		"schema":                 {func(i *Identity) { i.Schema = 8 }, []string{"version"}},
		"all":                    {func(i *Identity) { *i = Identity{"q", "q", 4, "q", "q", 8} }, []string{"policy", "trust", "version"}},
		"nothing is known":       {func(i *Identity) { *i = Identity{} }, nil},
	} {
		is := known
		c.change(&is)
		require.Equal(t, c.want, known.Changed(is), name)
		require.Equal(t, c.want, is.Changed(known), name)
	}
}

func start(version string, schema int) audit.Entry {
	return audit.Entry{Kind: audit.Started, Policy: "good", Parts: listed("signers", 1), Version: version, Schema: schema}
}

func TestAStartOfAnotherVersion(t *testing.T) {
	w := newTape(t)
	w.write(start("v1", 7))
	w.planned("uid:1", 100)
	w.write(start("v1", 7))
	require.Nil(t, w.state.Watch, "the same program again is no change")
	w.write(start("v2", 8))
	w.watches()
	require.Equal(t, []string{"version"}, w.state.Watch.Changed)
	require.Equal(t, "v1", w.state.Watch.Was.Version)
	require.Len(t, w.state.Watch.Base, 100)
}

// TestTheFirstProgramThatSaysItsVersion: earlier starts in the log name no version.
func TestTheFirstProgramThatSaysItsVersion(t *testing.T) {
	w := newTape(t)
	w.state = &State{}
	w.write(audit.Entry{Kind: audit.Started, Parts: listed("signers", 1)})
	w.planned("uid:1", 100)
	w.write(start("v1", 7))
	w.watches()
	require.Equal(t, "an older gated", w.state.Watch.Was.Version)
	require.Equal(t, []string{"version"}, w.state.Watch.Changed)

	w.state = &State{}
	w.write(audit.Entry{Kind: audit.Rotated, Parts: listed("signers", 1)}) // of a new gate
	w.write(start("v1", 7))
	require.Nil(t, w.state.Watch)
}

// TestAnotherChangeMeanwhile: the comparison stays with the decisions before the
// first change, because only those are known to be good.
func TestAnotherChangeMeanwhile(t *testing.T) {
	w := newTape(t)
	w.planned("uid:1", 100)
	w.policy("bad")
	first := w.state.Watch.Change
	w.refused("uid:1", 20)
	w.policy("worse")
	require.Equal(t, first, w.out[0].Change)
	w.says2(Expired, "another change")
	w.watches()
	require.Greater(t, w.state.Watch.Change, first)
	require.Len(t, w.state.Watch.Base, 100)
	require.Equal(t, "good", w.state.Watch.Was.Policy)
	w.refused("uid:1", 30)
	w.says(Alert, "refused 30 of 30, before 0 of 100", "good instead of worse")

	// Also after an alert that is open.
	w.policy("worst")
	require.Contains(t, w.out[0].Detail, "the alert ended")
	w.out = nil
	w.watches()
	require.Equal(t, "good", w.state.Watch.Was.Policy)
	require.Len(t, w.state.Watch.Base, 100)
	w.policy("good")
	w.says(Expired, "takes the change back")
	require.Len(t, w.state.Recent, 100)
}

// says2 asserts the first entry if another canary has begun since.
func (w *tape) says2(v Verdict, text string) {
	w.t.Helper()
	require.Len(w.t, w.out, 1)
	require.Equal(w.t, string(v), w.out[0].Verdict)
	require.Contains(w.t, w.out[0].Detail, text)
	w.out = nil
}

// TestOneChangeInSeveralEntries: an adopted rotation and then the start are one
// canary.
func TestOneChangeInSeveralEntries(t *testing.T) {
	w := newTape(t)
	w.write(start("v1", 7))
	w.planned("uid:1", 100)
	w.write(audit.Entry{Kind: audit.Rotated, Parts: listed("others", 2)})
	first := w.state.Watch.Change
	e := start("v2", 7)
	e.Parts = listed("others", 2)
	w.write(e)
	w.watches()
	require.Equal(t, first, w.state.Watch.Change)
	require.Equal(t, []string{"trust", "version"}, w.state.Watch.Changed)
	require.Equal(t, "v2", w.state.Watch.Is.Version)
}

// TestTheWindowsEnd: it ends at the right second, and later by the time in which the
// gate did not trust its clock.
func TestTheWindowsEnd(t *testing.T) {
	w := newTape(t)
	w.planned("uid:1", 100)
	w.policy("other")
	w.planned("uid:1", 50)
	until := w.state.Watch.Until
	require.Equal(t, w.state.Watch.At.Add(7*24*time.Hour), until)
	require.Empty(t, w.state.Pass(rules, goBack, until))

	paused := w.now
	require.True(t, w.state.Pause(paused, false))
	require.False(t, w.state.Pause(paused.Add(time.Hour), false), "it is paused already")
	w.refused("uid:1", 50)
	require.Equal(t, 50, Answers(w.state.Recent), "what is decided meanwhile does not count")
	w.now = until.Add(time.Hour)
	w.planned("uid:1", 1)
	w.watches()
	require.True(t, w.state.Pause(paused.Add(9*24*time.Hour), true))
	require.False(t, w.state.Pause(paused, true))
	require.Equal(t, until.Add(9*24*time.Hour), w.state.Watch.Until)

	until = w.state.Watch.Until
	out := w.state.Pass(rules, goBack, until.Add(time.Nanosecond))
	require.Len(t, out, 1)
	require.Equal(t, string(Passed), out[0].Verdict)
	require.Equal(t, until, w.state.Watch.Decided, "at whatever time Pass ran")
	require.Empty(t, w.state.Pass(rules, goBack, until.Add(time.Hour)))
}

func TestAcceptAndOverdue(t *testing.T) {
	w, at := newTape(t), int64(1)
	_, ok := w.state.Accept(w.now, "uid:0", at)
	require.False(t, ok)
	require.False(t, w.state.Overdue(w.now.Add(99*24*time.Hour)))
	w.planned("uid:1", 100)
	w.policy("strict")
	began := w.state.Watch.At
	at = w.state.Watch.Change
	_, ok = w.state.Accept(w.now, "uid:0", at)
	require.False(t, ok, "it still watches")
	w.refused("uid:1", 30)
	w.says(Alert)
	require.False(t, w.state.Overdue(began.Add(MaxUnresolved-1)))
	require.True(t, w.state.Overdue(began.Add(MaxUnresolved)))
	_, ok = w.state.Accept(w.now, "uid:0", at-1)
	require.False(t, ok, "of another change")
	out, ok := w.state.Accept(w.now, "uid:0", at)
	require.True(t, ok)
	require.Equal(t, []audit.Entry{{Kind: audit.Canary, By: "uid:0", Change: w.state.Watch.Change, Detail: "the alert ended: accepted by uid:0"}}, out)
	require.False(t, w.state.Overdue(began.Add(MaxUnresolved)))
	_, ok = w.state.Accept(w.now, "uid:0", at)
	require.False(t, ok)

	// The next change is compared with the accepted decisions.
	w.policy("good")
	w.watches()
	require.Equal(t, 30, w.state.Watch.Before)
	require.Equal(t, "strict", w.state.Watch.Was.Policy)
}
