package crash

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/linear"
)

// checkClaims replays the audit log: no two of different holders overlap, unless
// both are shared; each has one beginning and one end; none ends by its time
// before that; and in the end there is none.
func checkClaims(log []claimEntry, root string) (wrong []string) {
	type claim struct {
		claimEntry
		paths []string
	}
	held, ended := map[string]claim{}, map[string]bool{}
	say := func(i int, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("entry %d: ", i+1)+fmt.Sprintf(format, args...))
	}
	for i, e := range log {
		if e.Reservation == "" {
			continue
		}
		_, known := held[e.Reservation]
		if known == (e.Kind == "reserved") || ended[e.Reservation] {
			say(i, "%s is %s out of turn", e.Reservation, e.Kind)
			continue
		}
		switch e.Kind {
		case "reserved", "renewed", "transferred", "lapsing":
		default:
			if e.Kind == "lapsed" && e.Time.Before(e.Until) {
				say(i, "%s lapsed before its time", e.Reservation)
			}
			delete(held, e.Reservation)
			ended[e.Reservation] = true
			continue
		}
		set, ok := linear.SetOf(linear.ScopeOf(root, e.Dir), e.Patterns)
		if !ok {
			say(i, "%s has patterns that nobody asked for: %s %v", e.Reservation, e.Dir, e.Patterns)
		}
		c := claim{e, set.Paths()}
		for id, other := range held {
			for _, path := range other.paths {
				if slices.Contains(c.paths, path) && id != e.Reservation && other.Holder != e.Holder && (other.Mode != "shared" || e.Mode != "shared") {
					say(i, "%s has %s in %s while %s has %s", e.Holder, path, e.Reservation, other.Holder, id)
				}
			}
		}
		held[e.Reservation] = c
	}
	for id := range held {
		wrong = append(wrong, id+" has no end")
	}
	return wrong
}

func TestTheClaimCheckCanFail(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	entry := func(kind, id, holder string, patterns ...string) claimEntry {
		return claimEntry{Time: at, Kind: kind, Reservation: id, Holder: holder, Patterns: patterns, Dir: "/co", Mode: "exclusive", Until: at}
	}
	shared := func(e claimEntry) claimEntry { e.Mode = "shared"; return e }
	early := func(e claimEntry) claimEntry { e.Until = at.Add(time.Second); return e }
	inner := func(e claimEntry) claimEntry { e.Dir = "/co/a"; return e }
	one, end := entry("reserved", "r1", "x", "a/**"), entry("released", "r1", "x", "a/**")
	other, otherEnd := entry("reserved", "r2", "y", "**/1.go"), entry("orphaned", "r2", "y", "**/1.go")
	for _, c := range []struct {
		name string
		log  []claimEntry
		says string
	}{
		{"one after the other", []claimEntry{one, end, other, otherEnd}, ""},
		{"apart", []claimEntry{one, entry("reserved", "r2", "y", "c"), end, entry("lapsed", "r2", "y", "c")}, ""},
		{"handed on", []claimEntry{one, entry("transferred", "r1", "y", "a/**"), other, otherEnd, entry("released", "r1", "y", "a/**")}, ""},
		{"shared", []claimEntry{shared(one), shared(other), end, otherEnd}, ""},
		{"one's own", []claimEntry{one, entry("reserved", "r2", "x", "a/1.go"), end, entry("released", "r2", "x", "a/1.go")}, ""},
		{"two", []claimEntry{one, other, end, otherEnd}, "y has a/1.go in r2 while x has r1"},
		{"two of two scopes", []claimEntry{one, inner(entry("reserved", "r2", "y", "1.go")), end, otherEnd}, "y has a/1.go"},
		{"shared and not", []claimEntry{shared(one), other, end, otherEnd}, "y has a/1.go"},
		{"handed to where it overlaps", []claimEntry{one, entry("reserved", "r2", "x", "a/1.go"), entry("transferred", "r2", "y", "a/1.go"), end,
			entry("released", "r2", "y", "a/1.go")}, "y has a/1.go"},
		{"not shared any more", []claimEntry{shared(one), shared(other), entry("renewed", "r1", "x", "a/**"), end, otherEnd}, "x has a/1.go"},
		{"stuck", []claimEntry{one}, "r1 has no end"},
		{"ended twice", []claimEntry{one, end, end}, "out of turn"},
		{"begun twice", []claimEntry{one, one, end}, "out of turn"},
		{"begun again", []claimEntry{one, end, one, end}, "out of turn"},
		{"before its time", []claimEntry{one, early(entry("lapsed", "r1", "x", "a/**"))}, "lapsed before"},
		{"of nobody", []claimEntry{entry("reserved", "r1", "x", "d"), end}, "nobody asked for"},
	} {
		wrong := checkClaims(c.log, "/co")
		if c.says == "" {
			require.Empty(t, wrong, c.name)
			continue
		}
		require.NotEmpty(t, wrong, c.name)
		require.Contains(t, wrong[0], c.says, c.name)
	}
}
