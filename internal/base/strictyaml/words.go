package strictyaml

import (
	"slices"
	"strings"
	"time"
)

// OneOf reads one of the words.
func (v Value) OneOf(words ...string) string {
	s := v.Text()
	if !slices.Contains(words, s) {
		v.Fail("%q is none of %s", s, strings.Join(words, ", "))
	}
	return s
}

// Duration reads a length of time in whole seconds, such as 90s, 30m, 24h or 1h30m, within the two bounds. It is otherwise
// for a value that is absent or wrong.
func (v Value) Duration(otherwise, shortest, longest time.Duration) time.Duration {
	if !v.Present() {
		return otherwise
	}
	s := v.Text()
	d, err := time.ParseDuration(s)
	switch {
	case err != nil || d < 0 || d%time.Second != 0:
		v.Fail("%q is not a length of time in whole seconds, such as 90s, 30m, 24h or 1h30m", s)
	case d < shortest || d > longest:
		v.Fail("%s is outside %s to %s", Short(d), Short(shortest), Short(longest))
	default:
		return d
	}
	return otherwise
}

// Short writes a length of time as a file has it: 24h, not 24h0m0s.
func Short(d time.Duration) string {
	s := d.String()
	if d >= time.Minute && strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if d >= time.Hour && strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
