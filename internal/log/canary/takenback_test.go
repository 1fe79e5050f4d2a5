package canary

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/log/audit"
)

const day = 24 * time.Hour

// ahead has a change that was made while the clock was 70 years ahead, and the right
// time.
func ahead(t *testing.T) (w *tape, right time.Time) {
	w = newTape(t)
	right = w.now
	w.now = w.now.AddDate(70, 0, 0)
	w.planned("uid:1", 60)
	w.policy("other")
	w.watches()
	return w, right
}

// TestAClockThatIsTakenBack: the window still ends. It has its remaining time if the
// gate noticed that its clock was wrong.
func TestAClockThatIsTakenBack(t *testing.T) {
	w, right := ahead(t)
	w.state.Pause(w.state.Watch.At.Add(2*day), false)
	require.True(t, w.state.Pause(right, true))
	require.Equal(t, right, w.state.Watch.At)
	require.Equal(t, right.Add(5*day), w.state.Watch.Until)
	require.False(t, w.state.Overdue(right.Add(MaxUnresolved-1)))
	require.True(t, w.state.Overdue(right.Add(MaxUnresolved)))
	require.Empty(t, w.state.Pass(rules, goBack, right.Add(5*day)))
	require.Len(t, w.state.Pass(rules, goBack, right.Add(5*day+1)), 1)
}

// TestAWindowThatWasOver: a window that ended before the clock was found wrong stays
// ended.
func TestAWindowThatWasOver(t *testing.T) {
	w, right := ahead(t)
	w.state.Pause(w.state.Watch.Until.Add(day), false)
	w.state.Pause(right, true)
	require.Equal(t, right, w.state.Watch.Until)
}

// TestTimeIsAccepted: the gate did not run at that time, so the remaining time is
// not known.
func TestTimeIsAccepted(t *testing.T) {
	w, right := ahead(t)
	w.now = right.Add(-time.Minute)
	w.write(audit.Entry{Kind: audit.TimeAccepted})
	require.Equal(t, right, w.state.Watch.At)
	require.Equal(t, right.Add(7*day), w.state.Watch.Until)
	w.write(audit.Entry{Kind: audit.TimeAccepted})
	require.Equal(t, right, w.state.Watch.At, "once")

	// If the gate paused before and went on after it, the remaining time is known.
	w, right = ahead(t)
	w.state.Pause(w.state.Watch.At.Add(2*day), false)
	w.now = right.Add(-time.Minute)
	w.write(audit.Entry{Kind: audit.TimeAccepted})
	w.state.Pause(right.Add(time.Hour), true)
	require.Equal(t, right, w.state.Watch.At)
	require.Equal(t, right.Add(5*day+time.Hour), w.state.Watch.Until)
}

// TestAnAlertOfAClockThatWasAhead: it becomes overdue after the right time.
func TestAnAlertOfAClockThatWasAhead(t *testing.T) {
	w, right := ahead(t)
	w.refused("uid:1", 40)
	w.says(Alert)
	require.False(t, w.state.Overdue(right.Add(45*day)))
	w.now = right.Add(-time.Minute)
	w.write(audit.Entry{Kind: audit.TimeAccepted})
	require.True(t, w.state.Overdue(right.Add(45*day)))

	// An ended canary stays unchanged, and so does one of a right clock.
	_, ok := w.state.Accept(w.now, "uid:0", w.state.Watch.Change)
	require.True(t, ok)
	at := w.state.Watch.At
	w.now = w.now.Add(-day)
	w.write(audit.Entry{Kind: audit.TimeAccepted})
	require.Equal(t, at, w.state.Watch.At)
}
