package op_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func parseWindow(t require.TestingT, s string) op.Window {
	w := must.Get(op.ParseWindow(s))(t, s)
	return w
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// anyWindow draws a window as people write one.
var anyWindow = rapid.Custom(func(t *rapid.T) string {
	clock := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Date(2000, 1, 1, rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute"), 0, 0, time.UTC)
	})
	day := rapid.SampledFrom(weekdays)
	from := clock.Draw(t, "from").Format("15:04")
	to := clock.Filter(func(c time.Time) bool { return c.Format("15:04") != from }).Draw(t, "to").Format("15:04")
	if rapid.IntRange(0, 9).Draw(t, "to midnight") == 0 {
		to = "24:00"
	}
	switch hours := from + "-" + to + "Z"; rapid.IntRange(0, 2).Draw(t, "days") {
	case 0:
		return hours
	case 1:
		return day.Draw(t, "day") + " " + hours
	default:
		return day.Draw(t, "first") + "-" + day.Draw(t, "last") + " " + hours
	}
})

func TestWindowParsesWhatItPrints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := parseWindow(t, anyWindow.Draw(t, "window"))
		require.Equal(t, w, parseWindow(t, w.String()))
		text := must.Get(w.MarshalText())(t)
		var back op.Window
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, w, back)
	})
}

func TestWindowPrintsItsDaysOnce(t *testing.T) {
	for given, want := range map[string]string{
		"22:00-06:00Z":         "22:00-06:00Z",
		"mon-fri 08:00-18:00Z": "mon-fri 08:00-18:00Z",
		"sat 08:00-18:00Z":     "sat 08:00-18:00Z",
		"sat-sat 08:00-18:00Z": "sat 08:00-18:00Z",
		"sat-sun 00:00-24:00Z": "sat-sun 00:00-24:00Z",
		"fri-mon 23:59-00:00Z": "fri-mon 23:59-00:00Z",
		"sun-sat 08:00-18:00Z": "08:00-18:00Z",
		"mon-sun 08:00-18:00Z": "08:00-18:00Z",
		"thu-wed 08:00-18:00Z": "08:00-18:00Z",
		"sun-fri 08:00-18:00Z": "sun-fri 08:00-18:00Z",
		"mon-sat 08:00-18:00Z": "mon-sat 08:00-18:00Z",
	} {
		require.Equal(t, want, parseWindow(t, given).String(), given)
	}
}

func TestWindowRefusesAllElse(t *testing.T) {
	for _, s := range []string{"", "Z", "-", "always", "08:00", "08:00-18:00", "08:00Z-18:00Z", "08:00-18:00ZZ", "08:00-18:00z",
		"8:00-18:00Z", "08:00-8:00Z", "08:00-18:0Z", "08.00-18.00Z", "0800-1800Z", "08:00:00-18:00:00Z", "24:00-06:00Z", "08:00-24:01Z",
		"08:60-18:00Z", "-8:00-18:00Z", "+8:00-18:00Z", "08:00-08:00Z", "00:00-00:00Z", " 08:00-18:00Z", "08:00-18:00Z ", "08:00 -18:00Z",
		"mon-fri", "mon-fri ", "mon-fri  08:00-18:00Z", "mon,tue 08:00-18:00Z", "Mon-Fri 08:00-18:00Z", "monday 08:00-18:00Z",
		"mon- 08:00-18:00Z", "-fri 08:00-18:00Z", "mon-fri-sun 08:00-18:00Z", "1-5 08:00-18:00Z", "mon-fri 08:00-18:00+02:00",
		"mon-fri 08:00-18:00Z 20:00-22:00Z", "mon\t08:00-18:00Z", "０8:00-18:00Z"} {
		_, err := op.ParseWindow(s)
		requireRefusal(t, err, refusal.BadParams, s)
		w := parseWindow(t, "mon 08:00-18:00Z")
		require.ErrorIs(t, w.UnmarshalText([]byte(s)), refusal.BadParams)
		require.Equal(t, "mon 08:00-18:00Z", w.String(), "it is left as it was")
	}
}

