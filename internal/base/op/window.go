package op

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/base/refusal"
)

// Window is a part of each week in UTC: from one time of day to another, on certain
// days. If it ends before it begins, it continues past midnight and belongs to the
// day on which it began.
type Window struct {
	days     uint8  // bit n is time.Weekday n
	from, to uint16 // minutes since midnight; the window ends before to
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

const everyDay = 1<<7 - 1

// ParseWindow reads "[DAY-DAY ]HH:MM-HH:MMZ", such as "22:00-06:00Z" or "mon-fri
// 08:00-18:00Z"; one day alone is "sat 08:00-18:00Z". It may end at 24:00. The Z
// means UTC and is required. Refusals are BadParams.
func ParseWindow(s string) (Window, error) {
	w := Window{days: everyDay}
	bad := refusal.New(refusal.BadParams, "%q is not a window such as 22:00-06:00Z or mon-fri 08:00-18:00Z", s)
	hours := s
	if days, rest, ok := strings.Cut(s, " "); ok {
		hours = rest
		if w.days, ok = parseDays(days); !ok {
			return Window{}, bad
		}
	}
	from, to, ok := strings.Cut(strings.TrimSuffix(hours, "Z"), "-")
	var okFrom, okTo bool
	w.from, okFrom = parseClock(from)
	if w.to, okTo = parseClock(to); to == "24:00" {
		w.to, okTo = 24*60, true
	}
	if !ok || !okFrom || !okTo || w.from == w.to || !strings.HasSuffix(hours, "Z") {
		return Window{}, bad
	}
	return w, nil
}

func parseDays(s string) (mask uint8, ok bool) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	a, b := slices.Index(weekdays, first), slices.Index(weekdays, last)
	if a < 0 || b < 0 {
		return 0, false
	}
	for d := a; ; d = (d + 1) % 7 {
		mask |= 1 << d
		if d == b {
			return mask, true
		}
	}
}

func parseClock(s string) (uint16, bool) {
	t, err := time.Parse("15:04", s)
	return minuteOf(t), err == nil && len(s) == len("15:04")
}

func minuteOf(t time.Time) uint16 { return uint16(t.Hour()*60 + t.Minute()) }

// Contains reports whether t is in the window. The zero Window contains
// nothing.
func (w Window) Contains(t time.Time) bool {
	t = t.UTC()
	minute, day := minuteOf(t), t.Weekday()
	if w.from < w.to {
		return w.on(day) && minute >= w.from && minute < w.to
	}
	return w.on(day) && minute >= w.from || w.on((day+6)%7) && minute < w.to
}

// Meets reports whether the two windows overlap.
func (w Window) Meets(o Window) bool { return w.beginsIn(o) || o.beginsIn(w) }

func (w Window) beginsIn(o Window) bool {
	for d := range weekdays {
		sunday := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)
		if w.on(time.Weekday(d)) && o.Contains(sunday.AddDate(0, 0, d).Add(time.Duration(w.from)*time.Minute)) {
			return true
		}
	}
	return false
}

func (w Window) on(d time.Weekday) bool { return w.days&(1<<d) != 0 }

// String returns the window as ParseWindow reads it.
func (w Window) String() string {
	hours := fmt.Sprintf("%02d:%02d-%02d:%02dZ", w.from/60, w.from%60, w.to/60, w.to%60)
	if w.days == everyDay {
		return hours
	}
	for first := range weekdays {
		if w.on(time.Weekday(first)) && !w.on(time.Weekday((first+6)%7)) {
			last := first
			for w.on(time.Weekday((last + 1) % 7)) {
				last = (last + 1) % 7
			}
			if last == first {
				return weekdays[first] + " " + hours
			}
			return weekdays[first] + "-" + weekdays[last] + " " + hours
		}
	}
	return hours
}

// MarshalText writes what String returns.
func (w Window) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads as ParseWindow does.
func (w *Window) UnmarshalText(b []byte) error {
	v, err := ParseWindow(string(b))
	if err == nil {
		*w = v
	}
	return err
}