// The 1st of January 2024 was a Monday.
func TestWindowContains(t *testing.T) {
	for _, c := range []struct {
		window, at string
		in         bool
	}{
		{"08:00-18:00Z", "2024-01-01T07:59:59.999999999Z", false},
		{"08:00-18:00Z", "2024-01-01T08:00:00Z", true},
		{"08:00-18:00Z", "2024-01-06T17:59:59.999999999Z", true},
		{"08:00-18:00Z", "2024-01-01T18:00:00Z", false},
		{"mon-fri 08:00-18:00Z", "2024-01-01T08:00:00Z", true},
		{"mon-fri 08:00-18:00Z", "2024-01-05T17:59:59Z", true},
		{"mon-fri 08:00-18:00Z", "2024-01-06T12:00:00Z", false},
		{"mon-fri 08:00-18:00Z", "2023-12-31T12:00:00Z", false},
		{"fri-mon 08:00-18:00Z", "2024-01-01T12:00:00Z", true},
		{"fri-mon 08:00-18:00Z", "2024-01-02T12:00:00Z", false},
		{"fri-mon 08:00-18:00Z", "2024-01-04T12:00:00Z", false},
		{"fri-mon 08:00-18:00Z", "2024-01-05T12:00:00Z", true},
		// Past midnight.
		{"22:00-06:00Z", "2024-01-01T21:59:59Z", false},
		{"22:00-06:00Z", "2024-01-01T22:00:00Z", true},
		{"22:00-06:00Z", "2024-01-02T00:00:00Z", true},
		{"22:00-06:00Z", "2024-01-02T05:59:59Z", true},
		{"22:00-06:00Z", "2024-01-02T06:00:00Z", false},
		// It is part of the day on which it began.
		{"sat 22:00-06:00Z", "2024-01-06T05:00:00Z", false},
		{"sat 22:00-06:00Z", "2024-01-06T22:00:00Z", true},
		{"sat 22:00-06:00Z", "2024-01-07T05:59:59Z", true}, // and into the next week of days
		{"sat 22:00-06:00Z", "2024-01-07T22:00:00Z", false},
		{"mon-fri 22:00-06:00Z", "2024-01-01T05:00:00Z", false},
		{"mon-fri 22:00-06:00Z", "2024-01-06T05:00:00Z", true},
		// To midnight, in both spellings.
		{"mon 20:00-24:00Z", "2024-01-01T23:59:59.999999999Z", true},
		{"mon 20:00-24:00Z", "2024-01-02T00:00:00Z", false},
		{"mon 20:00-00:00Z", "2024-01-01T23:59:59.999999999Z", true},
		{"mon 20:00-00:00Z", "2024-01-02T00:00:00Z", false},
		{"mon 00:00-24:00Z", "2024-01-01T00:00:00Z", true},
		// UTC, whatever the zone of the time; UTC has no summer time.
		{"08:00-18:00Z", "2024-07-01T09:00:00+02:00", false},
		{"08:00-18:00Z", "2024-07-01T10:00:00+02:00", true},
		{"mon 23:00-24:00Z", "2024-01-02T00:30:00+01:00", true},
	} {
		at := must.Get(time.Parse(time.RFC3339Nano, c.at))(t)
		require.Equal(t, c.in, parseWindow(t, c.window).Contains(at), "%s at %s", c.window, c.at)
	}
	require.False(t, op.Window{}.Contains(time.Unix(0, 0)), "the zero window is never open")
}

// TestWindowsMeet compares with every minute of a week.
func TestWindowsMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := parseWindow(t, anyWindow.Draw(t, "a")), parseWindow(t, anyWindow.Draw(t, "b"))
		common := false
		for m := range 7 * 24 * 60 {
			at := time.Unix(int64(m)*60, 0)
			common = common || a.Contains(at) && b.Contains(at)
		}
		require.Equal(t, common, a.Meets(b), "%s and %s", a, b)
		require.Equal(t, common, b.Meets(a), "%s and %s", b, a)
	})
}
